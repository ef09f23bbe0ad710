//! What a node knows of passes that have ended, and when the next one is due.

use super::SESSION_IDLE_MAX;
use super::journal::RepairFile;
use super::record::{EndedSession, EndedSessions, LastEqual, Record, RunningSession, RepairCounts};
use super::refill::Rebuild;
use base::{Clock, ManualClock};
use cluster::NodeId;
use cluster::sweep::{SessionId, RepairKind};
use std::sync::Arc;
use std::time::Duration;

const START_UNIX_MS: u64 = 1_800_000_000_000;

fn record() -> (Arc<ManualClock>, Record) {
    let clock = Arc::new(ManualClock::new(START_UNIX_MS));
    let record = Record::new(
        Arc::clone(&clock) as Arc<dyn Clock>,
        3,
        RepairFile::default(),
    );
    (clock, record)
}

/// No pass has brought anything in bulk.
fn nothing() -> Rebuild {
    Rebuild::new(Arc::new(ManualClock::new(START_UNIX_MS)))
}

fn ended(pass: SessionId, kind: RepairKind) -> EndedSession {
    EndedSession {
        pass,
        kind,
        is_conclusive: false,
    }
}

fn node(number: u8) -> NodeId {
    NodeId::new(number)
}

#[test]
fn a_pass_runs_from_its_beginning_to_its_end() {
    let (clock, record) = record();
    record.began(SessionId(7), RepairKind::Full);
    record.range_compared(SessionId(7));
    record.range_compared(SessionId(7));
    let running = RunningSession {
        kind: RepairKind::Full,
        began_unix_ms: START_UNIX_MS,
        ranges: 2,
    };
    assert_eq!(record.status(&nothing()).running, [running]);
    clock.advance(Duration::from_secs(3));
    record.ended(ended(SessionId(7), RepairKind::Full), &[node(1), node(2)], &[]);
    let status = record.status(&nothing());
    assert_eq!(status.running, []);
    let full = status.ended[RepairKind::Full as usize];
    assert_eq!((full.clean, full.incomplete), (1, 0));
    assert_eq!(full.last_end_unix_ms, Some(START_UNIX_MS + 3_000));
    assert_eq!(full.last_duration, Duration::from_secs(3));
    let recent = status.ended[RepairKind::Incremental as usize];
    assert_eq!(recent, EndedSessions::default());
    assert_eq!(status.counts.ranges_compared, 2);
}

#[test]
fn a_pass_counts_as_clean_only_with_every_other_node() {
    let (clock, record) = record();
    record.began(SessionId(1), RepairKind::Full);
    record.ended(ended(SessionId(1), RepairKind::Full), &[node(1)], &[]);
    clock.advance(Duration::from_secs(1));
    record.began(SessionId(2), RepairKind::Incremental);
    record.ended(ended(SessionId(2), RepairKind::Incremental), &[node(2), node(1)], &[]);
    let status = record.status(&nothing());
    let full = status.ended[RepairKind::Full as usize];
    assert_eq!((full.clean, full.incomplete), (0, 1));
    let recent = status.ended[RepairKind::Incremental as usize];
    assert_eq!((recent.clean, recent.incomplete), (1, 0));
    let (first, second) = (START_UNIX_MS, START_UNIX_MS + 1_000);
    let expected = |any, full| LastEqual {
        any_unix_ms: any,
        full_unix_ms: full,
    };
    assert_eq!(
        status.last_clean,
        [
            expected(None, None),
            expected(Some(second), Some(first)),
            expected(Some(second), None),
        ]
    );
}

#[test]
fn a_pass_whose_driver_is_silent_is_not_shown_as_running() {
    let (clock, record) = record();
    record.began(SessionId(1), RepairKind::Incremental);
    clock.advance(SESSION_IDLE_MAX / 2);
    record.range_compared(SessionId(1));
    clock.advance(SESSION_IDLE_MAX / 2);
    assert_eq!(record.status(&nothing()).running.len(), 1);
    clock.advance(SESSION_IDLE_MAX / 2);
    assert_eq!(record.status(&nothing()).running, []);
}

#[test]
fn a_full_pass_is_a_recent_one_too_and_no_pass_is_due_before_its_interval() {
    let (clock, record) = record();
    let interval = Duration::from_secs(10);
    clock.advance(interval);
    assert!(record.is_due(RepairKind::Incremental, interval));
    assert!(record.is_due(RepairKind::Full, interval));
    record.drive_ended(RepairKind::Incremental, true);
    assert!(!record.is_due(RepairKind::Incremental, interval));
    assert!(record.is_due(RepairKind::Full, interval));
    record.ended(ended(SessionId(1), RepairKind::Full), &[], &[]);
    assert!(!record.is_due(RepairKind::Incremental, interval));
    assert!(!record.is_due(RepairKind::Full, interval));
}

