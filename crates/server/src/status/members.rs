//! The list of members and its change, for operators.

use api::members::{ListedMember, MemberList, MembersPlan, MissingFact, WaitingNode};
use cluster::layout::{self, Lists, Phase, WhichList};
use cluster::{NodeId, Replicas};
use node::{ChangesStatus, Plan};
use std::collections::{BTreeMap, BTreeSet};
use units::{bytes, counted, rough_span};

/// What a store takes in a second, about, if nothing else is to be done.
const BYTES_A_SECOND: u64 = 100 << 20;

/// A change that would take more of the disk of a node that gains keys is refused.
const DISK_PERCENT_MAX: u64 = 85;

/// A share of background work below this is counted as this: it says little about the next hours.
const SHARE_MIN: f64 = 0.05;

/// The list, if this node has one.
pub(crate) fn list(status: &ChangesStatus) -> Option<MemberList> {
    let list = status.list.as_deref()?;
    let name = |node: NodeId| name_in(list, node);
    let members = list.members().iter().map(|listed| {
        let report = status.reported.get(listed.id).copied().unwrap_or_default();
        let facts = if report.change == list.change() {
            report.equal_with.iter().map(name).collect()
        } else {
            Vec::new()
        };
        ListedMember {
            name: listed.member.name().to_owned(),
            url: listed.member.url().to_string(),
            zone: listed.zone.clone(),
            lists: match listed.lists {
                Lists::Both => "both",
                Lists::Old => "old",
                Lists::New => "new",
            }
            .to_owned(),
            dead: listed.is_dead,
            up: status.up.contains(listed.id),
            reported: report.epoch.as_u64(),
            has_data_of: facts,
        }
    });
    let waits_for = status.waits_for();
    let facts = waits_for.iter().flat_map(|waits| &waits.facts);
    let reports = waits_for.iter().flat_map(|waits| &waits.reports);
    let waiting = status.waiting.iter().map(|waiting| WaitingNode {
        name: waiting.member.name().to_owned(),
        url: waiting.member.url().to_string(),
        zone: waiting.zone.clone(),
        heard_seconds_ago: waiting.heard_ago.as_secs(),
        clock_ahead_ms: waiting.ahead_ms,
    });
    Some(MemberList {
        cluster_id: format!("{:016x}", list.cluster().as_u64()),
        epoch: list.epoch().as_u64(),
        phase: list.phase().word().to_owned(),
        default_pair: pair(list.default_pair()),
        members: members.collect(),
        missing_reports: reports.map(|node| name(*node)).collect(),
        missing_facts: facts
            .map(|(node, old)| MissingFact {
                node: name(*node),
                data_of: name(*old),
            })
            .collect(),
        waiting: waiting.collect(),
        removed: status.is_removed,
    })
}

fn name_in(list: &layout::MemberList, node: NodeId) -> String {
    let listed = list.get(node);
    listed.map_or_else(|| node.to_string(), |it| it.member.name().to_owned())
}

fn pair(Replicas { ack, from }: Replicas) -> String {
    format!("{ack}/{from}")
}

/// What a member has said of its data and its disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MemberNumbers {
    pub(crate) data_bytes: u64,
    pub(crate) free_bytes: Option<u64>,
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) background_share: f64,
}

/// A plan, for operators. `numbers` holds what each member has said; those that have said nothing
/// are missing.
pub(crate) fn plan(plan: &Plan, numbers: &BTreeMap<NodeId, MemberNumbers>) -> MembersPlan {
    let (before, after) = (&*plan.before, &*plan.after);
    let moves = moves(after, numbers);
    let moved_bytes = moves.as_ref().map(|moves| moves.values().sum());
    let seconds = moves.as_ref().map(|moves| seconds(moves, numbers));
    let mut text = changes(before, after);
    text.extend(moves.filter(|moves| !moves.is_empty()).map(|moves| {
        let total: u64 = moves.values().sum();
        let each: Vec<String> = moves
            .iter()
            .map(|(node, share)| of_move(after, *node, *share, numbers))
            .collect();
        let span = seconds.map_or_else(String::new, |[least, most]| {
            format!(", in {} to {}", rough_span(least), rough_span(most))
        });
        format!("About {} move{span}: {}.", bytes(total as f64), join(&each))
    }));
    if before.default_pair() == after.default_pair() {
        text.push(format!(
            "Requests that name no pair go on with {}.",
            pair(after.default_pair())
        ));
    }
    let down: Vec<String> = plan.down.iter().map(|node| name_in(after, *node)).collect();
    if !down.is_empty() && after.phase() != Phase::Stable {
        text.push(format!(
            "{} of {} {} down ({}): the change begins, and ends only once they are back, or are \
             declared dead.",
            down.len(),
            counted(after.members().len() as u64, "member"),
            if down.len() == 1 { "is" } else { "are" },
            down.join(", ")
        ));
    }
    MembersPlan {
        dry_run: plan.is_dry_run,
        epoch: after.epoch().as_u64(),
        phase: after.phase().word().to_owned(),
        moved_bytes,
        seconds_min: seconds.map(|[least, _]| least),
        seconds_max: seconds.map(|[_, most]| most),
        down,
        text,
    }
}

