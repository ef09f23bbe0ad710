//! How this node's own store promises ballots, where a step of it fails or other promises are met.

use super::alone;
use super::own_replica::{START_MS, replica, version};
use crate::node::Node;
use base::{Entry, Timestamp};
use bytes::Bytes;
use cluster::layout::{Change, ClusterId, MemberList};
use cluster::{Base, Layout, Member, Met, Miss, NodeSet, Replicas};
use lsm::{Admission, Engine, Outbox, Outcome};
use peer::{PeerAnswer, Prepare, PromiseAnswer, PromiseRequest};
use replica::pending::Wait;
use replica::{AnswerTime, Completion, LocalReplica, ReplicaRequest};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{LocalSet, spawn_local, yield_now};

/// The ballot of a promise that is kept before, and the one that a test asks for.
const BEFORE_MS: u64 = 10;
const BALLOT_MS: u64 = 20;

/// The outbox of promises whose outcomes nobody waits for.
struct NobodyWaits;

impl Outbox for NobodyWaits {
    fn deliver(&self, _outcomes: Vec<Outcome>) {}
}

fn ballot(ms: u64) -> Timestamp {
    version(ms).timestamp()
}

/// The ballot that the store keeps the promise of.
fn kept(engine: &Engine) -> Option<Timestamp> {
    let kept = engine.promises_kept_for(Duration::ZERO, b"", 2);
    assert!(kept.len() < 2, "{kept:?}");
    kept.first().map(|promise| promise.ballot)
}

/// Has the store keep a promise of a request with the list of this epoch.
fn keep(engine: &Engine, epoch: u64) {
    let promise = Entry::tombstone(b"k", ballot(BEFORE_MS), 1);
    let is_forced = false;
    let outbox = Arc::new(NobodyWaits) as Arc<dyn Outbox>;
    engine.submit_batch(
        [(promise, Admission::Promise { is_forced, epoch }, 0)],
        &outbox,
    );
    engine.commit_waiting();
    assert_eq!(kept(engine), Some(ballot(BEFORE_MS)));
}

/// The epoch of the list that the node has.
fn epoch(replica: &LocalReplica) -> u64 {
    replica.telling.layouts.peek().epoch().as_u64()
}

/// Asks for a promise: of a conditional write that creates the key, or by force. Returns once it is
/// in the log, while nobody delivers what the store has answered.
async fn promised(replica: &Rc<LocalReplica>, is_forced: bool, deadline: Duration) -> Wait {
    spawn_local(Rc::clone(&replica.submissions).submit_forever());
    let request = PromiseRequest::Prepare(Prepare {
        key: Bytes::from_static(b"k"),
        ballot: ballot(BALLOT_MS),
        epoch: replica.telling.layouts.peek().epoch(),
        base: (!is_forced).then_some(Base::NoValue),
        copies: 1,
        is_value: true,
        unix_ms: START_MS,
    });
    let wait = replica.pending.wait(Duration::MAX);
    let request = ReplicaRequest::Promise(&request);
    let asked = replica.ask(request, deadline, wait.address());
    assert!(matches!(asked, AnswerTime::Later));
    while kept(&replica.engine) != Some(ballot(BALLOT_MS)) {
        yield_now().await;
    }
    wait
}

/// The answer, once what the store has answered is delivered.
async fn answer(replica: &Rc<LocalReplica>, wait: Wait) -> PeerAnswer {
    spawn_local(Rc::clone(&replica.pending).deliver_forever());
    match wait.only().await {
        Some(Completion::Peer(answer)) => answer,
        _ => panic!("it has no answer"),
    }
}

/// Its coordinator does not know of it. One by force may have replaced another, and what that hides is
/// not known.
#[tokio::test]
async fn what_is_promised_too_late_is_released_but_not_by_force() {
    for (is_forced, left) in [(false, None), (true, Some(ballot(BALLOT_MS)))] {
        let node = alone();
        let replica = replica(&node);
        let deadline = Duration::from_secs(1);
        let tasks = LocalSet::new();
        let asked = tasks.run_until(async {
            let wait = promised(&replica, is_forced, deadline).await;
            replica.pending.expire(deadline);
            // Its answer is here, and nobody waits for it any more.
            answer(&replica, wait).await
        });
        assert_eq!(asked.await, PeerAnswer::Missed(Miss::Timeout));
        assert_eq!(kept(&node.engine), left, "forced: {is_forced}");
    }
}

/// The store counts no more when it looks again. What a promise that was met hides is not known, so
/// the next attempt has to meet one again.
#[tokio::test]
async fn a_failed_second_look_releases_a_promise_that_has_met_none() {
    for (has_met, left) in [(false, None), (true, Some(ballot(BALLOT_MS)))] {
        let node = alone();
        let replica = replica(&node);
        if has_met {
            keep(&node.engine, epoch(&replica));
        }
        let tasks = LocalSet::new();
        let asked = tasks.run_until(async {
            let wait = promised(&replica, true, Duration::MAX).await;
            replica.bounds.hear(ballot(1));
            answer(&replica, wait).await
        });
        assert_eq!(asked.await, PeerAnswer::Missed(Miss::Learner));
        assert_eq!(kept(&node.engine), left, "another one was met: {has_met}");
    }
}

/// Has the node's list change once.
fn change_list(node: &Node) {
    let own = node.layout().members().own();
    let member = Member::named("a", "http://a:1".parse().unwrap()).unwrap();
    let pair = Replicas { ack: 1, from: 1 };
    let list = MemberList::founding(ClusterId::new(1), vec![member], pair).unwrap();
    let moved = Change::Move {
        name: "a".to_owned(),
        url: "http://a:2".parse().unwrap(),
    };
    let list = list.plan(&moved, NodeSet::default()).unwrap();
    node.put_in_force(Layout::of(&list, own).unwrap());
}

/// Replicas that only the earlier list has may have accepted the version of the other one.
#[tokio::test]
async fn a_promise_says_whether_the_one_that_it_replaces_is_of_an_earlier_list() {
    for (before, met) in [
        (None, Met::Nothing),
        (Some(0), Met::EarlierList),
        (Some(1), Met::SameList),
    ] {
        let node = alone();
        change_list(&node);
        let replica = replica(&node);
        assert_eq!(epoch(&replica), 1);
        if let Some(before) = before {
            keep(&node.engine, before);
        }
        let tasks = LocalSet::new();
        let asked = tasks.run_until(async {
            let wait = promised(&replica, true, Duration::MAX).await;
            answer(&replica, wait).await
        });
        let promised = PromiseAnswer::Promised {
            newest: None,
            met,
            gc_threshold: Timestamp::ZERO,
        };
        assert_eq!(asked.await, PeerAnswer::Promise(promised));
    }
}
