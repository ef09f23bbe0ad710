//! Runs between the parts of several nodes in a session, on stores in memory.

use super::{begin, commit, engine_on, part_environment, participant_of, reach, sent_of};
use crate::RepairSizes;
use crate::session::part::{
    Advance, Gap, PartEnvironment, Participant, RangeId, ReadRun, RunRefusal, StreamedKeys,
};
use base::{Entry, Expiry, Timestamp};
use bytes::Bytes;
use cluster::NodeId;
use cluster::comparison::{Digest, Item};
use cluster::repair::SessionId;
use lsm::Engine;
use lsm_testing::{BlockingWrite, MemoryDisk};
use std::sync::Arc;

const SESSION: SessionId = session_of(7);

const fn session_of(number: u64) -> SessionId {
    super::full(number)
}

const CUT: u64 = 1 << 40;

/// A node and its store.
pub(super) struct TestNode {
    pub(super) number: NodeId,
    pub(super) engine: Engine,
    pub(super) own: Participant,
}

impl TestNode {
    pub(super) fn new(number: u8) -> Self {
        let number = NodeId::new(number);
        let engine = engine_on(&Arc::new(MemoryDisk::new()));
        let own = participant_of(&engine, number);
        Self {
            number,
            engine,
            own,
        }
    }

    pub(super) fn with(number: u8, entries: &[Entry]) -> Self {
        let node = Self::new(number);
        for entry in entries {
            node.engine.write(entry.clone()).unwrap();
        }
        node
    }

    pub(super) fn stored(&self) -> Vec<Entry> {
        let mut scan = self.engine.scan(b"", None);
        let mut all = Vec::new();
        loop {
            let batch = scan.next_batch(1 << 20).unwrap();
            if batch.is_empty() {
                return all;
            }
            all.extend(batch);
        }
    }

    /// The keys with these hashes that it holds or has streamed.
    fn entries(&mut self, range: RangeId, keys: &[&str]) -> Vec<Entry> {
        let hashes = keys.iter().map(|key| Item::key_hash_of(key.as_bytes()));
        sent_of(&mut self.own, range, hashes.collect())
    }
}

/// Walks all nodes through a session; `compare` gets each range, with the digests of each
/// node.
fn walk(
    nodes: &mut [&mut TestNode],
    session: SessionId,
    mut compare: impl FnMut(&mut [&mut TestNode], RangeId, &[Vec<Digest>]),
) {
    for node in nodes.iter_mut() {
        begin(&mut node.own, session, CUT);
    }
    let mut start = Bytes::new();
    for range in 0.. {
        let mut end = None;
        for node in nodes.iter_mut() {
            let reached = reach(&mut node.own, session, &start);
            end = match (end, reached) {
                (None, reached) => reached,
                (Some(end), Some(reached)) => Some(Bytes::min(end, reached)),
                (end, None) => end,
            };
        }
        let (mut digests, mut streamed) = (Vec::new(), Vec::new());
        for node in nodes.iter_mut() {
            let digest = node.own.digest(session, range, end.as_deref());
            let digested = digest.unwrap();
            digests.push(digested.summary.digests);
            streamed.push(digested.streamed);
        }
        compare(nodes, (session, range), &digests);
        // The tables of a range are written while the next one is compared.
        for before in streamed {
            before.write().unwrap();
        }
        match end {
            Some(end) => start = end,
            None => return,
        }
    }
}

/// Has `to` stream what it lacks so much of; gives the number of versions that were sent.
fn stream(from: &mut TestNode, to: &mut TestNode, range: RangeId, theirs: Digest) -> usize {
    let gap = to.own.gap(range, from.number, theirs).unwrap();
    let Gap::Large { parts } = gap else {
        return 0;
    };
    let mut sent = 0;
    for mut keys in parts {
        loop {
            let read = from.own.run(range, to.number, &keys);
            let ReadRun { run, next } = read.unwrap().unwrap();
            let entries = run.entries().unwrap();
            sent += entries.len();
            let last = entries.last().map(|last| last.key().to_vec().into());
            to.own.take_run(range, &keys, entries).unwrap();
            let Some(next) = next else {
                assert!(run.is_last);
                break;
            };
            assert!(last > keys.after);
            keys.after = last;
            assert_eq!(next, keys);
            from.own.prepare_run(range, to.number, next);
        }
    }
    sent
}