/// How many bytes each gaining node gains, about: keys spread evenly. `None` if a member that holds
/// them has not said how much it holds.
fn moves(
    after: &layout::MemberList,
    numbers: &BTreeMap<NodeId, MemberNumbers>,
) -> Option<BTreeMap<NodeId, u64>> {
    let gaining: Vec<NodeId> = match after.phase() {
        Phase::Copying => after.gaining().iter().collect(),
        Phase::Stable | Phase::Settling | Phase::Aborting => Vec::new(),
    };
    if gaining.is_empty() {
        return Some(BTreeMap::new());
    }
    let mut total: u64 = 0;
    for member in after.members_of(WhichList::Old) {
        match numbers.get(&member.id) {
            Some(said) => total += said.data_bytes,
            // What a dead member held has copies on the others.
            None if member.is_dead => {}
            None => return None,
        }
    }
    let members = after.members_of(WhichList::New).count() as u64;
    let share = total / members.max(1);
    let held = |node: &NodeId| numbers.get(node).map_or(0, |said| said.data_bytes);
    let gained = gaining.into_iter().map(|node| {
        let gained = share.saturating_sub(held(&node));
        (node, gained)
    });
    Some(gained.collect())
}

/// Adds what nodes that wait to join have said, to what members have said.
pub(crate) fn add_joiners(
    numbers: &mut BTreeMap<NodeId, MemberNumbers>,
    list: &layout::MemberList,
    waiting: &[node::WaitingNode],
) {
    for member in list.members().iter().filter(|it| it.lists == Lists::New) {
        let joiner = waiting.iter().find(|it| it.member == member.member);
        if let Some(joiner) = joiner {
            let said = MemberNumbers {
                data_bytes: 0,
                free_bytes: joiner.disk.free_bytes,
                disk_bytes: joiner.disk.disk_bytes,
                background_share: 1.0,
            };
            numbers.insert(member.id, said);
        }
    }
}

/// The first gaining node whose disk would be too full, with the percentage of it that would be
/// taken. What takes less than a hundredth of a disk is no reason.
pub(crate) fn full_disk(
    plan: &Plan,
    numbers: &BTreeMap<NodeId, MemberNumbers>,
) -> Option<(String, u64)> {
    let moves = moves(&plan.after, numbers)?;
    moves.into_iter().find_map(|(node, gained)| {
        let said = numbers.get(&node)?;
        let (free, all) = (said.free_bytes?, said.disk_bytes.filter(|all| *all > 0)?);
        let taken = all.saturating_sub(free).saturating_add(gained);
        let percent = |bytes: u64| (bytes as f64 / all as f64 * 100.0) as u64;
        let is_full = percent(gained) >= 1 && percent(taken) >= DISK_PERCENT_MAX;
        is_full.then(|| (name_in(&plan.after, node), percent(taken)))
    })
}

/// How long moves take, in seconds: at least, and with the share of time that background work has
/// now. Nodes take their data at the same time.
fn seconds(moves: &BTreeMap<NodeId, u64>, numbers: &BTreeMap<NodeId, MemberNumbers>) -> [u64; 2] {
    let most = moves.values().max().copied().unwrap_or(0);
    let least = most / BYTES_A_SECOND;
    let shares = numbers.values().map(|said| said.background_share);
    let share = shares.fold(1.0, f64::min).max(SHARE_MIN);
    [least, (least as f64 / share) as u64]
}

