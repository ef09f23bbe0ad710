//! Single decisions of the machines; `tests/conditional` has the schedules.

use super::*;
use crate::layout::{Quorum, WhichList};
use crate::members::NodeId;
use crate::replicas::{Miss, ReplicaIndex, Replicas};
use base::Timestamp;

const BASE: Timestamp = Timestamp::from_u64(10);
const FIRST: Timestamp = Timestamp::from_u64(20);
const SECOND: Timestamp = Timestamp::from_u64(30);

fn replica(index: u8) -> ReplicaIndex {
    ReplicaIndex::new(index)
}

/// A write on `BASE` whose first ballot was sent to three replicas.
fn prepared() -> ConditionalWrite {
    let mut actions = ConditionalActions::new();
    let replicas = Replicas::quorum(3);
    let mut write = ConditionalWrite::start(replicas, Condition::version(BASE), &mut actions);
    let above = Timestamp::ZERO;
    assert_eq!(actions[..], [ConditionalAction::Ballot { above }]);
    actions.clear();
    write.prepare(FIRST, |_| None, &mut actions);
    let base = Base::Version(BASE);
    let prepare = |index| ConditionalAction::Prepare {
        ballot: FIRST,
        replica: replica(index),
        base,
    };
    assert_eq!(actions[..], [0, 1, 2].map(prepare));
    write
}

fn step(write: &mut ConditionalWrite, event: ConditionalEvent) -> Vec<ConditionalAction> {
    let mut actions = ConditionalActions::new();
    write.step(event, &mut actions);
    actions.to_vec()
}

fn promised(index: u8) -> ConditionalEvent {
    promised_on(index, Some(BASE), Timestamp::ZERO)
}

fn promised_on(index: u8, newest: Option<Timestamp>, gc_threshold: Timestamp) -> ConditionalEvent {
    ConditionalEvent::Promised {
        ballot: FIRST,
        replica: replica(index),
        newest,
        gc_threshold,
    }
}

fn differs(index: u8, timestamp: u64) -> ConditionalEvent {
    ConditionalEvent::Differs {
        ballot: FIRST,
        replica: replica(index),
        newest: Newest {
            timestamp: Some(Timestamp::from_u64(timestamp)),
            is_value: true,
        },
    }
}

fn accepted(index: u8) -> ConditionalEvent {
    ConditionalEvent::Accepted {
        ballot: FIRST,
        replica: replica(index),
    }
}

fn refused(index: u8) -> ConditionalEvent {
    ConditionalEvent::Refused {
        ballot: FIRST,
        replica: replica(index),
    }
}

fn release(index: u8) -> ConditionalAction {
    ConditionalAction::Release {
        ballot: FIRST,
        replica: replica(index),
    }
}

fn accept(index: u8) -> ConditionalAction {
    ConditionalAction::Accept {
        ballot: FIRST,
        replica: replica(index),
    }
}

/// A write that has sent its version to the first two replicas.
fn accepting() -> ConditionalWrite {
    let mut write = prepared();
    assert_eq!(step(&mut write, promised(0)), []);
    assert_eq!(step(&mut write, promised(1)), [accept(0), accept(1)]);
    write
}

#[test]
fn a_majority_of_promises_and_of_accepts_writes_the_version() {
    let mut write = accepting();
    assert_eq!(step(&mut write, accepted(0)), []);
    // A promise that comes late is used.
    assert_eq!(step(&mut write, promised(2)), [accept(2)]);
    let applied = ConditionalOutcome::Applied {
        version: FIRST,
        acks: 2,
    };
    let replied = ConditionalAction::Reply(applied);
    assert_eq!(step(&mut write, accepted(1)), [replied]);
    assert_eq!(step(&mut write, accepted(2)), [ConditionalAction::Done]);
}

#[test]
fn a_replica_that_lacks_the_version_gets_a_hint() {
    let mut write = accepting();
    step(&mut write, differs(2, 5));
    step(&mut write, accepted(0));
    let actions = step(&mut write, accepted(1));
    let hint = ConditionalAction::Hint {
        ballot: FIRST,
        replica: replica(2),
    };
    assert_eq!(actions[1..], [hint]);
    let kept = ConditionalEvent::HintKept {
        replica: replica(2),
    };
    assert_eq!(step(&mut write, kept), [ConditionalAction::Done]);
}

