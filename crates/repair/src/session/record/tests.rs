//! What a node knows of sessions that have ended, and when the next one is due.

use super::{EndedSessions, LastEqual, PREEMPTED_FOR, Record, RepairCounts, RunningSession};
use crate::session::checkpoint::RepairFile;
use crate::session::progress::{Rebuild, StoreRead};
use base::{Clock, ManualClock};
use cluster::comparison::{Incarnation, RepairKind};
use cluster::repair::{Facts, SESSION_IDLE_MAX, SessionId, Token};
use cluster::{Epoch, Layout, NodeId};
use membership::Layouts;
use std::sync::Arc;
use std::time::Duration;

const START_UNIX_MS: u64 = 1_800_000_000_000;

fn layouts() -> Layouts {
    Layouts::new(Layout::named(&["a", "b", "c"], node(0)).unwrap())
}

fn record() -> (Arc<ManualClock>, Record) {
    let clock = Arc::new(ManualClock::new(START_UNIX_MS));
    let record = Record::new(
        Arc::clone(&clock) as Arc<dyn Clock>,
        layouts(),
        RepairFile::default(),
    );
    (clock, record)
}

/// No session has streamed anything.
fn nothing() -> Rebuild {
    Rebuild::new(Arc::new(ManualClock::new(START_UNIX_MS)))
}

const fn full(session: u64) -> SessionId {
    let attempt = 0;
    SessionId::Full(Token { session, attempt })
}

const fn incremental(session: u64) -> SessionId {
    SessionId::Incremental(session)
}

fn node(number: u8) -> NodeId {
    NodeId::new(number)
}

#[test]
fn a_session_runs_from_its_beginning_to_its_end() {
    let (clock, record) = record();
    record.began(full(7));
    record.range_compared(full(7), StoreRead::default());
    record.range_compared(full(7), StoreRead::default());
    let running = RunningSession {
        kind: RepairKind::Full,
        began_unix_ms: START_UNIX_MS,
        ranges: 2,
        progress: None,
    };
    assert_eq!(record.status(&nothing()).running, [running]);
    clock.advance(Duration::from_secs(3));
    record.ended(full(7), &[node(1), node(2)], &[]);
    let status = record.status(&nothing());
    assert_eq!(status.running, []);
    let full = status.ended[RepairKind::Full as usize];
    assert_eq!((full.equal, full.incomplete), (1, 0));
    assert_eq!(full.last_end_unix_ms, Some(START_UNIX_MS + 3_000));
    assert_eq!(full.last_duration, Duration::from_secs(3));
    let incremental = status.ended[RepairKind::Incremental as usize];
    assert_eq!(incremental, EndedSessions::default());
    assert_eq!(status.counts.ranges_compared, 2);
}

#[test]
fn a_session_counts_as_successful_only_with_every_other_node() {
    let (clock, record) = record();
    record.began(full(1));
    record.ended(full(1), &[node(1)], &[]);
    clock.advance(Duration::from_secs(1));
    record.began(incremental(2));
    record.ended(incremental(2), &[node(2), node(1)], &[]);
    let status = record.status(&nothing());
    let full = status.ended[RepairKind::Full as usize];
    assert_eq!((full.equal, full.incomplete), (0, 1));
    let incremental = status.ended[RepairKind::Incremental as usize];
    assert_eq!((incremental.equal, incremental.incomplete), (1, 0));
    let (first, second) = (START_UNIX_MS, START_UNIX_MS + 1_000);
    let expected = |any, full| LastEqual {
        any_unix_ms: any,
        full_unix_ms: full,
    };
    assert_eq!(
        status.last_equal,
        [
            (node(1), expected(Some(second), Some(first))),
            (node(2), expected(Some(second), None)),
        ]
        .into_iter()
        .collect()
    );
}

#[test]
fn a_session_whose_coordinator_is_silent_is_not_shown_as_running() {
    let (clock, record) = record();
    record.began(incremental(1));
    clock.advance(SESSION_IDLE_MAX / 2);
    record.range_compared(incremental(1), StoreRead::default());
    clock.advance(SESSION_IDLE_MAX / 2);
    assert_eq!(record.status(&nothing()).running.len(), 1);
    clock.advance(SESSION_IDLE_MAX / 2);
    assert_eq!(record.status(&nothing()).running, []);
}

#[test]
fn a_full_session_is_an_incremental_one_too_and_none_is_due_before_its_interval() {
    let (clock, record) = record();
    let interval = Duration::from_secs(10);
    clock.advance(interval);
    assert!(record.is_due(RepairKind::Incremental, interval));
    assert!(record.is_due(RepairKind::Full, interval));
    record.coordinated(RepairKind::Incremental, true);
    assert!(!record.is_due(RepairKind::Incremental, interval));
    assert!(record.is_due(RepairKind::Full, interval));
    record.ended(full(1), &[], &[]);
    assert!(!record.is_due(RepairKind::Incremental, interval));
    assert!(!record.is_due(RepairKind::Full, interval));
}

