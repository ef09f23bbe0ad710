//! What sessions move in a change of the members, on stores in memory.

use super::runs::TestNode;
use super::{STORE, agreed, commit, engine_on, full, part_environment, reach};
use crate::RepairSizes;
use crate::session::part::{Agreed, Gap, PartEnvironment, Participant, RangeId, StreamedKeys};
use base::{Entry, Expiry, Timestamp};
use bytes::Bytes;
use cluster::comparison::KeyBounds;
use cluster::comparison::symbols::Decoder;
use cluster::layout::{Change, ClusterId, JoinedStore, Joiner, MemberList, Placements};
use cluster::repair::SessionId;
use cluster::{Layout, Member, NodeId, NodeSet, Replicas};
use lsm_testing::{BlockingWrite, MemoryDisk};
use membership::Layouts;
use std::collections::BTreeMap;
use std::sync::Arc;

const SESSION: SessionId = full(7);
const CUT: u64 = 1 << 40;

fn member(name: &str) -> Member {
    format!("{name}=http://{name}:80").parse().unwrap()
}

/// The first list, and that of a change in which nodes join and leave.
fn change(names: &[&str], join: &[&str], leave: &[&str], from: u8) -> [MemberList; 2] {
    let members = names.iter().map(|name| member(name)).collect();
    let pair = Replicas::quorum(from);
    let before = MemberList::founding(ClusterId::new(1), members, pair).unwrap();
    let joiner = |name: &&str| Joiner {
        member: member(name),
        zone: None,
        store: JoinedStore {
            store_id: 1,
            start: 2,
        },
    };
    let change = Change::Members {
        join: join.iter().map(joiner).collect(),
        leave: leave.iter().map(|name| (*name).to_owned()).collect(),
        are_dead: false,
    };
    let after = before.plan(&change, NodeSet::default()).unwrap();
    [before, after]
}

/// A node of a list that is in force.
fn node_of(list: &MemberList, id: NodeId, entries: &[Entry]) -> TestNode {
    let engine = engine_on(&Arc::new(MemoryDisk::new()));
    for entry in entries {
        engine.write(entry.clone()).unwrap();
    }
    let own = Participant::new(PartEnvironment {
        layouts: Layouts::new(Layout::of(list, id).unwrap()),
        sizes: RepairSizes {
            range_bytes: 200_000,
            ..RepairSizes::default()
        },
        ..part_environment(&engine, NodeId::new(0))
    });
    TestNode {
        number: id,
        engine,
        own,
    }
}

fn begin(node: &mut TestNode, list: &MemberList) {
    node.own.begin(SESSION, list.epoch(), STORE).unwrap();
    let places = list.greatest_id().index() + 1;
    let agreed = Agreed {
        reaches: vec![u8::MAX; places],
        ..agreed(CUT, vec![KeyBounds::everything(); places])
    };
    node.own.agree(SESSION, agreed).unwrap();
}

/// Sends the newest versions of keys; gives the bytes of keys and values.
fn give(from: &mut TestNode, to: &mut TestNode, range: RangeId, keys: &[Bytes]) -> usize {
    let newest = from.own.newest(range, keys, usize::MAX);
    let mut entries = newest.unwrap().unwrap().entries;
    entries.sort_by(|one, other| one.key().cmp(other.key()));
    let bytes = entries.iter().map(Entry::data_bytes).sum();
    let all = StreamedKeys::default();
    to.own.take_run(range, &all, entries).unwrap();
    bytes
}

/// Has `to` take from `from` what it lacks of a range. Gives the bytes of keys and values that
/// `from` has sent.
fn exchange(
    nodes: &mut BTreeMap<NodeId, TestNode>,
    [from, to]: [NodeId; 2],
    range: RangeId,
) -> usize {
    let mut gaining = nodes.remove(&to).unwrap();
    let other = nodes.get_mut(&from).unwrap();
    let theirs = other.own.recount(range, to).unwrap();
    let mut sent = 0;
    if let Gap::Large { parts } = gaining.own.gap(range, from, theirs).unwrap() {
        for mut keys in parts {
            loop {
                let run = other.own.run(range, to, &keys).unwrap().unwrap().run;
                let entries = run.entries().unwrap();
                sent += entries.iter().map(Entry::data_bytes).sum::<usize>();
                let last = entries.last().map(|last| last.key().to_vec().into());
                gaining.own.take_run(range, &keys, entries).unwrap();
                if run.is_last {
                    break;
                }
                keys.after = last;
            }
        }
    }
    if gaining.own.gap(range, from, theirs) != Ok(Gap::None) {
        // What is left costs less by symbols. The other node may gain keys, too.
        let symbols = other.own.symbols(range, to, 0, 2048).unwrap();
        let mut decoder = Decoder::default();
        let plan = gaining
            .own
            .plan(range, from, &mut decoder, &symbols, theirs);
        let plan = plan.unwrap().unwrap();
        let fetched = other.own.keys_of(range, plan.fetch).unwrap();
        sent += give(other, &mut gaining, range, &fetched);
        sent += give(&mut gaining, other, range, &plan.send);
    }
    let theirs = other.own.recount(range, to).unwrap();
    assert_eq!(gaining.own.gap(range, from, theirs), Ok(Gap::None));
    nodes.insert(to, gaining);
    sent
}

