//! What a read may miss because it is collected, and what it may not.

use super::{DELETE, PUT, Story, at};
use crate::history::{Action, Content, OperationId, Outcome};
use crate::promise::{Promise, Violation};
use base::Timestamp;

#[test]
fn what_is_dead_below_the_gc_threshold_may_be_absent() {
    let read_nothing_below = |story: &mut Story, gc_threshold| {
        let read = story.read_nothing(2, 3);
        story.history.ended_below(read, at(gc_threshold));
        read
    };
    let mut story = Story::default();
    story.write(PUT, 2, 3, 5);
    story.write(DELETE, 2, 3, 10);
    read_nothing_below(&mut story, 11);
    story.holds();
    // Not before the bound is above it, and nothing newer.
    let mut later = Story::default();
    let first = later.write(DELETE, 2, 3, 10);
    read_nothing_below(&mut later, 9);
    check_breaks_only(&later, first);
    let put = story.write(PUT, 2, 3, 20);
    read_nothing_below(&mut story, 30);
    check_breaks_only(&story, put);
}

/// One read misses one acknowledged write.
#[track_caller]
fn check_breaks_only(story: &Story, write: OperationId) {
    let last = OperationId(story.history.operations().len() - 1);
    story.breaks(Promise::AcknowledgedIsVisible, &[write, last]);
}

#[test]
fn a_value_that_was_collected_with_its_tombstone_does_not_come_back() {
    let mut story = Story::default();
    let put = story.write(PUT, 2, 3, 5);
    let deleted = story.write(DELETE, 2, 3, 10);
    let read = story.read(2, 3, 5, Content::Value(put));
    story.history.ended_below(read, at(20));
    story.breaks(Promise::AcknowledgedIsVisible, &[deleted, read]);
}

#[test]
fn a_delete_of_unknown_outcome_excuses_only_what_it_may_have_been_stamped_below() {
    const BOUND_MS: u64 = 1_700_000_000_000;
    for (began_ms, is_excused) in [(BOUND_MS - 1, true), (BOUND_MS + 1, false)] {
        for outcome in [Outcome::Lost, Outcome::NotEnough { timestamp: None }] {
            let mut story = Story::default();
            let put = story.write(PUT, 2, 3, 5);
            story.unix_ms = began_ms;
            let delete = story.invoke(DELETE, 2, 3);
            story.complete(delete, outcome);
            let read = story.read_nothing(2, 3);
            let bound = Timestamp::from_unix_ms(BOUND_MS);
            story.history.ended_below(read, bound);
            if is_excused {
                story.holds();
            } else {
                check_breaks_only(&story, put);
            }
        }
    }
}

#[test]
fn a_copy_beyond_the_replicas_of_its_version_may_be_gone_below_the_gc_threshold() {
    // A value of `from` replicas, read from two of three; and then `ack` of three do not have it.
    let story = |from, version, ack, gc_threshold| {
        let mut story = Story::default();
        let put = story.fail(PUT, from, from, 5);
        let found = story.read(2, 3, 5, Content::Value(put));
        let missed = match version {
            0 => story.read_nothing(ack, 3),
            _ => story.read(ack, 3, version, Content::Value(put)),
        };
        story.history.ended_below(missed, at(gc_threshold));
        (story, found, missed)
    };
    story(1, 0, 2, 6).0.holds();
    // Not at the bound, not where one of those that were read is a replica, and not for something
    // older.
    for (from, version, ack, gc_threshold) in [
        (1, 0, 2, 5),
        (1, 0, 3, 6),
        (2, 0, 2, 6),
        (3, 0, 2, 6),
        (1, 4, 2, 6),
    ] {
        let (story, found, missed) = story(from, version, ack, gc_threshold);
        story.breaks(Promise::ReadsNeverGoBack, &[found, missed]);
    }
}

#[test]
fn an_acknowledged_value_of_few_replicas_stays_visible_below_the_gc_threshold() {
    let mut story = Story::default();
    let put = story.write(PUT, 1, 1, 5);
    let read = story.read_nothing(3, 3);
    story.history.ended_below(read, at(9));
    story.breaks(Promise::AcknowledgedIsVisible, &[put, read]);
}

#[test]
fn a_value_that_one_of_fewer_copies_has_replaced_may_be_absent_below_the_gc_threshold() {
    // How many copies the newer one has, its version, how many answer the read, and the bound.
    let cases = [
        ((1, 8), 1, 9, true),
        ((1, 8), 2, 9, true),
        ((2, 8), 1, 9, true),
        ((1, 8), 1, 8, false),
        ((1, 4), 1, 9, false),
        // One of those that answer is a replica of the newer one, and has it.
        ((2, 8), 2, 9, false),
        ((1, 8), 3, 9, false),
    ];
    let reads = [Action::Get, Action::Scan];
    let all = reads.map(|read| cases.map(|case| (read, case)));
    for (action, ((copies, newer), ack, gc_threshold, is_excused)) in all.into_iter().flatten() {
        let mut story = Story::default();
        let put = story.write(PUT, 3, 3, 5);
        story.write(PUT, 1, copies, newer);
        let read = story.invoke(action, ack, 3);
        story.complete_read(read, 0, Content::Absent);
        story.history.ended_below(read, at(gc_threshold));
        if is_excused {
            story.holds();
        } else {
            check_misses(&story, put, read);
        }
    }
}

/// Among others, a read misses an acknowledged write.
#[track_caller]
fn check_misses(story: &Story, write: OperationId, read: OperationId) {
    let violations = super::check(&story.history);
    let is_it = |broken: &Violation| {
        broken.promise == Promise::AcknowledgedIsVisible && broken.operations == [write, read]
    };
    assert!(violations.iter().any(is_it), "{violations:?}");
}

#[test]
fn a_write_that_began_after_the_read_has_replaced_nothing_for_it() {
    for is_later in [false, true] {
        let mut story = Story::default();
        let put = story.write(PUT, 3, 3, 5);
        let read = story.invoke(Action::Get, 1, 3);
        // It is on its way when the read ends, or only invoked then. The clock of its node is
        // behind the bound in both cases.
        if !is_later {
            story.invoke(PUT, 1, 1);
        }
        story.complete_read(read, 0, Content::Absent);
        story.history.ended_below(read, at(9));
        if is_later {
            story.invoke(PUT, 1, 1);
        }
        if is_later {
            story.breaks(Promise::AcknowledgedIsVisible, &[put, read]);
        } else {
            story.holds();
        }
    }
}