/// The answer of a replica is lost after the client has its own.
#[test]
fn a_replica_whose_answer_was_lost_gets_a_hint() {
    let mut write = accepting();
    step(&mut write, promised(2));
    step(&mut write, accepted(0));
    step(&mut write, accepted(1));
    let lost = ConditionalEvent::AcceptMissed {
        ballot: FIRST,
        replica: replica(2),
        why: Miss::Suspected,
    };
    let hint = ConditionalAction::Hint {
        ballot: FIRST,
        replica: replica(2),
    };
    assert_eq!(step(&mut write, lost), [hint]);
}

/// While the list of members changes, a majority of the old list is not enough, nor one of the new
/// list.
#[test]
fn a_key_that_moves_needs_a_majority_of_each_list() {
    let nodes = |ids: [u8; 3]| ids.map(NodeId::new);
    let (old, new) = (nodes([0, 1, 2]), nodes([0, 3, 4]));
    let pair = Replicas::quorum(3);
    let (_, quorum) = Quorum::of_two(pair, old.into_iter().collect(), &new, WhichList::Old);
    let mut actions = ConditionalActions::new();
    let condition = Condition::version(BASE);
    let mut write = ConditionalWrite::start(quorum.clone(), condition, &mut actions);
    actions.clear();
    write.prepare(FIRST, |_| None, &mut actions);
    assert_eq!(actions.len(), 5);
    assert_eq!(step(&mut write, promised(0)), []);
    assert_eq!(step(&mut write, promised(1)), []);
    assert_eq!(step(&mut write, promised(2)), []);
    let accepts = [0, 1, 2, 3].map(accept);
    assert_eq!(step(&mut write, promised(3)), accepts);
    assert_eq!(step(&mut write, accepted(1)), []);
    assert_eq!(step(&mut write, accepted(2)), []);
    assert_eq!(step(&mut write, accepted(3)), []);
    let version = FIRST;
    // Three of the old list, and two of the new one.
    let applied = ConditionalOutcome::Applied { version, acks: 2 };
    let actions = step(&mut write, accepted(0));
    assert_eq!(actions[0], ConditionalAction::Reply(applied));

    let mut actions = SettleActions::new();
    let mut settle = Settle::start(quorum, &mut actions);
    settle.prepare(FIRST, |_| false, &mut actions);
    for index in [0, 1, 2] {
        assert_eq!(settle_step(&mut settle, met(index, BASE, false)), []);
    }
    let actions = settle_step(&mut settle, met(3, BASE, false));
    assert_eq!(
        actions.last(),
        Some(&SettleAction::Done { is_settled: true })
    );
}

#[test]
fn a_majority_that_holds_another_version_refuses_the_condition_at_once() {
    let mut write = prepared();
    step(&mut write, promised(0));
    step(&mut write, differs(1, 15));
    let current = Newest {
        timestamp: Some(Timestamp::from_u64(15)),
        is_value: true,
    };
    let refused = ConditionalAction::Reply(ConditionalOutcome::NotMatched { current });
    assert_eq!(
        step(&mut write, differs(2, 15)),
        [release(0), refused, ConditionalAction::Done]
    );
}

#[test]
fn replicas_that_differ_are_read() {
    let mut write = prepared();
    step(&mut write, differs(1, 15));
    assert_eq!(step(&mut write, differs(2, 16)), [ConditionalAction::Read]);
    // A promise that comes too late is released.
    assert_eq!(step(&mut write, promised(0)), [release(0)]);
    let found = Newest {
        timestamp: Some(BASE),
        is_value: true,
    };
    let above = Timestamp::from_u64(16);
    assert_eq!(
        step(&mut write, ConditionalEvent::Read(Some(found))),
        [ConditionalAction::Ballot { above }]
    );
}

#[test]
fn another_ballot_is_waited_for_while_it_is_fresh() {
    let busy = |index, is_stale| ConditionalEvent::Busy {
        ballot: FIRST,
        replica: replica(index),
        with: SECOND,
        is_stale,
    };
    for (is_stale, action, event) in [
        (false, ConditionalAction::Pause, ConditionalEvent::Resumed),
        (true, ConditionalAction::Settle, ConditionalEvent::Settled),
    ] {
        let mut write = prepared();
        step(&mut write, busy(0, is_stale));
        assert_eq!(step(&mut write, busy(1, false)), [action]);
        assert_eq!(
            step(&mut write, event),
            [ConditionalAction::Ballot { above: SECOND }]
        );
    }
}

