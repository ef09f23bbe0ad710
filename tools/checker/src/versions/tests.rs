//! Histories made by hand: for each promise one that keeps it and one that breaks it.

mod conditions;
mod expiry;
mod tombstone_gc;

use super::check;
use crate::history::{Action, Content, History, OperationId, Outcome, Request};
use crate::promise::Promise;
use base::Timestamp;

const PUT: Action = Action::Put { ttl_seconds: None };
const DELETE: Action = Action::Delete;

/// A history that a test builds step by step. Operations are on one key unless
/// the test names another.
#[derive(Default)]
struct Story {
    history: History,
    unix_ms: u64,
}

fn at(number: u64) -> Timestamp {
    Timestamp::from_u64(number)
}

fn written(version: u64, acks: u8) -> Outcome {
    Outcome::Written {
        version: at(version),
        acks,
    }
}

impl Story {
    fn invoke_on(&mut self, key: u64, action: Action, ack: u8, from: u8) -> OperationId {
        let request = Request {
            client: 0,
            node: 0,
            key,
            action,
            ack,
            from,
        };
        self.history.invoke(request, self.unix_ms)
    }

    fn invoke(&mut self, action: Action, ack: u8, from: u8) -> OperationId {
        self.invoke_on(1, action, ack, from)
    }

    fn complete(&mut self, id: OperationId, outcome: Outcome) {
        self.history.complete(id, outcome, self.unix_ms);
    }

    /// A write that is acknowledged.
    fn write(&mut self, action: Action, ack: u8, from: u8, version: u64) -> OperationId {
        let id = self.invoke(action, ack, from);
        self.complete(id, written(version, ack));
        id
    }

    /// A write that too few replicas answer.
    fn fail(&mut self, action: Action, ack: u8, from: u8, timestamp: u64) -> OperationId {
        let id = self.invoke(action, ack, from);
        let timestamp = Some(at(timestamp));
        self.complete(id, Outcome::NotEnough { timestamp });
        id
    }

    fn complete_read(&mut self, id: OperationId, version: u64, content: Content) {
        let acks = self.history.operations()[id.0].request.ack;
        let outcome = Outcome::Found {
            version: (version > 0).then_some(at(version)),
            content,
            acks,
        };
        self.complete(id, outcome);
    }

    /// A read; version 0 stands for none.
    fn read(&mut self, ack: u8, from: u8, version: u64, content: Content) -> OperationId {
        let id = self.invoke(Action::Get, ack, from);
        self.complete_read(id, version, content);
        id
    }

    fn read_nothing(&mut self, ack: u8, from: u8) -> OperationId {
        self.read(ack, from, 0, Content::Absent)
    }

    #[track_caller]
    fn holds(&self) {
        assert_eq!(check(&self.history), []);
    }

    /// This promise and no other is broken, as these operations show.
    #[track_caller]
    fn breaks(&self, promise: Promise, operations: &[OperationId]) {
        let violations = check(&self.history);
        assert!(
            matches!(&violations[..], [only] if only.promise == promise && only.operations == operations),
            "{violations:?}"
        );
    }
}

#[test]
fn a_read_sees_an_acknowledged_write_when_acks_overlap() {
    for (write, read, bound) in [
        ((2, 2), (1, 2), true),
        ((2, 3), (2, 3), true),
        ((1, 1), (1, 1), true),
        ((3, 3), (1, 3), true),
        ((1, 2), (1, 2), false),
        ((2, 3), (1, 3), false),
        // The larger `from` counts.
        ((1, 1), (3, 3), true),
        ((1, 1), (2, 3), false),
        ((3, 5), (2, 2), false),
        ((3, 5), (3, 3), true),
    ] {
        for action in [PUT, DELETE] {
            let mut story = Story::default();
            let put = story.write(action, write.0, write.1, 10);
            let read = story.read_nothing(read.0, read.1);
            if bound {
                story.breaks(Promise::AcknowledgedIsVisible, &[put, read]);
            } else {
                story.holds();
            }
        }
    }
}

#[test]
fn a_read_may_see_something_newer_but_nothing_older() {
    let mut story = Story::default();
    let old = story.write(PUT, 3, 3, 5);
    let put = story.write(PUT, 2, 3, 10);
    let failed = story.fail(PUT, 2, 3, 20);
    story.read(2, 3, 20, Content::Value(failed));
    story.holds();
    let read = story.invoke(Action::Get, 1, 3);
    story.complete_read(read, 5, Content::Value(old));
    story.holds();
    let read = story.invoke(Action::Get, 2, 3);
    story.complete_read(read, 5, Content::Value(old));
    let violations = check(&story.history);
    assert!(
        violations.iter().any(
            |violation| violation.promise == Promise::AcknowledgedIsVisible
                && violation.operations == [put, read]
        ),
        "{violations:?}"
    );
}

