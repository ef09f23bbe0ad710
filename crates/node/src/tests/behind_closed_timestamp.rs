//! What a store answers below its closed timestamp.

use super::own_replica::{START_MS, open, replica, version};
use base::Entry;
use base::{ManualClock, NewerVersion, Timestamp};
use bytes::Bytes;
use cluster::forgetting::Answerer;
use cluster::forgetting::{Bounds, NamedBounds, StoreStart};
use cluster::{Miss, NodeId};
use lsm::{Admission, Barrier, LateSource};
use lsm_testing::{BlockingWrite, FaultyDisk, MemoryDisk};
use peer::PeerAnswer;
use replica::KeyRead;
use replica::{AnswerTime, Completion, LocalReplica, ReplicaRequest};
use replica::{BeforeRead, SharedBounds, Taken};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn at(ms: u64) -> Timestamp {
    version(ms).timestamp()
}

/// A store with its fence at 100 ms and its forget bound at `forgotten_ms`.
fn fenced(forgotten_ms: Option<u64>) -> (crate::node::Node, Rc<LocalReplica>) {
    let clock = Arc::new(ManualClock::new(START_MS + 1_000));
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let node = open(&disk, &clock);
    node.engine.raise_closed_timestamp(at(100)).unwrap();
    let bounds = Bounds {
        fence: at(100),
        forgotten: forgotten_ms.map_or(Timestamp::ZERO, at),
    };
    let mut replica = replica(&node);
    Rc::get_mut(&mut replica).unwrap().bounds = Arc::new(SharedBounds::of(bounds));
    (node, replica)
}

/// As [`fenced`], with these bounds.
fn with_bounds(bounds: SharedBounds) -> (crate::node::Node, Rc<LocalReplica>) {
    let (node, mut replica) = fenced(None);
    Rc::get_mut(&mut replica).unwrap().bounds = Arc::new(bounds);
    (node, replica)
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
        let asked = replica.ask(request, wait.address());
        happens();
        match asked {
            AnswerTime::Now(answer) => answer,
            AnswerTime::Later => replica.answer_of(b"k", wait.only().await).0,
        }
    };
    tasks.run_until(answer).await
}

fn own(replica: &LocalReplica) -> Answerer {
    Answerer {
        node: NodeId::new(0),
        store: replica.own_start,
        forgotten: at(80),
    }
}

fn late(gc_threshold: Timestamp, source: LateSource) -> Admission {
    Admission::Late {
        gc_threshold,
        barrier: Barrier::first(source),
    }
}

const NO_NEWER: PeerAnswer = PeerAnswer::Stored {
    newer_version: NewerVersion::None,
};

