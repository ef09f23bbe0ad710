//! What a node does while the others are busy: it scans on, reads the next run, and writes tables.

use super::runs::{TestNode, put_bytes};
use super::{begin, commit, part_environment, reach};
use crate::RepairSizes;
use crate::session::part::stream_ingest::StreamIngest;
use crate::session::part::{
    Advance, PartEnvironment, Participant, ReadRun, Streamed, StreamedKeys,
};
use base::Entry;
use cluster::NodeId;
use cluster::repair::SessionId;
use lsm::{Admission, Disk, Engine, Options};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk, MemoryDisk, environment};
use std::io::ErrorKind;
use std::sync::Arc;

const SESSION: SessionId = super::full(7);
const CUT: u64 = 1 << 40;
const PEER: NodeId = NodeId::new(1);

/// Values of a KiB: three MiB, which are several runs.
fn entries() -> Vec<Entry> {
    (0..3_000)
        .map(|number| put_bytes(number, 1 << 10))
        .collect()
}

/// A node that keeps them in tables.
pub(super) fn node_of(entries: &[Entry]) -> TestNode {
    let node = TestNode::with(0, entries);
    node.engine.flush().unwrap();
    node
}

pub(super) fn blocks_read(engine: &Engine) -> u64 {
    engine.statistics().data_blocks_fetched
}

fn keys_of(run: &ReadRun) -> Vec<Vec<u8>> {
    let entries = run.run.entries().unwrap();
    entries.iter().map(|entry| entry.key().to_vec()).collect()
}

#[test]
fn the_run_that_follows_is_read_before_it_is_asked_for_and_given_to_who_asks_for_it() {
    let all = entries();
    let mut node = node_of(&all);
    let own = &mut node.own;
    begin(own, SESSION, CUT);
    assert_eq!(reach(own, SESSION, b""), None);
    own.digest(SESSION, 0, None).unwrap();
    let range = (SESSION, 0);
    let ask = |own: &mut Participant, asker, keys: &StreamedKeys| {
        let before = blocks_read(&node.engine);
        let read = own.run(range, asker, keys).unwrap().unwrap();
        (read, blocks_read(&node.engine) - before)
    };
    let first_keys = StreamedKeys::default();
    let (first, blocks) = ask(own, PEER, &first_keys);
    assert!(blocks > 0);
    let next_keys = first.next.clone().unwrap();
    let (second, _) = ask(own, PEER, &next_keys);
    assert!(keys_of(&first).last() < keys_of(&second).first());
    // It was read before.
    own.prepare_run(range, PEER, next_keys.clone());
    let (prepared, blocks) = ask(own, PEER, &next_keys);
    assert_eq!(blocks, 0);
    assert_eq!(prepared.run, second.run);
    assert_eq!(prepared.next, second.next);
    // It is given once, and only for the same keys, to the same node, of the same range.
    let (again, blocks) = ask(own, PEER, &next_keys);
    assert!(blocks > 0 && again.run == second.run);
    for (asker, keys) in [(PEER, &first_keys), (NodeId::new(2), &next_keys)] {
        own.prepare_run(range, PEER, next_keys.clone());
        let (other, blocks) = ask(own, asker, keys);
        assert!(blocks > 0);
        let expected = if keys.after.is_none() {
            &first
        } else {
            &second
        };
        assert_eq!(keys_of(&other), keys_of(expected));
    }
    own.prepare_run(range, PEER, next_keys.clone());
    own.recount(range, PEER).unwrap();
    let (again, blocks) = ask(own, PEER, &next_keys);
    assert!(blocks > 0 && again.run == second.run, "it is compared anew");
    own.prepare_run(range, PEER, next_keys.clone());
    own.digest(SESSION, 1, None).unwrap();
    assert!(own.run(range, PEER, &next_keys).is_err(), "it is over");
    let of_next = own.run((SESSION, 1), PEER, &next_keys).unwrap().unwrap();
    assert!(of_next.run.is_last && keys_of(&of_next).is_empty());
}

#[test]
fn what_was_scanned_while_a_range_was_compared_is_not_read_again() {
    let all = entries();
    let mut node = node_of(&all);
    node.own = Participant::new(PartEnvironment {
        sizes: RepairSizes {
            range_bytes: 1 << 20,
            ..RepairSizes::default()
        },
        ..part_environment(&node.engine, node.number)
    });
    let own = &mut node.own;
    begin(own, SESSION, CUT);
    let end = reach(own, SESSION, b"").unwrap();
    own.digest(SESSION, 0, Some(&end)).unwrap();
    let before = own.keys_ahead(SESSION);
    while let Advance::GoOn = own.advance(SESSION, b"", || Ok(())).unwrap() {}
    let ahead = own.keys_ahead(SESSION);
    assert_ne!(ahead, before);
    let next_end = reach(own, SESSION, &end).unwrap();
    assert_eq!(own.keys_ahead(SESSION), ahead);
    let summary = own.digest(SESSION, 1, Some(&next_end)).unwrap().summary;
    let in_range = |entry: &&Entry| *end <= *entry.key() && *entry.key() < *next_end;
    let expected = all.iter().filter(in_range).count() as u64;
    assert!(expected > 0);
    assert_eq!(summary.digests[PEER.index()].items, expected);
}