fn of_move(
    list: &layout::MemberList,
    node: NodeId,
    gained: u64,
    numbers: &BTreeMap<NodeId, MemberNumbers>,
) -> String {
    let free = numbers.get(&node).and_then(|said| said.free_bytes);
    let free = free.map_or_else(String::new, |free| {
        format!(", which has {} free", bytes(free as f64))
    });
    let (name, gained) = (name_in(list, node), bytes(gained as f64));
    format!("{gained} to {name}{free}")
}

/// What the list says that is new, a sentence for each.
fn changes(before: &layout::MemberList, after: &layout::MemberList) -> Vec<String> {
    let mut text = Vec::new();
    let names = |is_it: &dyn Fn(&layout::ListedMember) -> bool| -> Vec<String> {
        let members = after.members().iter().filter(|member| is_it(member));
        members.map(|it| it.member.name().to_owned()).collect()
    };
    let verb = |names: &[String], one: &str, many: &str| {
        let verb = if names.len() == 1 { one } else { many };
        format!("{} {verb}", join(names))
    };
    let is_new = |phase: Phase| after.phase() == phase && before.phase() != phase;
    if is_new(Phase::Copying) {
        let join = names(&|it| it.lists == Lists::New);
        if !join.is_empty() {
            text.push(format!("{} the cluster.", verb(&join, "joins", "join")));
        }
        for zone in zones_of_joiners(after) {
            let fellows = names(&|it| it.zone.as_deref() == Some(zone) && it.lists != Lists::Old);
            text.push(format!(
                "In zone {zone} {} then: a key has a second replica there only if all other zones \
                 have one.",
                verb(&fellows, "is", "are")
            ));
        }
        let leave = names(&|it| it.lists == Lists::Old && !it.is_dead);
        if !leave.is_empty() {
            text.push(format!("{} the cluster.", verb(&leave, "leaves", "leave")));
        }
    }
    let was_dead = before.dead();
    let dead = names(&|it| it.is_dead && !was_dead.contains(it.id));
    if !dead.is_empty() {
        text.push(format!(
            "{} declared dead: nothing waits for {} any more, and what no other node holds is lost. \
             Make sure that no such process is running.",
            verb(&dead, "is", "are"),
            if dead.len() == 1 { "it" } else { "them" }
        ));
    }
    if before.cluster() != after.cluster() {
        let left = names(&|it| !it.is_dead);
        text.push(format!(
            "{}, as another cluster: nobody has voted on that. Where too few of a key's replicas are \
             left, requests fail until the dead have left.",
            verb(&left, "goes on by itself", "go on by themselves")
        ));
        let from = after.default_pair().from;
        if left.len() < usize::from(from) {
            text.push(format!(
                "The dead leave once requests ask no more than the {} left: change the default pair \
                 then, which is {} now.",
                counted(left.len() as u64, "member"),
                pair(after.default_pair())
            ));
        }
    }
    for member in after.members() {
        let url = before.get(member.id).map(|known| known.member.url());
        if url.is_some_and(|url| url != member.member.url()) {
            text.push(format!(
                "{} is reached at {} from now on. No key gets another place; an empty store there \
                 is rebuilt from the other members.",
                member.member.name(),
                member.member.url()
            ));
        }
    }
    let (old, new) = (before.default_pair(), after.default_pair());
    if old != new {
        let sees = if overlaps(new, old) {
            "Its reads see all that was acknowledged with the old pair."
        } else {
            "Its reads may miss what was acknowledged with the old pair, until a repair has spread it."
        };
        text.push(format!(
            "Requests that name no pair use {} instead of {}. {sees}",
            pair(new),
            pair(old)
        ));
    }
    if is_new(Phase::Aborting) || before.phase() == Phase::Copying && after.phase() == Phase::Stable
    {
        text.push(
            "The change is undone: the old members keep all keys. Empty the folders of nodes that \
             were to join before they try again."
                .to_owned(),
        );
    }
    text
}

/// The zones in which nodes join.
fn zones_of_joiners(after: &layout::MemberList) -> BTreeSet<&str> {
    let joiners = after.members().iter().filter(|it| it.lists == Lists::New);
    joiners.filter_map(|it| it.zone.as_deref()).collect()
}

/// Whether reads of one pair always meet a replica that has acknowledged a write of the other. The
/// replicas of the smaller `from` are the first ones of the larger.
fn overlaps(reads: Replicas, writes: Replicas) -> bool {
    let (small, large) = if reads.from <= writes.from {
        (reads, writes)
    } else {
        (writes, reads)
    };
    let outside = large.from - small.from;
    let inside = large.ack.saturating_sub(outside);
    u16::from(small.ack) + u16::from(inside) > u16::from(small.from)
}