#[test]
fn nothing_is_applied_before_the_first_accept() {
    let mut write = prepared();
    step(&mut write, promised(0));
    let not_applied = ConditionalAction::Reply(ConditionalOutcome::NotApplied);
    assert_eq!(
        step(&mut write, ConditionalEvent::Deadline),
        [release(0), not_applied, ConditionalAction::Done]
    );
    assert_eq!(step(&mut write, promised(1)), [release(1)]);
}

#[test]
fn after_an_accept_the_outcome_is_unknown() {
    let unknown = |acks| {
        ConditionalAction::Reply(ConditionalOutcome::Unknown {
            version: FIRST,
            acks,
        })
    };
    let mut write = accepting();
    assert_eq!(
        step(&mut write, ConditionalEvent::Deadline),
        [unknown(0), ConditionalAction::Done]
    );
    // An answer that was lost may have been an accept.
    let mut write = accepting();
    step(&mut write, differs(2, 15));
    step(&mut write, refused(0));
    let lost = ConditionalEvent::AcceptMissed {
        ballot: FIRST,
        replica: replica(1),
        why: Miss::Timeout,
    };
    assert_eq!(step(&mut write, lost)[0], unknown(0));
}

#[test]
fn a_version_that_all_have_refused_is_tried_again() {
    let mut write = accepting();
    step(&mut write, differs(2, 15));
    assert_eq!(step(&mut write, refused(0)), []);
    assert_eq!(
        step(&mut write, refused(1)),
        [ConditionalAction::Ballot { above: FIRST }]
    );
}

/// A key whose first ballot to settle was sent to three replicas.
fn settling() -> Settle {
    let mut actions = SettleActions::new();
    let mut settle = Settle::start(Replicas::quorum(3), &mut actions);
    settle.prepare(FIRST, |_| false, &mut actions);
    settle
}

fn settle_step(settle: &mut Settle, event: SettleEvent) -> Vec<SettleAction> {
    let mut actions = SettleActions::new();
    settle.step(event, &mut actions);
    actions.to_vec()
}

fn met(index: u8, newest: Timestamp, has_met: bool) -> SettleEvent {
    let met = if has_met { Met::SameList } else { Met::Nothing };
    met_of(index, newest, met)
}

fn met_of(index: u8, newest: Timestamp, met: Met) -> SettleEvent {
    SettleEvent::Promised {
        ballot: FIRST,
        replica: replica(index),
        newest: Some(newest),
        met,
    }
}

fn released(index: u8) -> SettleAction {
    SettleAction::Release {
        ballot: FIRST,
        replica: replica(index),
    }
}

fn sent(index: u8, current: u8, rewrite: Rewrite) -> SettleAction {
    SettleAction::Accept {
        ballot: FIRST,
        replica: replica(index),
        current: replica(current),
        rewrite,
    }
}

#[test]
fn where_all_answer_a_key_is_settled_as_it_is() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, true));
    settle_step(&mut settle, met(1, Timestamp::from_u64(15), false));
    assert_eq!(
        settle_step(&mut settle, met(2, BASE, false)),
        [sent(0, 1, Rewrite::AsItIs), sent(2, 1, Rewrite::AsItIs)]
    );
    let has_accepted = |index| SettleEvent::Accepted {
        ballot: FIRST,
        replica: replica(index),
    };
    assert_eq!(settle_step(&mut settle, has_accepted(0)), []);
    let done = SettleAction::Done { is_settled: true };
    assert_eq!(
        settle_step(&mut settle, has_accepted(2)),
        [released(0), released(1), released(2), done]
    );
}

#[test]
fn beside_a_silent_replica_a_key_is_written_anew() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, true));
    settle_step(&mut settle, met(1, BASE, false));
    assert_eq!(
        settle_step(&mut settle, SettleEvent::Deadline),
        [sent(0, 0, Rewrite::Anew), sent(1, 0, Rewrite::Anew)]
    );
}

