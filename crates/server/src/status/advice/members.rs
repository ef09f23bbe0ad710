//! A change of the members that is under way.

use api::cluster::{Advice, Severity};
use api::members::MemberList;
use cluster::Replicas;

const RUNBOOK: &str = "A change of the members does not end";

/// How far it is, and whom it waits for in vain.
pub(super) fn of(list: &MemberList) -> Option<Advice> {
    if list.phase == "stable" {
        return of_dead(list);
    }
    let members = list.members.iter();
    let away = members.filter(|member| !member.up && !member.dead);
    let away: Vec<&str> = away.map(|member| member.name.as_str()).collect();
    let under_way = format!("a change of the members is under way ({})", list.phase);
    Some(if away.is_empty() {
        Advice::of_cluster(
            Severity::Note,
            under_way,
            "Requests go on meanwhile; 'kvorum admin members' shows how far it is",
            RUNBOOK,
        )
    } else {
        Advice::of_cluster(
            Severity::Warn,
            format!("{under_way}, and cannot end without {}", away.join(", ")),
            "Start what is down; if it never comes back, 'kvorum admin members leave NAME --dead', \
             or undo the change with 'kvorum admin members abort'",
            RUNBOOK,
        )
    })
}

/// Members that are declared dead and stay, because too few others would be left. Where enough are
/// left, the dead ones leave at once.
fn of_dead(list: &MemberList) -> Option<Advice> {
    let (dead, live): (Vec<_>, Vec<_>) = list.members.iter().partition(|member| member.dead);
    let Replicas { from, .. } = list.default_pair.parse().ok()?;
    if dead.is_empty() || live.len() >= usize::from(from) {
        return None;
    }
    let dead: Vec<&str> = dead.iter().map(|member| member.name.as_str()).collect();
    Some(Advice::of_cluster(
        Severity::Warn,
        format!(
            "{} is declared dead and still a member: requests ask {from} replicas, and {} would be \
             left",
            dead.join(", "),
            live.len()
        ),
        "Let another node take its place, 'kvorum admin members replace NAME --by NEW', or ask \
         fewer replicas, 'kvorum admin members pair A/F': then it leaves by itself",
        RUNBOOK,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_noted_and_one_that_waits_for_a_node_that_is_down_is_a_warning() {
        let of = |phase: &str, is_up: bool, is_dead: bool| {
            let list = json!({
                "cluster_id": "1", "epoch": 3, "phase": phase, "default_pair": "2/3",
                "members": [{
                    "name": "b", "url": "http://b:1", "lists": "both", "dead": is_dead,
                    "up": is_up, "reported": 3, "has_data_of": [],
                }],
                "missing_reports": [], "missing_facts": [], "waiting": [], "removed": false,
            });
            let list: MemberList = serde_json::from_value(list).unwrap();
            of(&list).map(|advice| (advice.severity, advice.what))
        };
        assert_eq!(of("stable", false, false), None);
        let stuck =
            "b is declared dead and still a member: requests ask 3 replicas, and 0 would be left";
        assert_eq!(
            of("stable", false, true),
            Some((Severity::Warn, stuck.to_owned()))
        );
        let under_way = "a change of the members is under way (copying)".to_owned();
        assert_eq!(
            of("copying", true, false),
            Some((Severity::Note, under_way.clone()))
        );
        assert_eq!(
            of("copying", false, true),
            Some((Severity::Note, under_way.clone()))
        );
        let waits = format!("{under_way}, and cannot end without b");
        assert_eq!(of("copying", false, false), Some((Severity::Warn, waits)));
    }
}
