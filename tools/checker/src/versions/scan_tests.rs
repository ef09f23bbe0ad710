//! Histories with scans: what a scan tells of a key, and what it leaves out.

use super::check;
use crate::history::{Action, Content, History, OperationId, Outcome, Request};
use crate::promise::Promise;
use base::Timestamp;

const NOW_UNIX_MS: u64 = Timestamp::EPOCH_UNIX_MS + 1_000;

const PUT: Action = Action::Put { ttl_seconds: None };

/// Runs steps one after another: an action, and its outcome.
fn history(steps: &[(Action, Outcome)]) -> History {
    let mut history = History::default();
    for (action, outcome) in steps {
        let request = Request {
            client: 0,
            node: 0,
            key: 1,
            action: *action,
            ack: 2,
            from: 3,
        };
        let id = history.invoke(request, NOW_UNIX_MS);
        history.complete(id, *outcome, NOW_UNIX_MS);
    }
    history
}

fn written(version: u64) -> Outcome {
    Outcome::Written {
        version: Timestamp::from_u64(version),
        acks: 2,
    }
}

fn told(version: u64, put: usize) -> Outcome {
    Outcome::Found {
        version: Some(Timestamp::from_u64(version)),
        content: Content::Value(OperationId(put)),
        acks: 2,
    }
}

const LEFT_OUT: Outcome = Outcome::Found {
    version: None,
    content: Content::Absent,
    acks: 2,
};

#[track_caller]
fn breaks(steps: &[(Action, Outcome)], promise: Option<Promise>) {
    let violations = check(&history(steps));
    let broken: Vec<Promise> = violations.iter().map(|each| each.promise).collect();
    assert_eq!(broken, promise.into_iter().collect::<Vec<_>>());
}

#[test]
fn a_scan_tells_what_was_acknowledged_or_something_newer() {
    let missed = Some(Promise::AcknowledgedIsVisible);
    let puts = [(PUT, written(10)), (PUT, written(20))];
    let with = |outcome| [puts[0], puts[1], (Action::Scan, outcome)];
    breaks(&with(told(20, 1)), None);
    breaks(&with(told(10, 0)), missed);
    breaks(&[(PUT, written(10)), (Action::Scan, LEFT_OUT)], missed);
    // It told what nobody has put, or what was refused.
    let garbage = Outcome::Found {
        version: Some(Timestamp::from_u64(20)),
        content: Content::Garbage,
        acks: 2,
    };
    breaks(&with(garbage), Some(Promise::OnlyWhatWasWritten));
    let refused = [(PUT, Outcome::Refused), (Action::Scan, told(20, 0))];
    breaks(&refused, Some(Promise::RefusedChangesNothing));
}

#[test]
fn a_scan_leaves_out_what_was_deleted_and_nothing_else() {
    let delete = |outcome| {
        [
            (PUT, written(10)),
            (Action::Delete, outcome),
            (Action::Scan, LEFT_OUT),
        ]
    };
    breaks(&delete(written(20)), None);
    breaks(&delete(Outcome::Lost), None);
    let timestamp = Some(Timestamp::from_u64(20));
    breaks(&delete(Outcome::NotEnough { timestamp }), None);
    let refused = delete(Outcome::Refused);
    breaks(&refused, Some(Promise::AcknowledgedIsVisible));
    // A put that was acknowledged after the delete is there.
    let put_again = [
        (Action::Delete, written(20)),
        (PUT, written(30)),
        (Action::Scan, LEFT_OUT),
    ];
    breaks(&put_again, Some(Promise::AcknowledgedIsVisible));
    // What was deleted does not come back.
    let back = [
        (PUT, written(10)),
        (Action::Delete, written(20)),
        (Action::Scan, told(10, 0)),
    ];
    breaks(&back, Some(Promise::AcknowledgedIsVisible));
}

#[test]
fn scans_may_go_back_and_gets_may_not() {
    let lost = (PUT, Outcome::Lost);
    for (first, second, promise) in [
        (Action::Get, Action::Get, Some(Promise::ReadsNeverGoBack)),
        (Action::Scan, Action::Get, None),
        (Action::Get, Action::Scan, None),
    ] {
        let steps = [lost, lost, (first, told(20, 1)), (second, told(10, 0))];
        breaks(&steps, promise);
    }
}
