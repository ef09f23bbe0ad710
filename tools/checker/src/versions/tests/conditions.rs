//! What conditional writes replace.

use super::*;
use crate::history::Expected;

const CREATE: Action = Action::PutIf(Expected::Absent);

fn if_at(version: u64) -> Action {
    Action::PutIf(Expected::Version(at(version)))
}

#[test]
fn nothing_that_was_acknowledged_lies_between_a_version_and_what_it_replaces() {
    let mut story = Story::default();
    story.write(PUT, 2, 3, 10);
    story.write(if_at(10), 2, 3, 20);
    story.write(if_at(20), 2, 3, 30);
    story.holds();
    // A write that was not acknowledged may lie there.
    story.fail(PUT, 2, 3, 35);
    story.write(if_at(30), 2, 3, 40);
    story.holds();

    for between in [PUT, DELETE, if_at(10)] {
        let mut story = Story::default();
        story.write(PUT, 2, 3, 10);
        let changed = story.invoke(if_at(10), 2, 3);
        let other = story.write(between, 2, 3, 15);
        story.complete(changed, written(20, 2));
        story.breaks(Promise::ConditionIsKept, &[other, changed]);
    }
    // What too few replicas have stored need not be met.
    let mut story = Story::default();
    story.write(PUT, 2, 3, 10);
    let changed = story.invoke(if_at(10), 2, 3);
    story.write(PUT, 1, 3, 15);
    story.complete(changed, written(20, 2));
    story.holds();
}

#[test]
fn a_write_that_needs_an_absent_key_replaces_no_value() {
    let mut story = Story::default();
    story.write(CREATE, 2, 3, 10);
    story.write(DELETE, 2, 3, 20);
    story.write(CREATE, 2, 3, 30);
    story.write(Action::DeleteIf(Expected::Version(at(30))), 2, 3, 40);
    story.write(CREATE, 2, 3, 50);
    story.holds();
    let created = story.invoke(CREATE, 2, 3);
    story.complete(created, written(60, 2));
    story.breaks(Promise::ConditionIsKept, &[OperationId(4), created]);

    let mut story = Story::default();
    let short = Action::Put {
        ttl_seconds: Some(1),
    };
    story.write(short, 2, 3, 10);
    story.unix_ms += 1_000;
    story.write(CREATE, 2, 3, 20);
    story.holds();
}

#[test]
fn what_was_not_matched_changes_nothing() {
    let mut story = Story::default();
    story.write(PUT, 2, 3, 10);
    let refused = story.invoke(if_at(5), 2, 3);
    story.complete(refused, Outcome::NotMatched);
    story.holds();
    let read = story.read(2, 3, 20, Content::Value(refused));
    story.breaks(Promise::RefusedChangesNothing, &[refused, read]);
}