#[test]
fn a_full_pass_is_due_although_the_node_is_restarted_more_often() {
    let (clock, before) = record();
    let interval = Duration::from_secs(7 * 24 * 3600);
    clock.advance(interval / 2);
    before.ended(
        ended(SessionId(1), RepairKind::Full),
        &[node(1), node(2)],
        &[5, u64::MAX, 7],
    );
    clock.advance(interval / 2);
    let restarted = |file| Record::new(Arc::clone(&clock) as Arc<dyn Clock>, 3, file);
    let after = restarted(before.to_file(None));
    assert!(!after.is_due(RepairKind::Full, interval));
    assert_eq!(
        after.status(&nothing()).last_clean,
        before.status(&nothing()).last_clean
    );
    assert_eq!(
        after.status(&nothing()).single_copies,
        [Some(5), None, Some(7)]
    );
    clock.advance(interval / 2);
    let again = restarted(after.to_file(None));
    assert!(again.is_due(RepairKind::Full, interval));
    assert!(!again.is_due(RepairKind::Incremental, interval));
}

#[test]
fn a_full_pass_that_left_nodes_unequal_is_made_up_for() {
    let (clock, record) = record();
    let (interval, retry) = (
        Duration::from_secs(7 * 24 * 3600),
        Duration::from_secs(3600),
    );
    let full = |clean_with: &[NodeId]| {
        record.ended(ended(SessionId(1), RepairKind::Full), clean_with, &[]);
    };
    clock.advance(interval);
    full(&[node(1)]);
    record.drive_ended(RepairKind::Full, false);
    assert!(!record.is_due(RepairKind::Full, interval));
    assert!(!record.is_retry_due(retry));
    clock.advance(retry);
    assert!(record.is_retry_due(retry));
    assert!(!record.is_retry_due(2 * retry));
    // A restart does not take it for done, either.
    let restarted = Record::new(
        Arc::clone(&clock) as Arc<dyn Clock>,
        3,
        record.to_file(None),
    );
    assert!(restarted.is_due(RepairKind::Full, interval));
    // This node is equal with all others, but two of those differ, or the forget bound could
    // not rise. Nor is that done after a restart in the very moment when the pass ends.
    record.not_done(SessionId(1));
    full(&[node(1), node(2)]);
    let restarted = Record::new(
        Arc::clone(&clock) as Arc<dyn Clock>,
        3,
        record.to_file(None),
    );
    assert!(restarted.is_due(RepairKind::Full, interval));
    record.drive_ended(RepairKind::Full, false);
    clock.advance(retry);
    assert!(record.is_retry_due(retry));
    record.ended(ended(SessionId(2), RepairKind::Full), &[node(1), node(2)], &[]);
    assert!(!record.is_retry_due(retry), "that was another pass");
    full(&[node(1), node(2)]);
    record.drive_ended(RepairKind::Full, true);
    clock.advance(retry);
    assert!(!record.is_retry_due(retry));
}

#[test]
fn mends_and_surplus_are_counted() {
    let (_, record) = record();
    record.request_received();
    record.repair_writes_sent(3);
    record.leftovers_buried(6);
    record.mend_received();
    record.range_differs();
    record.non_owned_offered(2);
    let expected = RepairCounts {
        requests: 1,
        repair_writes_sent: 3,
        repair_writes_received: 1,
        ranges_compared: 0,
        ranges_differing: 1,
        non_owned_offered: 2,
        leftovers_buried: 6,
        bulk_keys_received: 0,
        bulk_bytes_received: 0,
    };
    assert_eq!(record.status(&nothing()).counts, expected);
}

#[test]
fn a_full_pass_is_under_way_until_it_ends_or_its_driver_is_silent() {
    let (clock, record) = record();
    record.began(SessionId(1), RepairKind::Incremental);
    assert!(
        !record.is_full_running(),
        "a recent one reads no more than it must"
    );
    record.began(SessionId(2), RepairKind::Full);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(20));
        assert!(record.is_full_running());
        record.range_compared(SessionId(2));
    }
    clock.advance(Duration::from_secs(40));
    assert!(!record.is_full_running(), "its driver may be gone");
    record.range_compared(SessionId(2));
    assert!(record.is_full_running());
    record.ended(ended(SessionId(2), RepairKind::Full), &[], &[]);
    assert!(!record.is_full_running());
    // A node that has given a pass up does not hear how it ends.
    record.began(SessionId(3), RepairKind::Full);
    record.left(SessionId(3));
    assert!(!record.is_full_running());
}