fn timestamp_of(number: u64) -> Timestamp {
    Timestamp::from_u64(number)
}

fn put(key: &str, timestamp: u64, copies: u8) -> Entry {
    let value = format!("value at {timestamp}");
    let value = value.as_bytes();
    Entry::value(
        key.as_bytes(),
        timestamp_of(timestamp),
        value,
        Expiry::NEVER,
        copies,
    )
}

/// A key whose value has this length.
pub(super) fn put_bytes(number: u64, value_bytes: usize) -> Entry {
    let (key, value) = (format!("{number:06}"), vec![b'v'; value_bytes]);
    Entry::value(key.as_bytes(), timestamp_of(5), &value, Expiry::NEVER, 3)
}

/// Thousands of keys: short and long values, tombstones, values that expire.
fn mixed() -> Vec<Entry> {
    let mut random = fastrand::Rng::with_seed(3);
    let entry = |number: u64| {
        let key = format!("{number:05}");
        let (key, timestamp) = (key.as_bytes(), timestamp_of(1 + random.u64(0..1000)));
        let value = vec![b'v'; [0, 10, 1_000, 90_000][random.usize(0..100).saturating_sub(96)]];
        match number % 10 {
            0 => Entry::tombstone(key, timestamp, 3),
            1 => Entry::value(key, timestamp, &value, Expiry::at_unix_ms(number), 3),
            _ => Entry::value(key, timestamp, &value, Expiry::NEVER, 3),
        }
    };
    (0..20_000).map(entry).collect()
}

#[test]
fn a_store_that_is_empty_is_streamed_everything_once() {
    let all = mixed();
    let mut full = TestNode::with(0, &all);
    let mut other = TestNode::with(2, &all);
    let mut lost = TestNode::new(1);
    let (mut sent, mut ranges) = (0, 0);
    let pair = &mut [&mut full, &mut lost, &mut other];
    walk(pair, SESSION, |nodes, range, digests| {
        let [full, lost, other] = nodes else {
            panic!("three nodes");
        };
        ranges += 1;
        sent += stream(full, lost, range, digests[0][1]);
        // What was streamed counts: the second peer has nothing more to send.
        let gap = |lost: &mut TestNode, with| lost.own.gap(range, with, digests[2][1]);
        assert_eq!(gap(lost, full.number), Ok(Gap::None));
        assert_eq!(gap(lost, other.number), Ok(Gap::None));
    });
    assert!(ranges > 1, "{ranges} ranges");
    assert_eq!(sent, all.len());
    commit(&mut lost.own, SESSION).unwrap();
    assert!(lost.stored() == all);
}

#[test]
fn what_is_streamed_of_a_range_is_bounded() {
    let entry = |number: u64| {
        let (key, value) = (format!("{number:02}"), [b'v'; 998]);
        Entry::value(key.as_bytes(), timestamp_of(5), &value, Expiry::NEVER, 3)
    };
    let all: Vec<Entry> = (0..40).map(entry).collect();
    let mut full = TestNode::with(0, &all);
    let mut lost = TestNode::new(1);
    lost.own = Participant::new(PartEnvironment {
        sizes: RepairSizes {
            range_bytes: 10_000,
            ..RepairSizes::default()
        },
        ..part_environment(&lost.engine, lost.number)
    });
    walk(&mut [&mut full, &mut lost], SESSION, |nodes, range, _| {
        let mut take = |from: usize, to: usize| {
            let after = from.checked_sub(1);
            let keys = StreamedKeys {
                after: after.map(|last| Bytes::copy_from_slice(all[last].key())),
                ..StreamedKeys::default()
            };
            let own = &mut nodes[1].own;
            let taken = own.take_run(range, &keys, all[from..to].to_vec());
            taken.unwrap().has_room
        };
        assert!(take(0, 19));
        assert!(!take(19, 20), "twice a range");
    });
}