/// Walks all nodes through a session of the change, in which each gaining node takes what it lacks
/// from each old member in turn. Returns the bytes that were sent, and those that gaining nodes
/// lacked.
fn move_data([before, list]: &[MemberList; 2], entries: &[Entry]) -> [usize; 2] {
    let [old, union] = [before, list].map(Placements::from);
    let mut nodes = BTreeMap::new();
    let mut lacked = 0;
    for member in list.members() {
        let holds = |placements: &Placements, entry: &Entry| {
            placements.is_replica(member.id, entry.key(), entry.copies())
        };
        let held: Vec<Entry> = entries
            .iter()
            .filter(|it| holds(&old, it))
            .cloned()
            .collect();
        let all = entries.iter().filter(|it| holds(&union, it));
        let all: usize = all.map(Entry::data_bytes).sum();
        lacked += all - held.iter().map(Entry::data_bytes).sum::<usize>();
        nodes.insert(member.id, node_of(list, member.id, &held));
    }
    for node in nodes.values_mut() {
        begin(node, list);
    }
    let gaining: Vec<NodeId> = list.gaining().iter().collect();
    let (mut start, mut sent) = (Bytes::new(), 0);
    for number in 0.. {
        let ends = nodes
            .values_mut()
            .map(|node| reach(&mut node.own, SESSION, &start));
        let end = ends.flatten().min();
        for node in nodes.values_mut() {
            let digested = node.own.digest(SESSION, number, end.as_deref()).unwrap();
            digested.streamed.write().unwrap();
        }
        for to in &gaining {
            for from in before.voters().iter().filter(|from| from != to) {
                sent += exchange(&mut nodes, [from, *to], (SESSION, number));
            }
        }
        match end {
            Some(end) => start = end,
            None => break,
        }
    }
    for node in nodes.values_mut() {
        commit(&mut node.own, SESSION).unwrap();
        let id = node.number;
        let is_kept = |entry: &&Entry| union.is_replica(id, entry.key(), entry.copies());
        let kept: Vec<Entry> = entries.iter().filter(is_kept).cloned().collect();
        assert!(node.stored() == kept, "node {id}");
    }
    [sent, lacked]
}

/// Keys whose values have this length.
fn entries(count: usize, value_bytes: usize, copies: u8) -> Vec<Entry> {
    let value = vec![b'v'; value_bytes];
    let entry = |number: usize| {
        let (key, at) = (format!("{number:06}"), Timestamp::from_u64(5));
        Entry::value(key.as_bytes(), at, &value, Expiry::NEVER, copies)
    };
    (0..count).map(entry).collect()
}

#[test]
fn a_change_moves_what_gaining_nodes_lack_and_nothing_twice() {
    for (names, join, leave, from) in [
        (&["a", "b", "c"][..], &["d"][..], &[][..], 3),
        (&["a", "b", "c"], &["d", "e"], &[], 2),
        (&["a", "b", "c", "d"], &[], &["b"], 3),
        (&["a", "b", "c"], &["d"], &["b"], 2),
    ] {
        let lists = change(names, join, leave, from);
        let [sent, lacked] = move_data(&lists, &entries(6_000, 100, from));
        assert!(lacked > 0 && sent >= lacked, "{join:?} {leave:?}");
        let ratio = sent as f64 / lacked as f64;
        assert!(ratio <= 1.05, "{join:?} join, {leave:?} leave: {ratio}");
    }
}

#[test]
fn a_node_takes_no_part_in_a_session_of_another_list_and_leaves_one() {
    let [before, list] = change(&["a", "b", "c"], &["d"], &[], 2);
    let own = NodeId::new(0);
    let engine = engine_on(&Arc::new(MemoryDisk::new()));
    let layouts = Layouts::new(Layout::of(&before, own).unwrap());
    let mut participant = Participant::new(PartEnvironment {
        layouts: layouts.clone(),
        ..part_environment(&engine, own)
    });
    let begin = |participant: &mut Participant, list: &MemberList| {
        participant.begin(SESSION, list.epoch(), STORE).is_some()
    };
    assert!(!begin(&mut participant, &list));
    assert!(begin(&mut participant, &before));
    assert!(commit(&mut participant, SESSION).is_ok());
    layouts.put_in_force(Arc::new(Layout::of(&list, own).unwrap()));
    assert!(commit(&mut participant, SESSION).is_err());
    assert_eq!(participant.sessions().count(), 0);
    assert!(begin(&mut participant, &list));
    layouts.put_in_force(Arc::new(Layout::of(&before, own).unwrap()));
    let equal_with = [NodeId::new(1)];
    assert!(
        participant
            .end(SESSION, STORE, (&equal_with, &equal_with))
            .is_none()
    );
}
