//! When a value expires, and what an expired one is to reads.

use super::{PUT, Story, written};
use crate::history::{Action, Content, OperationId};
use crate::promise::Promise;

#[test]
fn a_value_expires_by_the_clock_of_the_node_that_answers() {
    let ttl = Action::Put {
        ttl_seconds: Some(2),
    };
    for (put_ms, read_ms, is_served, right) in [
        ((1_000, 1_100), (2_900, 2_950), true, true),
        ((1_000, 1_100), (2_900, 2_950), false, false),
        ((1_000, 1_100), (2_900, 3_000), false, true),
        ((1_000, 1_100), (3_090, 3_200), true, true),
        ((1_000, 1_100), (3_100, 3_200), true, false),
        ((1_000, 1_100), (3_100, 3_200), false, true),
        // The clock is set back during the read.
        ((1_000, 1_100), (3_100, 500), true, true),
    ] {
        let mut story = Story {
            unix_ms: put_ms.0,
            ..Story::default()
        };
        let put = story.invoke(ttl, 1, 1);
        story.unix_ms = put_ms.1;
        story.complete(put, written(10, 1));
        story.unix_ms = read_ms.0;
        let read = story.invoke(Action::Get, 1, 1);
        story.unix_ms = read_ms.1;
        let (content, shown) = if is_served {
            (Content::Value(put), vec![put, read])
        } else {
            (Content::Absent, vec![read])
        };
        story.complete_read(read, 10, content);
        if right {
            story.holds();
        } else {
            story.breaks(Promise::ExpiryIsKept, &shown);
        }
    }
}

#[test]
fn a_clock_that_was_set_forth_and_back_may_have_decided_in_between() {
    let ttl = Action::Put {
        ttl_seconds: Some(2),
    };
    // What the clock of the node has shown during the put and during the read.
    for (of_put, of_read, right) in [
        ([1_000, 9_000, 1_100], [10_900, 10_900, 10_950], true),
        ([1_000, 9_000, 1_100], [11_000, 11_000, 11_050], false),
        ([1_000, 1_000, 1_100], [11_000, 3_000, 11_050], true),
        ([1_000, 1_000, 1_100], [11_000, 3_100, 11_050], false),
    ] {
        let mut story = Story::default();
        let shows = |story: &mut Story, unix_ms| {
            story.unix_ms = unix_ms;
            // The clock of another node says nothing.
            story.history.clock_shows(1, 0);
            story.history.clock_shows(0, unix_ms);
        };
        shows(&mut story, of_put[0]);
        let put = story.invoke(ttl, 1, 1);
        shows(&mut story, of_put[1]);
        shows(&mut story, of_put[2]);
        story.complete(put, written(10, 1));
        shows(&mut story, of_read[0]);
        let read = story.invoke(Action::Scan, 1, 1);
        shows(&mut story, of_read[1]);
        shows(&mut story, of_read[2]);
        story.complete_read(read, 10, Content::Value(put));
        if right {
            story.holds();
        } else {
            story.breaks(Promise::ExpiryIsKept, &[put, read]);
        }
    }
}

/// An expired version hides older versions and is itself a version: a read that
/// returns no version has missed it.
#[test]
fn an_expired_version_counts_as_a_version() {
    let ttl = Action::Put {
        ttl_seconds: Some(1),
    };
    let mut story = Story::default();
    story.write(PUT, 2, 3, 5);
    let put = story.write(ttl, 2, 3, 10);
    story.unix_ms = 5_000;
    story.read(2, 3, 10, Content::Absent);
    story.holds();
    let mut other = Story::default();
    let put_first = other.write(ttl, 2, 3, 10);
    assert_eq!((put, put_first), (OperationId(1), OperationId(0)));
    other.unix_ms = 5_000;
    let read = other.read_nothing(2, 3);
    other.breaks(Promise::AcknowledgedIsVisible, &[put_first, read]);
}