/// The tables of a range cannot be written, and those of the next one could.
#[test]
fn a_session_that_has_lost_a_range_commits_nothing_more() {
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let (environment, _executor) = environment(Arc::clone(&disk) as Arc<dyn Disk>);
    let engine = Engine::open(environment, Options::default()).unwrap().0;
    let ingest = StreamIngest::new(engine.clone(), 1, Admission::Ordinary);
    let streamed = |number| Streamed {
        entries: vec![put_bytes(number, 10)],
        ingest: Arc::clone(&ingest),
    };
    let is_table = |call, _: &std::path::Path| call == Call::Create;
    disk.arm(Fault::at(0, ErrorKind::Other).only(is_table));
    assert!(streamed(0).write().is_err());
    assert_eq!(disk.failed(), 1);
    disk.heal();
    assert!(streamed(1).write().is_err());
    assert!(streamed(2).commit().is_err());
    for number in 0..3 {
        assert_eq!(engine.get(put_bytes(number, 10).key()).unwrap(), None);
    }
    // Another session may store it.
    let ingest = StreamIngest::new(engine.clone(), 1, Admission::Ordinary);
    let entries = vec![put_bytes(1, 10)];
    Streamed { entries, ingest }.commit().unwrap();
    assert_eq!(
        engine.get(put_bytes(1, 10).key()).unwrap(),
        Some(put_bytes(1, 10))
    );
}

/// A digest that was made before something came is not shown any more.
#[test]
fn a_digest_changes_with_what_is_streamed() {
    let all = entries();
    let mut full = node_of(&all);
    let mut lost = TestNode::new(1);
    for node in [&mut full, &mut lost] {
        begin(&mut node.own, SESSION, CUT);
        assert_eq!(reach(&mut node.own, SESSION, b""), None);
        node.own.digest(SESSION, 0, None).unwrap();
    }
    let range = (SESSION, 0);
    let theirs = full.own.recount(range, lost.number).unwrap();
    assert_eq!(theirs.items, all.len() as u64);
    let mut keys = StreamedKeys::default();
    let mut known = 0;
    loop {
        let ReadRun { run, next } = full.own.run(range, lost.number, &keys).unwrap().unwrap();
        let entries = run.entries().unwrap();
        known += entries.len() as u64;
        lost.own.take_run(range, &keys, entries).unwrap();
        let mine = lost.own.recount(range, full.number).unwrap();
        assert_eq!(mine.items, known);
        match next {
            Some(next) => keys = next,
            None => break,
        }
    }
    assert_eq!(lost.own.recount(range, full.number), Ok(theirs));
    commit(&mut lost.own, SESSION).unwrap();
    assert!(lost.stored() == all);
}

#[test]
fn how_far_a_session_is_follows_from_the_bytes_of_the_tables() {
    let all = entries();
    let (first, second) = all.split_at(1_000);
    let mut node = node_of(first);
    for entry in second {
        node.engine.write(entry.clone()).unwrap();
    }
    node.engine.flush().unwrap();
    let bytes = |entries: &[Entry]| entries.iter().map(|it| it.data_bytes() as u64).sum::<u64>();
    let (of_first, total) = (bytes(first), bytes(&all));
    for (key, below) in [
        (&b""[..], 0),
        // In the middle of the first table, and of the second one.
        (all[10].key(), of_first / 2),
        (all[1_000].key(), of_first),
        (all[1_001].key(), of_first + bytes(second) / 2),
        (&b"9"[..], total),
    ] {
        assert_eq!(
            node.engine.table_bytes_below(key),
            (below, total),
            "{key:?}"
        );
    }
    let own = &mut node.own;
    begin(own, SESSION, CUT);
    let read = |own: &mut Participant, number, start: &[u8], end: &[u8]| {
        reach(own, SESSION, start);
        let digested = own.digest(SESSION, number, Some(end)).unwrap();
        (digested.read.bytes, digested.read.of_bytes)
    };
    let end = all[10].key();
    assert_eq!(read(own, 0, b"", end), (0, total));
    // It is looked at now and then.
    assert_eq!(read(own, 1, end, all[20].key()), (0, total));
}
