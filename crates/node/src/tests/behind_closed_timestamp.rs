//! What a store answers below its closed timestamp.

use super::own_replica::{START_MS, open, replica, version};
use base::Entry;
use base::{ManualClock, NewerVersion, Timestamp};
use bytes::Bytes;
use cluster::repair::{SessionRequest, ShownBelow, StoreEvent, StoreRecord, StoreState, Token};
use cluster::{Epoch, Miss};
use lsm::LateSource;
use lsm_testing::{BlockingWrite, FaultyDisk, MemoryDisk};
use peer::PeerAnswer;
use replica::KeyRead;
use replica::{AnswerTime, BeforeRead, Completion, LocalReplica, ReplicaRequest, SharedBounds};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The epoch of all sessions.
const CHANGE: Epoch = Epoch::new(1);

fn at(ms: u64) -> Timestamp {
    version(ms).timestamp()
}

/// What a store remembers that has closed 100 ms, with this GC threshold, for which it has answered.
fn record(gc_threshold_ms: Option<u64>) -> StoreRecord {
    let gc_threshold = gc_threshold_ms.map_or(Timestamp::ZERO, at);
    let answered = ShownBelow {
        below: gc_threshold,
        epoch: CHANGE,
    };
    StoreRecord {
        closed: at(100),
        gc_threshold,
        answered,
        ..StoreRecord::default()
    }
}

/// A store in this state.
fn in_state(state: StoreState) -> (crate::node::Node, Rc<LocalReplica>) {
    let clock = Arc::new(ManualClock::new(START_MS + 1_000));
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let node = open(&disk, &clock);
    node.engine
        .raise_closed_timestamp(state.refuses_below())
        .unwrap();
    let mut replica = replica(&node);
    Rc::get_mut(&mut replica).unwrap().bounds = Arc::new(SharedBounds::of(state, CHANGE));
    (node, replica)
}

fn closed(gc_threshold_ms: Option<u64>) -> (crate::node::Node, Rc<LocalReplica>) {
    in_state(StoreState::opened(record(gc_threshold_ms)))
}

/// A store that scans for a session which closes 100 ms.
fn scanning() -> (crate::node::Node, Rc<LocalReplica>) {
    let token = Token {
        session: 1,
        attempt: 0,
    };
    let close = SessionRequest::Close {
        gc_threshold: Timestamp::ZERO,
        below: at(100),
        are_all: true,
    };
    let mut state = StoreState::default();
    for request in [SessionRequest::Begin { epoch: CHANGE }, close] {
        let latest = at(100);
        let event = StoreEvent::Asked {
            token,
            request,
            latest,
        };
        state = state.step(event, Duration::ZERO).0;
    }
    in_state(state)
}

/// What the store answers, now or later.
async fn asked(replica: &Rc<LocalReplica>, request: ReplicaRequest<'_>) -> PeerAnswer {
    asked_before(replica, request, || {}).await
}

/// As [`asked`], with something that happens before the store looks at what it was given.
async fn asked_before(
    replica: &Rc<LocalReplica>,
    request: ReplicaRequest<'_>,
    happens: impl FnOnce(),
) -> PeerAnswer {
    let tasks = tokio::task::LocalSet::new();
    tasks.spawn_local(Rc::clone(&replica.submissions).submit_forever());
    tasks.spawn_local(Rc::clone(&replica.pending).deliver_forever());
    let wait = replica.pending.wait(Duration::MAX);
    let answer = async {
        let asked = replica.ask(request, Duration::MAX, wait.address());
        happens();
        match asked {
            AnswerTime::Now(answer) => answer,
            AnswerTime::Later => replica.answer_of(b"k", wait.only().await).0,
        }
    };
    tasks.run_until(answer).await
}

const NO_NEWER: PeerAnswer = PeerAnswer::Stored {
    newer_version: NewerVersion::None,
};

const fn obsolete(below: Timestamp) -> PeerAnswer {
    PeerAnswer::Missed(Miss::Obsolete { below })
}

async fn repaired(replica: &Rc<LocalReplica>, entry: &Entry, named_ms: Option<u64>) -> PeerAnswer {
    let named = named_ms.map(at);
    asked(replica, ReplicaRequest::Repair { entry, named }).await
}