#[test]
fn promises_that_were_met_are_kept_where_a_greater_ballot_is_named() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, true));
    settle_step(&mut settle, met(1, BASE, false));
    let busy = SettleEvent::Busy {
        ballot: FIRST,
        replica: replica(2),
        with: SECOND,
    };
    assert_eq!(
        settle_step(&mut settle, busy),
        [released(1), SettleAction::Ballot { above: SECOND }]
    );
}

#[test]
fn where_nothing_was_left_behind_nothing_is_written() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, false));
    let done = SettleAction::Done { is_settled: true };
    assert_eq!(
        settle_step(&mut settle, met(1, BASE, false)),
        [released(0), released(1), done]
    );
    assert_eq!(settle_step(&mut settle, met(2, BASE, false)), [released(2)]);
}

/// No write below the closed timestamp is under way, so it may be written anew.
#[test]
fn a_version_below_the_closed_timestamp_is_written_anew() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, true));
    settle_step(&mut settle, met(1, Timestamp::from_u64(5), false));
    settle_step(&mut settle, met(2, Timestamp::from_u64(5), false));
    let why = Miss::Obsolete { below: FIRST };
    let obsolete = |index| SettleEvent::Missed {
        ballot: FIRST,
        replica: replica(index),
        why,
    };
    settle_step(&mut settle, obsolete(1));
    let actions = settle_step(&mut settle, obsolete(2));
    let above = FIRST;
    assert_eq!(actions, [released(0), SettleAction::Ballot { above }]);
    let mut actions = SettleActions::new();
    settle.prepare(SECOND, |_| false, &mut actions);
    for index in 0..3 {
        let promised = SettleEvent::Promised {
            ballot: SECOND,
            replica: replica(index),
            newest: Some(BASE),
            met: if index > 0 {
                Met::SameList
            } else {
                Met::Nothing
            },
        };
        actions.clear();
        settle.step(promised, &mut actions);
    }
    let is_anew = |action: &SettleAction| {
        matches!(
            action,
            SettleAction::Accept {
                rewrite: Rewrite::Anew,
                ..
            }
        )
    };
    assert_eq!(actions.iter().filter(|action| is_anew(action)).count(), 3);
}

/// The other replicas of that list may have what those of this one lack.
#[test]
fn a_promise_of_an_earlier_list_has_the_key_written_anew() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, true));
    settle_step(&mut settle, met_of(1, BASE, Met::EarlierList));
    assert_eq!(
        settle_step(&mut settle, met(2, BASE, false)),
        [0, 1, 2].map(|index| sent(index, 0, Rewrite::Anew))
    );
}

/// It has the list soon, and is not silent.
#[test]
fn a_replica_with_another_list_is_asked_again() {
    let mut settle = settling();
    settle_step(&mut settle, met(0, BASE, true));
    settle_step(&mut settle, met(1, BASE, false));
    let other_list = SettleEvent::Missed {
        ballot: FIRST,
        replica: replica(2),
        why: Miss::OtherEpoch,
    };
    let above = FIRST;
    assert_eq!(
        settle_step(&mut settle, other_list),
        [released(1), SettleAction::Ballot { above }]
    );

    let mut write = prepared();
    let other_list = |index| ConditionalEvent::PrepareMissed {
        ballot: FIRST,
        replica: replica(index),
        why: Miss::OtherEpoch,
    };
    assert_eq!(step(&mut write, other_list(0)), []);
    assert_eq!(step(&mut write, other_list(1)), [ConditionalAction::Pause]);
}

/// One replica has dropped the tombstone already, and the third one is down.
#[test]
fn what_is_dead_below_the_gc_threshold_is_the_same_as_nothing() {
    let create = |others: Timestamp| {
        let mut actions = ConditionalActions::new();
        let replicas = Replicas::quorum(3);
        let mut write = ConditionalWrite::start(replicas, Condition::absent(), &mut actions);
        write.prepare(FIRST, |_| None, &mut actions);
        step(&mut write, promised_on(0, None, Timestamp::from_u64(12)));
        step(&mut write, promised_on(1, Some(others), Timestamp::ZERO))
    };
    assert_eq!(create(BASE), [accept(0), accept(1)]);
    assert_eq!(create(Timestamp::from_u64(12)), []);
}