#[test]
fn a_read_that_began_before_the_acknowledgement_may_miss_the_write() {
    let mut story = Story::default();
    let put = story.invoke(PUT, 2, 3);
    let read = story.invoke(Action::Get, 2, 3);
    story.complete(put, written(10, 2));
    story.complete_read(read, 0, Content::Absent);
    story.holds();
}

/// Crashes are not in a history, because they must not matter.
#[test]
fn an_acknowledged_write_stays() {
    let mut story = Story::default();
    let put = story.write(PUT, 1, 1, 10);
    story.read(1, 1, 10, Content::Value(put));
    story.read(3, 3, 10, Content::Value(put));
    story.holds();
    let last = story.read_nothing(3, 3);
    let violations = check(&story.history);
    assert!(
        violations.iter().any(
            |violation| violation.promise == Promise::AcknowledgedIsVisible
                && violation.operations == [put, last]
        ),
        "{violations:?}"
    );
}

#[test]
fn a_write_that_failed_is_concurrent_with_all_that_follows() {
    let mut story = Story::default();
    let failed = story.fail(PUT, 2, 3, 10);
    story.read_nothing(2, 3);
    // The failed write appears late.
    story.read(2, 3, 10, Content::Value(failed));
    // A later write need not win over the failed one.
    story.write(PUT, 2, 3, 7);
    story.read(2, 3, 10, Content::Value(failed));
    story.holds();

    let mut story = Story::default();
    let lost = story.invoke(PUT, 2, 3);
    story.complete(lost, Outcome::Lost);
    let silent = story.invoke(PUT, 2, 3);
    story.read(2, 3, 50, Content::Value(lost));
    story.read(2, 3, 60, Content::Value(silent));
    story.holds();
}

#[test]
fn a_later_write_wins_over_an_acknowledged_one_when_acks_overlap() {
    for (first, second, bound) in [
        ((2, 3), (2, 3), true),
        ((1, 3), (3, 3), true),
        ((1, 1), (1, 1), true),
        ((1, 3), (2, 3), false),
        ((1, 1), (2, 3), false),
        ((2, 2), (2, 3), true),
    ] {
        for later in [9, 10] {
            let mut story = Story::default();
            let one = story.write(PUT, first.0, first.1, 10);
            let other = story.write(DELETE, second.0, second.1, later);
            if bound {
                story.breaks(Promise::LaterWriteWins, &[one, other]);
            } else {
                story.holds();
            }
        }
        let mut story = Story::default();
        story.write(PUT, first.0, first.1, 10);
        story.write(DELETE, second.0, second.1, 11);
        story.holds();
    }
}

/// Two deletes with the same timestamp are one version.
#[test]
fn a_delete_may_repeat_another() {
    let mut story = Story::default();
    story.write(DELETE, 2, 3, 10);
    story.write(DELETE, 2, 3, 10);
    story.holds();
    let first = OperationId(1);
    let put = story.write(PUT, 2, 3, 10);
    let violations = check(&story.history);
    assert!(
        violations
            .iter()
            .any(|violation| violation.operations == [first, put]),
        "{violations:?}"
    );

    let mut story = Story::default();
    let first = story.write(DELETE, 2, 2, 10);
    let other = story.write(DELETE, 2, 3, 10);
    story.breaks(Promise::LaterWriteWins, &[first, other]);
}

#[test]
fn writes_at_the_same_time_are_in_any_order() {
    let mut story = Story::default();
    let one = story.invoke(PUT, 2, 3);
    let other = story.invoke(PUT, 2, 3);
    story.complete(one, written(10, 2));
    story.complete(other, written(9, 2));
    story.holds();
}

#[test]
fn reads_by_majority_never_go_back() {
    for (reads, bound) in [
        (((2, 3), (2, 3)), true),
        (((3, 3), (2, 3)), true),
        (((1, 1), (1, 1)), true),
        (((3, 5), (3, 5)), true),
        (((3, 4), (3, 4)), true),
        (((1, 3), (2, 3)), false),
        (((2, 3), (1, 3)), false),
        (((2, 4), (2, 4)), false),
        (((1, 2), (1, 2)), false),
        // The numbers of replicas differ.
        (((1, 1), (2, 3)), false),
    ] {
        let ((first_ack, first_from), (second_ack, second_from)) = reads;
        let mut story = Story::default();
        let failed = story.fail(PUT, 3, 5, 10);
        let one = story.read(first_ack, first_from, 10, Content::Value(failed));
        let other = story.read_nothing(second_ack, second_from);
        if bound {
            story.breaks(Promise::ReadsNeverGoBack, &[one, other]);
        } else {
            story.holds();
        }
    }
}