fn join(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::layout::{Change, ClusterId, JoinedStore, Joiner};
    use cluster::{Member, NodeSet};
    use std::sync::Arc;

    fn member(name: &str) -> Member {
        format!("{name}=http://{name}:1").parse().unwrap()
    }

    fn before() -> layout::MemberList {
        let members = ["a", "b", "c", "d"].map(member).to_vec();
        let pair = Replicas::new(2, 3).unwrap();
        layout::MemberList::founding(ClusterId::new(0xab), members, pair).unwrap()
    }

    fn planned(change: &Change, down: &[u8]) -> MembersPlan {
        let before = before();
        let after = before.plan(change, NodeSet::default()).unwrap();
        let numbers = (0..4).map(|id| {
            let said = MemberNumbers {
                data_bytes: 30 << 30,
                free_bytes: (id == 0).then_some(5 << 30),
                disk_bytes: None,
                background_share: if id == 1 { 0.5 } else { 1.0 },
            };
            (NodeId::new(id), said)
        });
        let of = Plan {
            before: Arc::new(before),
            after: Arc::new(after),
            down: down.iter().copied().map(NodeId::new).collect(),
            is_dry_run: true,
        };
        plan(&of, &numbers.collect())
    }

    #[test]
    fn a_disk_that_would_be_too_full_is_found() {
        let before = before();
        let change = members(&["e"], &[], false);
        let after = before.plan(&change, NodeSet::default()).unwrap();
        let plan = Plan {
            before: Arc::new(before),
            after: Arc::new(after),
            down: Vec::new(),
            is_dry_run: true,
        };
        let full = |free_gib: u64, disk_gib: u64, data_gib: u64| {
            let said = |id: u8| MemberNumbers {
                data_bytes: if id < 4 { data_gib << 30 } else { 0 },
                free_bytes: Some(free_gib << 30),
                disk_bytes: Some(disk_gib << 30),
                background_share: 1.0,
            };
            let numbers = (0..5).map(|id| (NodeId::new(id), said(id))).collect();
            full_disk(&plan, &numbers)
        };
        // e gains a fifth of four times 25 GiB.
        assert_eq!(full(100, 100, 25), None);
        assert_eq!(full(36, 100, 25), None);
        assert_eq!(full(35, 100, 25), Some(("e".to_owned(), 85)));
        // It takes next to nothing of a disk that is full already.
        assert_eq!(full(35, 1000, 1), None);
        let mut numbers = BTreeMap::new();
        let waiting = node::WaitingNode {
            member: member("e"),
            zone: None,
            ahead_ms: 0,
            disk: peer::JoinerDisk {
                free_bytes: Some(7),
                disk_bytes: Some(8),
            },
            heard_ago: std::time::Duration::ZERO,
        };
        add_joiners(&mut numbers, &plan.after, &[waiting]);
        let added = numbers.get(&NodeId::new(4)).unwrap();
        assert_eq!((added.free_bytes, added.disk_bytes), (Some(7), Some(8)));
        assert_eq!(full_disk(&plan, &numbers), None);
    }

    #[test]
    fn a_plan_that_is_forced_says_who_is_left_and_what_is_to_be_done_then() {
        let before = before();
        let left = ["a", "b"].map(str::to_owned);
        let up = [0, 1].map(NodeId::new).into_iter().collect();
        let after = before.forced(&left, ClusterId::new(0xcd), up).unwrap();
        let of = Plan {
            before: Arc::new(before),
            after: Arc::new(after),
            down: Vec::new(),
            is_dry_run: true,
        };
        let text = plan(&of, &BTreeMap::new()).text;
        assert!(text[0].starts_with("c and d are declared dead"), "{text:?}");
        assert!(
            text[1].starts_with("a and b go on by themselves"),
            "{text:?}"
        );
        let pair = "no more than the 2 members left";
        assert!(
            text[2].contains(pair) && text[2].contains("2/3"),
            "{text:?}"
        );
    }

    #[test]
    fn a_plan_says_who_is_in_the_zone_of_a_node_that_joins() {
        let mut change = members(&["e", "f"], &[], false);
        if let Change::Members { join, .. } = &mut change {
            for joiner in join {
                joiner.zone = Some("rack-1".to_owned());
            }
        }
        let expected = "In zone rack-1 e and f are then: a key has a second replica there only if \
                        all other zones have one.";
        assert_eq!(planned(&change, &[]).text[1], expected);
    }

    fn members(join: &[&str], leave: &[&str], are_dead: bool) -> Change {
        let joiner = |name: &&str| Joiner {
            member: member(name),
            zone: None,
            store: JoinedStore {
                store_id: 1,
                start: 2,
            },
        };
        Change::Members {
            join: join.iter().map(joiner).collect(),
            leave: leave.iter().map(|name| (*name).to_owned()).collect(),
            are_dead,
        }
    }

    #[test]
    fn a_plan_says_what_moves_and_how_long_that_takes() {
        let join = planned(&members(&["e"], &[], false), &[2]);
        assert_eq!(join.moved_bytes, Some(24 << 30));
        assert_eq!((join.seconds_min, join.seconds_max), (Some(245), Some(490)));
        let expected = [
            "e joins the cluster.",
            "About 24.0 GiB move, in 4m to 8m: 24.0 GiB to e.",
            "Requests that name no pair go on with 2/3.",
            "1 of 5 members is down (c): the change begins, and ends only once they are back, or are \
             declared dead.",
        ];
        assert_eq!(join.text, expected);
        let leave = planned(&members(&[], &["b"], false), &[]);
        assert_eq!(leave.moved_bytes, Some(30 << 30));
        assert_eq!(leave.text[0], "b leaves the cluster.");
        let moves = "10.0 GiB to a, which has 5.00 GiB free, 10.0 GiB to c and 10.0 GiB to d.";
        assert!(leave.text[1].ends_with(moves), "{}", leave.text[1]);
        let dead = planned(&members(&[], &["b"], true), &[]);
        assert!(
            dead.text[0].starts_with("b is declared dead"),
            "{:?}",
            dead.text
        );
        let pair = planned(&Change::Pair(Replicas::new(2, 4).unwrap()), &[]);
        let narrow = "may miss what was acknowledged with the old pair";
        assert!(pair.text[0].contains(narrow), "{:?}", pair.text);
        assert_eq!(pair.moved_bytes, Some(0));
    }

    #[test]
    fn reads_meet_the_writes_of_another_pair_if_no_two_quorums_can_be_disjoint() {
        let pair = |ack, from| Replicas::new(ack, from).unwrap();
        for (reads, writes, expected) in [
            (pair(2, 3), pair(2, 3), true),
            (pair(1, 3), pair(2, 3), false),
            (pair(3, 5), pair(2, 3), false),
            (pair(4, 5), pair(2, 3), true),
            (pair(2, 3), pair(4, 5), true),
            (pair(2, 3), pair(3, 5), false),
            (pair(1, 1), pair(3, 3), true),
        ] {
            assert_eq!(overlaps(reads, writes), expected, "{reads:?} {writes:?}");
        }
    }

    #[test]
    fn the_list_names_what_the_change_waits_for() {
        let before = before();
        let copying = before.plan(&members(&["e"], &[], false), NodeSet::default());
        let copying = copying.unwrap();
        let node = NodeId::new;
        let mut reports = layout::Reports::default();
        let mut reported = cluster::NodeTable::default();
        for id in 0..5 {
            let report = layout::MemberReport {
                epoch: copying.epoch(),
                change: copying.change(),
                equal_with: [node(0), node(2), node(3)].into_iter().collect(),
            };
            if id != 3 {
                reports.record(node(id), report);
                reported.insert(node(id), report);
            }
        }
        let status = ChangesStatus {
            own: node(0),
            progress: copying.progress(&reports),
            list: Some(Arc::new(copying)),
            is_removed: false,
            reported,
            up: [node(0), node(4)].into_iter().collect(),
            waiting: Vec::new(),
        };
        let told = list(&status).unwrap();
        assert_eq!(
            (told.epoch, &*told.phase, &*told.default_pair),
            (1, "copying", "2/3")
        );
        assert_eq!(told.cluster_id, "00000000000000ab");
        assert_eq!(told.missing_reports, ["d"]);
        let missing = MissingFact {
            node: "e".to_owned(),
            data_of: "b".to_owned(),
        };
        assert_eq!(told.missing_facts, [missing]);
        let joiner = &told.members[4];
        assert_eq!(
            (&*joiner.name, &*joiner.lists, joiner.up),
            ("e", "new", true)
        );
        assert_eq!(joiner.has_data_of, ["a", "c", "d"]);
    }
}