#[test]
fn what_was_not_committed_is_streamed_again_and_what_was_is_not() {
    let all = mixed();
    let mut full = TestNode::with(0, &all);
    let mut lost = TestNode::new(1);
    let mut repaired = |lost: &mut TestNode, session| {
        let mut sent = 0;
        walk(&mut [&mut full, lost], session, |nodes, range, digests| {
            let [full, lost] = nodes else {
                panic!("two nodes");
            };
            sent += stream(full, lost, range, digests[0][1]);
        });
        sent
    };
    // Nothing is committed by itself.
    let restart = |lost: &mut TestNode| {
        lost.own = Participant::new(PartEnvironment {
            ingest_bytes_max: usize::MAX,
            ..part_environment(&lost.engine, lost.number)
        });
    };
    restart(&mut lost);
    assert_eq!(repaired(&mut lost, session_of(1)), all.len());
    // The node restarts before the session is made durable.
    assert!(lost.stored().is_empty());
    restart(&mut lost);
    assert!(commit(&mut lost.own, session_of(1)).is_err());
    assert!(lost.stored().is_empty());
    assert_eq!(repaired(&mut lost, session_of(2)), all.len());
    commit(&mut lost.own, session_of(2)).unwrap();
    restart(&mut lost);
    assert_eq!(repaired(&mut lost, session_of(3)), 0);
    assert!(lost.stored() == all);
}

#[test]
fn a_second_peer_sends_only_what_the_first_one_lacks() {
    let first: Vec<Entry> = (0..100).map(|n| put(&format!("a{n:03}"), 5, 3)).collect();
    let newer: Vec<Entry> = (0..10).map(|n| put(&format!("a{n:03}"), 6, 3)).collect();
    let more: Vec<Entry> = (0..300).map(|n| put(&format!("b{n:03}"), 5, 3)).collect();
    let mut one = TestNode::with(0, &first);
    let mut other = TestNode::with(2, &[&first[..], &newer, &more].concat());
    let mut lost = TestNode::new(1);
    let nodes = &mut [&mut one, &mut lost, &mut other];
    walk(nodes, SESSION, |nodes, range, digests| {
        let [one, lost, other] = nodes else {
            panic!("three nodes");
        };
        assert_eq!(stream(one, lost, range, digests[0][1]), 100);
        assert_eq!(stream(other, lost, range, digests[2][1]), 310);
        let gap = lost.own.gap(range, other.number, digests[2][1]);
        assert_eq!(gap, Ok(Gap::None));
        // It differs from the first one now, and can send it what that one lacks.
        let gap = lost.own.gap(range, one.number, digests[0][1]);
        assert_eq!(gap, Ok(Gap::Small));
        let sent = lost.entries(range, &["a001", "a050", "b007"]);
        assert_eq!(sent, [newer[1].clone(), first[50].clone(), more[7].clone()]);
        // Another lost store could stream it from this one.
        let run = lost.own.run(range, one.number, &StreamedKeys::default());
        assert_eq!(run.unwrap().unwrap().run.entries().unwrap().len(), 400);
    });
    commit(&mut lost.own, SESSION).unwrap();
    assert!(lost.stored() == other.stored());
}

/// As when a member leaves, whose keys spread over all others.
#[test]
fn a_node_that_lacks_an_eighth_is_streamed_that_and_nothing_that_it_has() {
    let entry = |number: u64| put(&format!("{number:05}"), 5, 3);
    let all: Vec<Entry> = (0..36_000).map(entry).collect();
    let held = |of: u64| -> Vec<Entry> { (0..36_000).filter(|n| n % 8 < of).map(entry).collect() };
    for (of, streamed) in [(7, 4_500), (8, 0)] {
        let mut full = TestNode::with(0, &all);
        let mut gaining = TestNode::with(1, &held(of));
        let mut sent = 0;
        walk(
            &mut [&mut full, &mut gaining],
            SESSION,
            |nodes, range, digests| {
                let [full, gaining] = nodes else {
                    panic!("two nodes");
                };
                sent += stream(full, gaining, range, digests[0][1]);
                let gap = gaining.own.gap(range, full.number, digests[0][1]);
                assert_eq!(gap, Ok(Gap::None));
            },
        );
        assert_eq!(sent, streamed);
        commit(&mut gaining.own, SESSION).unwrap();
        assert!(gaining.stored() == all);
    }
    // With less than that, symbols cost less.
    let mut full = TestNode::with(0, &all);
    let most: Vec<Entry> = (0..36_000).filter(|n| n % 12 < 11).map(entry).collect();
    let mut other = TestNode::with(1, &most);
    walk(
        &mut [&mut full, &mut other],
        SESSION,
        |nodes, range, digests| {
            let [full, other] = nodes else {
                panic!("two nodes");
            };
            let gap = other.own.gap(range, full.number, digests[0][1]);
            assert_eq!(gap, Ok(Gap::Small));
        },
    );
}

