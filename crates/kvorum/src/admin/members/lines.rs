//! The list of members as lines for people.

use api::members::{ListedMember, MemberList};

/// The list for people.
pub(super) fn lines_of(list: &MemberList) -> Vec<String> {
    let mut lines = vec![format!(
        "epoch {}, {}; requests that name no pair use {}",
        list.epoch, list.phase, list.default_pair
    )];
    let width =
        |of: &dyn Fn(&ListedMember) -> usize| list.members.iter().map(of).max().unwrap_or(0);
    let (names, urls) = (width(&|it| it.name.len()), width(&|it| it.url.len()));
    for member in &list.members {
        let is_changing = list.phase != "stable";
        let role = match member.lists.as_str() {
            "new" => "joins",
            "old" => "leaves",
            _ => "stays",
        };
        let state = match (member.dead, member.up) {
            (true, _) => "dead",
            (false, true) => "up",
            (false, false) => "down",
        };
        let mut line = format!("{:names$}  {:urls$}  {state:4}", member.name, member.url);
        if is_changing {
            line += &format!("  {role:6}  has reported {}", member.reported);
        }
        if is_changing && !member.has_data_of.is_empty() {
            line += &format!(", has the data of {}", member.has_data_of.join(", "));
        }
        if let Some(zone) = &member.zone {
            line += &format!("  zone {zone}");
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.extend(waits_of(list).map(|waits| format!("the change waits for {waits}")));
    for waiting in &list.waiting {
        let zone = waiting.zone.as_ref();
        let zone = zone.map_or_else(String::new, |zone| format!(" in zone {zone}"));
        lines.push(format!(
            "{} at {}{zone} waits to join: 'kvorum admin members join {}'",
            waiting.name, waiting.url, waiting.name
        ));
    }
    lines
}

/// What a change waits for, or that its next step follows by itself.
pub(crate) fn waits_for(list: &MemberList) -> String {
    match waits_of(list) {
        Some(waits) => format!("waits for {waits}"),
        None => "the next step follows".to_owned(),
    }
}

/// What a change waits for, for people.
fn waits_of(list: &MemberList) -> Option<String> {
    let mut waits = Vec::new();
    if !list.missing_reports.is_empty() {
        waits.push(format!("a report of {}", list.missing_reports.join(", ")));
    }
    waits.extend(
        list.missing_facts
            .iter()
            .map(|fact| format!("{} to have the data of {}", fact.node, fact.data_of)),
    );
    (!waits.is_empty()).then(|| waits.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{list, member};
    use super::*;
    use api::members::{MissingFact, WaitingNode};

    #[test]
    fn the_list_says_who_comes_and_goes_and_what_the_change_waits_for() {
        let mut gaining = member("d", "new");
        gaining.zone = Some("rack-1".to_owned());
        gaining.has_data_of = vec!["a".to_owned()];
        let mut dead = member("bb", "old");
        dead.dead = true;
        let mut copying = list("copying", vec![member("a", "both"), dead, gaining]);
        copying.missing_reports = vec!["a".to_owned()];
        copying.missing_facts = vec![MissingFact {
            node: "d".to_owned(),
            data_of: "c".to_owned(),
        }];
        copying.waiting = vec![WaitingNode {
            name: "e".to_owned(),
            url: "http://e:1".to_owned(),
            zone: Some("rack-1".to_owned()),
            heard_seconds_ago: 1,
            clock_ahead_ms: 0,
        }];
        let expected = [
            "epoch 3, copying; requests that name no pair use 2/3",
            "a   http://a:1   up    stays   has reported 3",
            "bb  http://bb:1  dead  leaves  has reported 3",
            "d   http://d:1   up    joins   has reported 3, has the data of a  zone rack-1",
            "the change waits for a report of a; d to have the data of c",
            "e at http://e:1 in zone rack-1 waits to join: 'kvorum admin members join e'",
        ];
        assert_eq!(lines_of(&copying), expected);
        let mut ended = member("a", "both");
        ended.has_data_of = vec!["b".to_owned()];
        let stable = list("stable", vec![ended]);
        assert_eq!(lines_of(&stable)[1], "a  http://a:1  up");
    }
}
