//! What a read may miss because it is forgotten, and what it may not.

use super::{DELETE, PUT, Story, at};
use crate::history::{Action, Content, OperationId, Outcome};
use crate::promise::Promise;
use base::Timestamp;

#[test]
fn what_is_dead_below_the_forget_bound_may_be_absent() {
    let read_nothing_below = |story: &mut Story, forgotten| {
        let read = story.read_nothing(2, 3);
        story.history.ended_below(read, at(forgotten));
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
fn a_value_that_was_forgotten_with_its_tombstone_does_not_come_back() {
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
        for outcome in [Outcome::Lost, Outcome::NotEnough { stamp: None }] {
            let mut story = Story::default();
            let put = story.write(PUT, 2, 3, 5);
            story.unix_ms = began_ms;
            let delete = story.invoke(DELETE, 2, 3);
            story.complete(delete, outcome);
            let read = story.read_nothing(2, 3);
            let bound = Timestamp::from_unix_ms(BOUND_MS);
            story.history.ended_below(read, bound);
            match is_excused {
                true => story.holds(),
                false => check_breaks_only(&story, put),
            }
        }
    }
}

#[test]
fn a_copy_beyond_the_replicas_of_its_version_may_be_gone_below_the_forget_bound() {
    // A value of one replica, read from two of three; and then two of three do not have it.
    let story = |from, version, forgotten| {
        let mut story = Story::default();
        let put = story.write(PUT, 1, from, 5);
        let found = story.read(2, 3, 5, Content::Value(put));
        let missed = match version {
            0 => story.read_nothing(2, 3),
            _ => story.read(2, 3, version, Content::Value(put)),
        };
        story.history.ended_below(missed, at(forgotten));
        (story, found, missed)
    };
    story(1, 0, 6).0.holds();
    // Not at the bound, not with as many replicas as were read, and not for something older.
    for (from, version, forgotten) in [(1, 0, 5), (3, 0, 6), (1, 4, 6)] {
        let (story, found, missed) = story(from, version, forgotten);
        story.breaks(Promise::ReadsNeverGoBack, &[found, missed]);
    }
}

#[test]
fn an_acknowledged_value_of_few_replicas_stays_visible_below_the_forget_bound() {
    let mut story = Story::default();
    let put = story.write(PUT, 1, 1, 5);
    let read = story.read_nothing(3, 3);
    story.history.ended_below(read, at(9));
    story.breaks(Promise::AcknowledgedIsVisible, &[put, read]);
}

#[test]
fn a_value_that_one_of_fewer_copies_has_replaced_may_be_absent_below_the_forget_bound() {
    let cases = [(8, 9, true), (8, 8, false), (4, 9, false)];
    let reads = [Action::Get, Action::Range];
    let all = reads.map(|read| cases.map(|case| (read, case)));
    for (action, (newer, forgotten, is_excused)) in all.into_iter().flatten() {
        let mut story = Story::default();
        let put = story.write(PUT, 3, 3, 5);
        story.write(PUT, 1, 1, newer);
        let read = story.invoke(action, 1, 3);
        story.complete_read(read, 0, Content::Absent);
        story.history.ended_below(read, at(forgotten));
        match is_excused {
            true => story.holds(),
            false => assert!(super::check(&story.history).iter().any(|broken| {
                broken.promise == Promise::AcknowledgedIsVisible && broken.operations == [put, read]
            })),
        }
    }
}
