//! A node that streams sends what it has scanned, without reading it again.

use super::overlap::{blocks_read, node_of};
use super::runs::{TestNode, put_bytes};
use super::{PEER, SESSION, begin, part_environment, reach};
use crate::RepairSizes;
use crate::session::part::{PartEnvironment, Participant, ReadRun, StreamedKeys};
use base::{Entry, Timestamp};
use bytes::Bytes;
use lsm_testing::BlockingWrite;

const CUT: u64 = 1 << 40;
const RANGE_BYTES: usize = 1 << 20;

/// A node in a session whose ranges are much shorter than its store.
fn node_with(entries: &[Entry]) -> TestNode {
    let mut node = node_of(entries);
    node.own = Participant::new(PartEnvironment {
        sizes: RepairSizes {
            range_bytes: RANGE_BYTES,
            ..RepairSizes::default()
        },
        ..part_environment(&node.engine, node.number)
    });
    begin(&mut node.own, SESSION, CUT);
    node
}

/// Goes on to the range of this number, which begins at a key. Gives where it ends.
fn next_range(own: &mut Participant, number: u32, start: &[u8]) -> Option<Bytes> {
    let end = reach(own, SESSION, start);
    own.digest(SESSION, number, end.as_deref()).unwrap();
    end
}

fn kept_bytes(own: &mut Participant) -> usize {
    own.part(SESSION).unwrap().kept.data_bytes()
}

/// All versions of a range that are sent to a peer that has none of it.
fn sent(own: &mut Participant, number: u32) -> Vec<Entry> {
    let (mut keys, mut all) = (StreamedKeys::default(), Vec::new());
    loop {
        let read = own.run((SESSION, number), PEER, &keys);
        let ReadRun { run, next } = read.unwrap().unwrap();
        all.extend(run.entries().unwrap());
        match next {
            Some(next) => keys = next,
            None => return all,
        }
    }
}

fn in_range(all: &[Entry], start: &[u8], end: Option<&[u8]>) -> Vec<Entry> {
    let all = all.iter().filter(|entry| entry.key() >= start);
    let all = all.filter(|entry| end.is_none_or(|end| entry.key() < end));
    all.cloned().collect()
}

#[test]
fn what_a_node_has_scanned_while_it_streams_is_not_read_again() {
    let bytes = [1 << 10, 100, 200_000, 40_000];
    let all: Vec<Entry> = (0..400)
        .map(|number| put_bytes(number, bytes[(number % 4) as usize]))
        .collect();
    let mut node = node_with(&all);
    let own = &mut node.own;
    let (mut start, mut ranges) = (Bytes::new(), 0);
    loop {
        let end = next_range(own, ranges, &start);
        let before = blocks_read(&node.engine);
        let sent = sent(own, ranges);
        assert!(sent == in_range(&all, &start, end.as_deref()) && !sent.is_empty());
        // Before the first range nobody had asked for anything.
        let blocks = blocks_read(&node.engine) - before;
        assert_eq!(blocks == 0, ranges > 0, "{blocks} blocks of range {ranges}");
        ranges += 1;
        match end {
            Some(end) => start = end,
            None => break,
        }
    }
    assert!(ranges > 4, "{ranges} ranges");
}

#[test]
fn what_is_kept_is_bounded_and_given_up_once_nobody_asks() {
    // Nothing is left out of a run, and the greatest come last.
    let length = |number| if number < 2_000 { 4_000 } else { 250_000 };
    let all: Vec<Entry> = (0..2_040)
        .map(|number| put_bytes(number, length(number)))
        .collect();
    let mut node = node_with(&all);
    let own = &mut node.own;
    let (mut start, mut number, mut most) = (Bytes::new(), 0, 0);
    let mut kept = Vec::new();
    loop {
        let end = next_range(own, number, &start);
        kept.push(kept_bytes(own));
        if number == 1 || number == 20 {
            sent(own, number);
        }
        number += 1;
        let Some(end) = end else { break };
        // The node scans ahead while the range is compared.
        reach(own, SESSION, &end);
        most = most.max(kept_bytes(own));
        start = end;
    }
    assert!(
        most <= RANGE_BYTES + 2 * peer::RUN_ENTRY_BYTES_MAX,
        "{most}"
    );
    assert_eq!(&kept[..2], [0, 0]);
    assert!(kept[2..10].iter().all(|kept| *kept > 0), "{kept:?}");
    assert!(kept[11..=20].iter().all(|kept| *kept == 0), "{kept:?}");
    assert!(kept[21] > 0, "{kept:?}");
}

#[test]
fn a_node_that_is_itself_streamed_to_keeps_nothing() {
    let all: Vec<Entry> = (0..3_000)
        .map(|number| put_bytes(number, 1 << 10))
        .collect();
    let mut node = node_with(&all);
    let own = &mut node.own;
    let end = next_range(own, 0, b"").unwrap();
    sent(own, 0);
    reach(own, SESSION, &end);
    assert!(kept_bytes(own) > 0);
    let keys = StreamedKeys::default();
    own.take_run((SESSION, 0), &keys, vec![put_bytes(0, 1)])
        .unwrap();
    assert_eq!(kept_bytes(own), 0);
    next_range(own, 1, &end);
    assert_eq!(kept_bytes(own), 0);
    assert!(!sent(own, 1).is_empty(), "the store has it");
}

#[test]
fn a_version_that_has_come_since_the_scan_is_sent_instead_of_what_was_kept() {
    let all: Vec<Entry> = (0..3_000)
        .map(|number| put_bytes(number, 1 << 10))
        .collect();
    let mut node = node_with(&all);
    let own = &mut node.own;
    let start = next_range(own, 0, b"").unwrap();
    sent(own, 0);
    let end = next_range(own, 1, &start);
    let mut expected = in_range(&all, &start, end.as_deref());
    assert!(sent(own, 1) == expected);
    // A third node has sent it as a repair write.
    let newer = expected[7].pushed(Timestamp::from_u64(9));
    node.engine.write(newer.clone()).unwrap();
    own.environment.written.note(SESSION, newer.key());
    own.recount((SESSION, 1), PEER).unwrap();
    expected[7] = newer;
    assert!(sent(own, 1) == expected);
}