#[tokio::test]
async fn a_write_below_the_closed_timestamp_is_obsolete_and_one_at_it_is_taken() {
    let (_node, replica) = closed(None);
    for (ms, expected) in [(99, &obsolete(at(100))), (100, &NO_NEWER)] {
        let entry = version(ms);
        let allocated = &mut None;
        let write = ReplicaRequest::Write {
            entry: &entry,
            allocated,
        };
        assert_eq!(asked(&replica, write).await, *expected, "{ms}");
    }
}

#[tokio::test]
async fn a_repair_passes_the_closed_timestamp_only_with_what_a_store_has_answered() {
    let (_node, replica) = closed(None);
    let entry = version(50);
    let without = repaired(&replica, &entry, None).await;
    assert_eq!(without, obsolete(at(100)));
    assert_eq!(repaired(&replica, &entry, Some(0)).await, NO_NEWER);
}

#[tokio::test]
async fn below_the_gc_threshold_only_the_word_of_a_store_that_knew_it_counts() {
    let (_node, replica) = closed(Some(80));
    let tombstone = |ms| Entry::tombstone(b"k", at(ms), 1);
    for (entry, named_ms, expected) in [
        (version(79), 79, obsolete(at(80))),
        (version(79), 80, NO_NEWER),
        // Another store may have collected it.
        (tombstone(79), 80, obsolete(at(80))),
        (tombstone(80), 79, NO_NEWER),
        (version(80), 79, NO_NEWER),
    ] {
        let label = format!("{:?} by {named_ms}", entry.timestamp());
        let answer = repaired(&replica, &entry, Some(named_ms)).await;
        if expected == NO_NEWER {
            assert!(matches!(answer, PeerAnswer::Stored { .. }), "{label}");
        } else {
            assert_eq!(answer, expected, "{label}");
        }
    }
}

#[tokio::test]
async fn a_repair_is_admitted_anew_if_the_state_changes_on_its_way_into_the_store() {
    let (node, replica) = closed(None);
    let entry = version(50);
    let named = Some(Timestamp::ZERO);
    let request = ReplicaRequest::Repair {
        entry: &entry,
        named,
    };
    let changes = || {
        node.engine
            .begin_generation(&[LateSource::RepairWrite, LateSource::ReadRepair])
            .unwrap();
    };
    assert_eq!(asked_before(&replica, request, changes).await, NO_NEWER);
}

#[tokio::test]
async fn behind_the_scan_a_repair_waits_until_it_is_durable_that_the_session_raises_nothing() {
    for is_noted in [false, true] {
        let (_node, mut replica) = scanning();
        let (notes, bounds) = (Rc::new(Cell::new(0)), Arc::clone(&replica.bounds));
        let noted = Rc::clone(&notes);
        Rc::get_mut(&mut replica).unwrap().void_session = Rc::new(move || {
            noted.set(noted.get() + 1);
            let (sender, receiver) = tokio::sync::oneshot::channel();
            if is_noted {
                let state = bounds.state().step(StoreEvent::Voided, Duration::ZERO);
                bounds.put_in_force(state.0, CHANGE);
                sender.send(()).unwrap();
            }
            receiver
        });
        replica.bounds.set_ahead(b"l", None);
        let entry = version(50);
        let expected = if is_noted {
            NO_NEWER
        } else {
            PeerAnswer::Missed(Miss::Failed)
        };
        assert_eq!(repaired(&replica, &entry, Some(0)).await, expected);
        assert_eq!(notes.get(), 1);
    }
}

#[tokio::test]
async fn ahead_of_the_scan_a_repair_is_taken_at_once() {
    let (_node, replica) = scanning();
    replica.bounds.set_ahead(b"k", Some(b"l"));
    assert_eq!(repaired(&replica, &version(50), Some(0)).await, NO_NEWER);
    // What is not scanned at all is not ahead.
    replica.bounds.set_ahead(b"a", Some(b"k"));
    let failed = PeerAnswer::Missed(Miss::Failed);
    assert_eq!(repaired(&replica, &version(51), Some(0)).await, failed);
}