#[test]
fn a_full_session_is_due_although_the_node_is_restarted_more_often() {
    let (clock, before) = record();
    let interval = Duration::from_secs(7 * 24 * 3600);
    clock.advance(interval / 2);
    before.ended(full(1), &[node(1), node(2)], &[5, u64::MAX, 7]);
    clock.advance(interval / 2);
    let restarted = |file| Record::new(Arc::clone(&clock) as Arc<dyn Clock>, layouts(), file);
    let after = restarted(before.to_file(None));
    assert!(!after.is_due(RepairKind::Full, interval));
    assert_eq!(
        after.status(&nothing()).last_equal,
        before.status(&nothing()).last_equal
    );
    assert_eq!(
        after.status(&nothing()).single_copies,
        [(node(0), 5), (node(2), 7)].into_iter().collect()
    );
    clock.advance(interval / 2);
    let again = restarted(after.to_file(None));
    assert!(again.is_due(RepairKind::Full, interval));
    assert!(!again.is_due(RepairKind::Incremental, interval));
}

#[test]
fn a_full_session_that_left_nodes_unequal_is_made_up_for() {
    let (clock, record) = record();
    let (interval, retry) = (
        Duration::from_secs(7 * 24 * 3600),
        Duration::from_secs(3600),
    );
    let ends = |equal_with: &[NodeId]| record.ended(full(1), equal_with, &[]);
    clock.advance(interval);
    ends(&[node(1)]);
    record.coordinated(RepairKind::Full, false);
    assert!(!record.is_due(RepairKind::Full, interval));
    assert!(!record.is_retry_due(retry));
    clock.advance(retry);
    assert!(record.is_retry_due(retry));
    assert!(!record.is_retry_due(2 * retry));
    // A restart does not take it for done, either.
    let restarted = Record::new(
        Arc::clone(&clock) as Arc<dyn Clock>,
        layouts(),
        record.to_file(None),
    );
    assert!(restarted.is_due(RepairKind::Full, interval));
    // This node is equal with all others, but two of those differ, or the GC threshold could
    // not rise. Nor is that done after a restart in the very moment when the session ends.
    record.not_done(full(1));
    ends(&[node(1), node(2)]);
    let restarted = Record::new(
        Arc::clone(&clock) as Arc<dyn Clock>,
        layouts(),
        record.to_file(None),
    );
    assert!(restarted.is_due(RepairKind::Full, interval));
    record.coordinated(RepairKind::Full, false);
    clock.advance(retry);
    assert!(record.is_retry_due(retry));
    record.ended(full(2), &[node(1), node(2)], &[]);
    assert!(!record.is_retry_due(retry), "that was another session");
    ends(&[node(1), node(2)]);
    record.coordinated(RepairKind::Full, true);
    clock.advance(retry);
    assert!(!record.is_retry_due(retry));
}

#[test]
fn repair_writes_and_non_owned_copies_are_counted() {
    let (_, record) = record();
    record.count(|counts| counts.requests += 1);
    record.count(|counts| counts.repair_writes_sent += 3);
    record.count(|counts| counts.repair_writes_received += 1);
    record.count(|counts| counts.ranges_differing += 1);
    record.count(|counts| counts.non_owned_offered += 2);
    let expected = RepairCounts {
        requests: 1,
        repair_writes_sent: 3,
        repair_writes_received: 1,
        ranges_compared: 0,
        ranges_differing: 1,
        non_owned_offered: 2,
        streamed_keys_received: 0,
        streamed_bytes_received: 0,
        moved_bytes: 0,
    };
    assert_eq!(record.status(&nothing()).counts, expected);
}

#[test]
fn a_full_session_is_under_way_until_it_ends_or_its_coordinator_is_silent() {
    let (clock, record) = record();
    record.began(incremental(1));
    assert!(
        !record.is_other_full_running(),
        "it interrupts no other one"
    );
    record.began(full(2));
    for _ in 0..3 {
        clock.advance(SESSION_IDLE_MAX / 2);
        assert!(record.is_other_full_running());
        record.range_compared(full(2), StoreRead::default());
    }
    clock.advance(SESSION_IDLE_MAX);
    assert!(
        !record.is_other_full_running(),
        "its coordinator may be gone"
    );
    record.range_compared(full(2), StoreRead::default());
    assert!(record.is_other_full_running());
    record.ended(full(2), &[], &[]);
    assert!(!record.is_other_full_running());
    // A node that has left a session does not hear how it ends.
    record.began(full(3));
    record.left(full(3));
    assert!(!record.is_other_full_running());
}

#[test]
fn a_session_gives_way_until_another_one_has_ended_here_or_for_a_while() {
    let (clock, record) = record();
    record.preempted();
    clock.advance(PREEMPTED_FOR / 2);
    assert!(record.is_other_full_running());
    clock.advance(PREEMPTED_FOR / 2);
    assert!(!record.is_other_full_running());
    record.preempted();
    record.began(incremental(1));
    record.ended(incremental(1), &[], &[]);
    assert!(record.is_other_full_running());
    record.began(full(2));
    record.ended(full(2), &[], &[]);
    assert!(!record.is_other_full_running());
}

#[test]
fn facts_survive_a_restart_and_not_a_loss() {
    let (clock, record) = record();
    let store = Incarnation {
        store_id: 5,
        last_loss: 0,
    };
    let shown = |ids: &[u8]| Facts {
        change: Epoch::new(2),
        incarnation: store,
        equal_with: ids.iter().copied().map(NodeId::new).collect(),
    };
    record.shown(shown(&[1]));
    record.shown(shown(&[2]));
    let file = record.to_file(None);
    let restarted = Record::new(clock, layouts(), file);
    assert_eq!(restarted.facts(store), Some(shown(&[1, 2])));
    let after_a_loss = Incarnation {
        last_loss: 1,
        ..store
    };
    assert_eq!(restarted.facts(after_a_loss), None);
}