#[tokio::test]
async fn a_write_below_the_fence_is_obsolete_and_one_at_it_is_taken() {
    let (_node, replica) = fenced(None);
    let obsolete = PeerAnswer::Missed(Miss::Obsolete { below: at(100) });
    for (ms, expected) in [(99, &obsolete), (100, &NO_NEWER)] {
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
async fn a_repair_passes_the_fence_only_with_what_a_present_store_has_answered() {
    let (_node, replica) = fenced(None);
    let obsolete = PeerAnswer::Missed(Miss::Obsolete { below: at(100) });
    let own = own(&replica);
    let StoreStart { store_id, start } = own.store;
    let replaced = StoreStart {
        store_id: store_id + 1,
        start,
    };
    let restarted = StoreStart {
        store_id,
        start: start.wrapping_add(1),
    };
    let by = |store| Some(Answerer { store, ..own });
    let unknown = Some(Answerer {
        node: NodeId::new(7),
        ..own
    });
    let entry = version(50);
    for (label, by, expected) in [
        ("no store", None, &obsolete),
        ("replaced", by(replaced), &obsolete),
        ("restarted", by(restarted), &obsolete),
        ("of no node", unknown, &obsolete),
        ("present", by(own.store), &NO_NEWER),
    ] {
        let request = ReplicaRequest::Repair { entry: &entry, by };
        assert_eq!(asked(&replica, request).await, *expected, "{label}");
    }
}

#[tokio::test]
async fn a_repair_that_a_pass_fences_out_on_its_way_into_the_store_is_admitted_anew() {
    let (node, replica) = fenced(None);
    let entry = version(50);
    for (fenced_by_pass, kind) in [(false, "undisturbed"), (true, "fenced out")] {
        let by = Some(own(&replica));
        let request = ReplicaRequest::Repair { entry: &entry, by };
        let pass = || {
            if fenced_by_pass {
                node.engine
                    .raise_barrier(&[LateSource::Comparison, LateSource::Read])
                    .unwrap();
            }
        };
        assert_eq!(
            asked_before(&replica, request, pass).await,
            NO_NEWER,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn only_what_a_store_answers_that_knows_the_forget_bound_passes_it() {
    let (_node, replica) = fenced(Some(80));
    let by = Some(own(&replica));
    let mend = late(at(80), LateSource::Read);
    let admitted = |ms| replica.taken(&version(ms), by);
    let compared = Ok(Taken::OnceCompared {
        admission: mend,
        greatest: at(80),
    });
    // The tombstone that hides it may be from above the bound and below the fence.
    assert_eq!(admitted(79), compared);
    assert_eq!(admitted(80), compared);
    assert_eq!(admitted(100), Ok(Taken::AtOnce(Admission::Ordinary)));
    // It answered before the bound rose: the version may have been deleted since.
    let early = by.map(|by| Answerer {
        forgotten: at(79),
        ..by
    });
    let admitted = replica.taken(&version(79), early);
    assert_eq!(admitted, Err(Miss::Obsolete { below: at(80) }));
    assert_eq!(replica.taken(&version(80), early), compared);
    let tombstone = Entry::tombstone(b"k", at(79), 1);
    let obsolete = Err(Miss::Obsolete { below: at(80) });
    assert_eq!(replica.taken(&tombstone, by), obsolete);
    // It brings nothing back.
    let tombstone = Entry::tombstone(b"k", at(80), 1);
    assert_eq!(replica.taken(&tombstone, by), Ok(Taken::AtOnce(mend)));
}

#[tokio::test]
async fn a_bound_that_was_heard_counts_before_it_is_durable() {
    let (_node, replica) = fenced(Some(60));
    replica.bounds.hear(at(80));
    let by = |ms| {
        Some(Answerer {
            forgotten: at(ms),
            ..own(&replica)
        })
    };
    let obsolete = Err(Miss::Obsolete { below: at(80) });
    let mend = late(at(60), LateSource::Read);
    let compared = Ok(Taken::OnceCompared {
        admission: mend,
        greatest: at(80),
    });
    for (ms, by, expected) in [
        (70, by(60), &obsolete),
        (70, by(80), &compared),
        (80, by(60), &compared),
    ] {
        assert_eq!(replica.taken(&version(ms), by), *expected, "{ms}");
    }
}

#[tokio::test]
async fn a_value_is_answered_with_the_bound_that_held_when_it_was_read() {
    let (_node, replica) = fenced(Some(80));
    let tombstone = Entry::tombstone(b"k", at(70), 3);
    for (entry, named) in [(Some(version(70)), 60), (Some(tombstone), 80), (None, 80)] {
        let read = KeyRead {
            entry: entry.clone(),
            reservation: None,
            before: BeforeRead {
                forgotten: at(60),
                receives_below: Timestamp::ZERO,
            },
        };
        let answer = replica.answer_of(b"k", Some(Completion::Read(Ok(read)))).0;
        let named = NamedBounds {
            forgotten: at(named),
            store: replica.own_start,
        };
        assert_eq!(answer, PeerAnswer::FoundBehind { entry, named });
    }
}

#[tokio::test]
async fn an_answer_names_the_forget_bound_and_the_store() {
    let (node, replica) = fenced(Some(80));
    let key = Bytes::from_static(b"k");
    node.engine.write(version(200)).unwrap();
    let answer = asked(&replica, ReplicaRequest::Read(&key)).await;
    let PeerAnswer::FoundBehind { entry, named } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(entry.unwrap().timestamp(), at(200));
    assert_eq!((named.forgotten, named.store), (at(80), replica.own_start));
}

#[tokio::test]
async fn below_the_forget_bound_what_a_store_holds_that_only_receives_does_not_count() {
    let bounds = Bounds {
        fence: at(100),
        forgotten: Timestamp::ZERO,
    };
    let shared = SharedBounds::of(bounds);
    shared.set(bounds, at(80), Timestamp::ZERO);
    shared.hear(at(80));
    let (node, replica) = with_bounds(shared);
    let key = Bytes::from_static(b"k");
    let learner = PeerAnswer::Missed(Miss::Learner);
    for (ms, counts) in [(79, false), (80, true)] {
        let mut ingest = node
            .engine
            .begin_ingest(late(Timestamp::ZERO, LateSource::Comparison))
            .unwrap();
        ingest.push(&version(ms)).unwrap();
        ingest.commit().unwrap();
        let answer = asked(&replica, ReplicaRequest::Read(&key)).await;
        assert_eq!(answer != learner, counts, "{ms}: {answer:?}");
    }
}

/// A pass may bury what was read, and fill the store, before the answer is made.
#[tokio::test]
async fn what_was_read_before_a_store_was_filled_does_not_count_afterwards() {
    let (_node, replica) = fenced(Some(80));
    for (ms, counts) in [(79, false), (80, true)] {
        let read = KeyRead {
            entry: Some(version(ms)),
            reservation: None,
            before: BeforeRead {
                forgotten: at(80),
                receives_below: at(80),
            },
        };
        let answer = replica.answer_of(b"k", Some(Completion::Read(Ok(read)))).0;
        let learner = PeerAnswer::Missed(Miss::Learner);
        assert_eq!(answer != learner, counts, "{ms}: {answer:?}");
    }
}

#[tokio::test]
async fn a_store_that_was_fenced_below_the_forget_bound_does_not_count() {
    for (fence_ms, counts) in [(79, false), (80, true)] {
        let bounds = Bounds {
            fence: at(fence_ms),
            forgotten: Timestamp::ZERO,
        };
        let shared = SharedBounds::of(bounds);
        shared.hear(at(80));
        let (_node, replica) = with_bounds(shared);
        let key = Bytes::from_static(b"k");
        let answer = asked(&replica, ReplicaRequest::Read(&key)).await;
        let learner = PeerAnswer::Missed(Miss::Learner);
        assert_eq!(answer != learner, counts, "{fence_ms}: {answer:?}");
    }
}

#[tokio::test]
async fn a_store_names_itself_before_it_has_a_fence() {
    let clock = Arc::new(ManualClock::new(START_MS + 1_000));
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let node = open(&disk, &clock);
    let replica = replica(&node);
    // A peer may have a fence already, and takes a repair below it only with the name.
    let key = Bytes::from_static(b"k");
    let answer = asked(&replica, ReplicaRequest::Read(&key)).await;
    let PeerAnswer::FoundBehind { entry: None, named } = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(named.store, replica.own_start);
    assert_eq!(named.forgotten, Timestamp::ZERO);
}