#[tokio::test]
async fn while_a_step_reads_what_is_ahead_a_repair_waits_for_its_end() {
    for (from, expected) in [
        (b"a", NO_NEWER),
        // The step has read it.
        (b"l", PeerAnswer::Missed(Miss::Failed)),
    ] {
        let (_node, replica) = scanning();
        replica.bounds.set_ahead(b"a", None);
        replica.bounds.begin_step();
        let bounds = Arc::clone(&replica.bounds);
        let entry = version(50);
        let answer = async {
            let step = async {
                tokio::task::yield_now().await;
                bounds.set_ahead(from, None);
            };
            tokio::join!(repaired(&replica, &entry, Some(0)), step).0
        };
        assert_eq!(answer.await, expected);
    }
}

#[tokio::test]
async fn a_repair_is_refused_while_the_outcome_of_a_session_is_not_known() {
    let answered = ShownBelow {
        below: at(90),
        epoch: CHANGE,
    };
    let record = StoreRecord {
        answered,
        ..record(Some(80))
    };
    let (_node, replica) = in_state(StoreState::opened(record));
    let undecided = PeerAnswer::Missed(Miss::Undecided);
    assert_eq!(repaired(&replica, &version(89), Some(80)).await, undecided);
    assert_eq!(repaired(&replica, &version(90), Some(80)).await, NO_NEWER);
}

#[tokio::test]
async fn a_value_is_answered_with_the_threshold_that_held_when_it_was_read() {
    let (_node, replica) = closed(Some(80));
    let tombstone = Entry::tombstone(b"k", at(70), 3);
    for (entry, named) in [(Some(version(70)), 60), (Some(tombstone), 80), (None, 80)] {
        let read = KeyRead {
            entry: entry.clone(),
            reservation: None,
            before: BeforeRead {
                gc_threshold: at(60),
                ..replica.bounds.before_read()
            },
        };
        let answer = replica.answer_of(b"k", Some(Completion::Read(Ok(read)))).0;
        let gc_threshold = at(named);
        let expected = PeerAnswer::FoundBehind {
            entry,
            gc_threshold,
        };
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn an_answer_names_the_gc_threshold() {
    let (node, replica) = closed(Some(80));
    let key = Bytes::from_static(b"k");
    node.engine.write(version(200)).unwrap();
    let answer = asked(&replica, ReplicaRequest::Read(&key)).await;
    let expected = PeerAnswer::FoundBehind {
        entry: Some(version(200)),
        gc_threshold: at(80),
    };
    assert_eq!(answer, expected);
}

/// By then the store may have been rebuilt, and count again.
#[tokio::test]
async fn what_was_read_before_something_was_set_aside_does_not_count_afterwards() {
    let (_node, replica) = closed(Some(80));
    let read = || {
        Completion::Read(Ok(KeyRead {
            entry: Some(version(79)),
            reservation: None,
            before: BeforeRead {
                gc_threshold: at(80),
                set_aside: 0,
            },
        }))
    };
    let found = replica.answer_of(b"k", Some(read())).0;
    assert!(matches!(found, PeerAnswer::FoundBehind { .. }), "{found:?}");
    replica.bounds.note_set_aside();
    let learner = PeerAnswer::Missed(Miss::Learner);
    assert_eq!(replica.answer_of(b"k", Some(read())).0, learner);
}

#[tokio::test]
async fn a_store_that_has_not_answered_for_a_threshold_that_it_hears_does_not_count() {
    for (answered_ms, counts) in [(79, false), (80, true)] {
        let (_node, replica) = closed(None);
        let answered = ShownBelow {
            below: at(answered_ms),
            epoch: CHANGE,
        };
        let record = StoreRecord {
            answered,
            ..record(None)
        };
        replica
            .bounds
            .put_in_force(StoreState::opened(record), CHANGE);
        replica.bounds.hear(at(80));
        let key = Bytes::from_static(b"k");
        let answer = asked(&replica, ReplicaRequest::Read(&key)).await;
        let learner = PeerAnswer::Missed(Miss::Learner);
        assert_eq!(answer != learner, counts, "{answered_ms}: {answer:?}");
    }
}