#[test]
fn only_replicas_are_sent_a_version() {
    let entries: Vec<Entry> = (0..600).map(|n| put(&format!("{n:03}"), 5, 2)).collect();
    let placement = cluster::Placement::new(["a", "b", "c"]);
    let mut full = TestNode::with(0, &entries);
    let mut lost = TestNode::new(1);
    // The non-owned copies of the first node are announced, not streamed.
    let of_lost = entries.iter().filter(|entry| {
        let replicas = placement.replicas(entry.key(), 2);
        [0, 1]
            .map(NodeId::new)
            .iter()
            .all(|node| replicas.contains(node))
    });
    let of_lost: Vec<Entry> = of_lost.cloned().collect();
    let nodes = &mut [&mut full, &mut lost];
    walk(nodes, SESSION, |nodes, range, digests| {
        let [full, lost] = nodes else {
            panic!("two nodes");
        };
        assert_eq!(stream(full, lost, range, digests[0][1]), of_lost.len());
    });
    commit(&mut lost.own, SESSION).unwrap();
    assert!(lost.stored() == of_lost);
}

#[test]
fn a_run_that_was_not_asked_for_is_refused_and_nothing_of_it_is_taken() {
    // The keys from "m" on belong to the next range.
    let mut lost = TestNode::new(1);
    begin(&mut lost.own, SESSION, CUT);
    let end = lost.own.advance(SESSION, b"b", || Ok(())).unwrap();
    assert!(matches!(end, Advance::GoOn));
    let end = Some(Bytes::from_static(b"m"));
    assert!(lost.own.digest(SESSION, 0, end.as_deref()).is_ok());
    let range = (SESSION, 0);
    let placement = cluster::Placement::new(["a", "b", "c"]);
    let mut keys = (0..).map(|number| format!("c{number}"));
    let foreign = keys.find(|key| placement.preference_list(key.as_bytes(), 1)[0] != lost.number);
    let foreign = foreign.unwrap();
    let entry = |key: &str| put(key, 5, 3);
    let order = "keys that are not in order";
    let beyond = "a key beyond those that were asked for";
    let key_of = |key: &'static str| Some(Bytes::from_static(key.as_bytes()));
    for (entries, after, until, what) in [
        (vec![entry("c"), entry("c")], None, None, order),
        (vec![entry("d"), entry("c")], None, None, order),
        (vec![entry("c"), entry("d")], key_of("c"), None, order),
        (vec![entry("c"), entry("d")], None, key_of("c"), beyond),
        (vec![entry("c"), entry("m")], None, None, beyond),
        (vec![entry("a"), entry("c")], None, None, beyond),
        (
            vec![put(&foreign, 5, 1)],
            None,
            None,
            "a version for other nodes",
        ),
    ] {
        let keys = StreamedKeys {
            after,
            until,
            held: Vec::new(),
        };
        let taken = lost.own.take_run(range, &keys, entries);
        assert_eq!(taken, Err(RunRefusal::Malformed(what)));
    }
    let keys = StreamedKeys {
        until: key_of("c"),
        ..StreamedKeys::default()
    };
    let unknown = lost.own.take_run((SESSION, 1), &keys, vec![entry("c")]);
    assert_eq!(unknown, Err(RunRefusal::Unknown));
    let taken = lost.own.take_run(range, &keys, vec![entry("c")]).unwrap();
    assert_eq!(taken.keys, 1);
    commit(&mut lost.own, SESSION).unwrap();
    assert_eq!(lost.stored(), [entry("c")]);
}

#[test]
fn a_version_that_is_too_long_for_a_run_is_left_to_repair_writes() {
    let long = vec![b'v'; peer::RUN_ENTRY_BYTES_MAX];
    let mut entries: Vec<Entry> = (0..50).map(|n| put(&format!("{n:03}"), 5, 3)).collect();
    entries[20] = Entry::value(b"020", timestamp_of(5), &long, Expiry::NEVER, 3);
    let mut full = TestNode::with(0, &entries);
    let mut lost = TestNode::new(1);
    let nodes = &mut [&mut full, &mut lost];
    walk(nodes, SESSION, |nodes, range, digests| {
        let [full, lost] = nodes else {
            panic!("two nodes");
        };
        assert_eq!(stream(full, lost, range, digests[0][1]), 49);
        let gap = lost.own.gap(range, full.number, digests[0][1]);
        assert_eq!(gap, Ok(Gap::Small));
    });
}