#[test]
fn reads_at_the_same_time_may_see_new_then_old() {
    let mut story = Story::default();
    let put = story.invoke(PUT, 2, 3);
    let one = story.invoke(Action::Get, 2, 3);
    let other = story.invoke(Action::Get, 2, 3);
    story.complete_read(one, 10, Content::Value(put));
    story.complete_read(other, 0, Content::Absent);
    story.holds();
}

#[test]
fn no_read_returns_what_was_never_written() {
    let mut story = Story::default();
    let read = story.read(1, 1, 10, Content::Garbage);
    story.breaks(Promise::OnlyWhatWasWritten, &[read]);

    // The value of no put, then of a delete.
    let mut story = Story::default();
    let read = story.read(1, 1, 10, Content::Value(OperationId(77)));
    story.breaks(Promise::OnlyWhatWasWritten, &[read]);
    let mut story = Story::default();
    let delete = story.fail(DELETE, 1, 1, 10);
    let read = story.read(1, 1, 10, Content::Value(delete));
    story.breaks(Promise::OnlyWhatWasWritten, &[read]);

    // The value of another key.
    let mut story = Story::default();
    let put = story.invoke_on(2, PUT, 1, 1);
    let read = story.read(1, 1, 10, Content::Value(put));
    story.breaks(Promise::OnlyWhatWasWritten, &[read]);

    // A value that is put only later.
    let mut story = Story::default();
    let read = story.invoke(Action::Get, 1, 1);
    story.complete_read(read, 10, Content::Value(OperationId(1)));
    let put = story.invoke(PUT, 1, 1);
    story.breaks(Promise::OnlyWhatWasWritten, &[put, read]);
}

#[test]
fn a_version_is_one_that_its_write_was_stamped_with() {
    // A write that was given a timestamp twice may appear under its first timestamp.
    let mut story = Story::default();
    let put = story.invoke(PUT, 2, 3);
    story.read(2, 3, 8, Content::Value(put));
    story.complete(put, written(12, 2));
    story.holds();
    let read = story.read(2, 3, 13, Content::Value(put));
    story.breaks(Promise::OnlyWhatWasWritten, &[put, read]);

    // A tombstone that no delete wrote.
    let mut story = Story::default();
    story.fail(PUT, 2, 3, 10);
    story.fail(DELETE, 2, 3, 20);
    story.read(2, 3, 20, Content::Absent);
    story.holds();
    let read = story.read(2, 3, 21, Content::Absent);
    story.breaks(Promise::OnlyWhatWasWritten, &[read]);

    // A value without a version.
    let mut story = Story::default();
    let put = story.fail(PUT, 2, 3, 10);
    let read = story.read(2, 3, 0, Content::Value(put));
    story.breaks(Promise::OnlyWhatWasWritten, &[put, read]);
}

#[test]
fn a_refused_write_never_appears() {
    let mut story = Story::default();
    let put = story.invoke(PUT, 2, 3);
    story.complete(put, Outcome::Refused);
    story.read_nothing(2, 3);
    story.holds();
    let read = story.read(2, 3, 10, Content::Value(put));
    story.breaks(Promise::RefusedChangesNothing, &[put, read]);

    let mut story = Story::default();
    let delete = story.invoke(DELETE, 2, 3);
    story.complete(delete, Outcome::Refused);
    let read = story.read(2, 3, 10, Content::Absent);
    story.breaks(Promise::OnlyWhatWasWritten, &[read]);
}

#[test]
fn acks_are_counted() {
    for (acks, right) in [(1, false), (2, true), (3, true), (4, false)] {
        let mut story = Story::default();
        let put = story.invoke(PUT, 2, 3);
        story.complete(put, written(10, acks));
        let read = story.invoke(Action::Get, 2, 3);
        let outcome = Outcome::Found {
            version: Some(at(10)),
            content: Content::Value(put),
            acks,
        };
        story.complete(read, outcome);
        if right {
            story.holds();
        } else {
            let violations = check(&story.history);
            let promises: Vec<_> = violations.iter().map(|each| each.promise).collect();
            assert_eq!(promises, [Promise::AcksAreCounted; 2]);
        }
    }
}
