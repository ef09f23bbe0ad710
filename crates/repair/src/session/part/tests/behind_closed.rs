//! A node's part in sessions below a closed timestamp and a GC threshold.

use super::{
    Agreed, SESSION, agreed, begin, begun, engine, incremental, items_of_ranges, participant, write,
};
use base::{Entry, Expiry, Timestamp};
use bytes::Bytes;
use cluster::comparison::{Item, KeyBounds};
use lsm_testing::BlockingWrite;
use peer::Offer;
use replica::{ExpiryBound, OwnClock};
use std::sync::Arc;
use std::time::Duration;

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

#[test]
fn all_leave_out_what_is_dead_below_the_threshold_that_they_agree_on() {
    let engine = engine();
    for (key, timestamp) in [(b"a", 8), (b"b", 9)] {
        let timestamp = Timestamp::from_u64(timestamp);
        engine.write(Entry::tombstone(key, timestamp, 3)).unwrap();
    }
    // This node has not heard of the threshold that another one knows.
    let mut participant = participant(&engine);
    begun(&mut participant, SESSION);
    let agreed = Agreed {
        gc_threshold: Timestamp::from_u64(9),
        ..agreed(20, vec![KeyBounds::everything(); 3])
    };
    participant.agree(SESSION, agreed).unwrap();
    assert_eq!(items_of_ranges(&mut participant, SESSION), [1]);
}

/// What is older than the closed timestamps is for full sessions.
#[test]
fn an_incremental_session_compares_nothing_below_the_closed_timestamps() {
    let engine = engine();
    for (key, timestamp) in [("a", 8), ("b", 9), ("c", 10)] {
        write(&engine, key, timestamp);
    }
    let mut participant = participant(&engine);
    let bounds = begun(&mut participant, incremental(7)).bounds;
    let above = |bounds: KeyBounds| bounds.at_least(Timestamp::from_u64(9));
    let agreed = agreed(20, bounds.into_iter().map(above).collect());
    participant.agree(incremental(7), agreed).unwrap();
    assert_eq!(items_of_ranges(&mut participant, incremental(7)), [2]);
}

/// The keys that are compared of three values below the GC threshold: one that expired long
/// ago, one that expired just now, and one that lives for a year. The coordinator's clock is a
/// hundred years ahead.
fn compared_with_a_coordinator_from_the_future(proven_unix_ms: Option<u64>) -> u64 {
    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    let engine = engine();
    let timestamp = Timestamp::from_unix_ms(NOW_UNIX_MS - YEAR_MS);
    let expiries = [
        NOW_UNIX_MS - YEAR_MS / 2,
        NOW_UNIX_MS,
        NOW_UNIX_MS + YEAR_MS,
    ];
    for (number, expiry) in expiries.into_iter().enumerate() {
        let expiry = Expiry::at_unix_ms(expiry);
        let key = format!("{number}");
        let entry = Entry::value(key.as_bytes(), timestamp, b"v", expiry, 3);
        engine.write(entry).unwrap();
    }
    let own_clock = OwnClock::ByPeers(Box::new(move || proven_unix_ms));
    let mut participant = participant(&engine);
    participant.environment.expiry =
        Arc::new(ExpiryBound::new(own_clock, Duration::from_secs(3_600)));
    begun(&mut participant, SESSION);
    let agreed = Agreed {
        cut: Timestamp::from_unix_ms(NOW_UNIX_MS + 100 * YEAR_MS),
        gc_threshold: Timestamp::from_unix_ms(NOW_UNIX_MS),
        ..agreed(0, vec![KeyBounds::everything(); 3])
    };
    participant.agree(SESSION, agreed).unwrap();
    items_of_ranges(&mut participant, SESSION).into_iter().sum()
}

#[test]
fn the_clock_of_the_coordinator_alone_makes_no_session_leave_out_what_lives() {
    assert_eq!(
        compared_with_a_coordinator_from_the_future(Some(NOW_UNIX_MS)),
        2
    );
    assert_eq!(compared_with_a_coordinator_from_the_future(None), 3);
}

#[test]
fn only_offers_that_are_not_above_the_cut_have_a_range_compared_again() {
    let engine = engine();
    let cut = Timestamp::from_u64(50);
    for (key, timestamp) in [("older", 10), ("same", 40), ("newer", 60)] {
        write(&engine, key, timestamp);
    }
    let mut participant = participant(&engine);
    begin(&mut participant, SESSION, 50);
    items_of_ranges(&mut participant, SESSION);
    let mut below_cut = |key: &'static str, timestamp| {
        let timestamp = Timestamp::from_u64(timestamp);
        let entry = Entry::value(key.as_bytes(), timestamp, b"", Expiry::NEVER, 3);
        let offer = Offer {
            key: Bytes::from_static(key.as_bytes()),
            timestamp,
            content_hash: Item::of(entry.lend(), cut).content_hash,
            copies: 3,
        };
        let reply = participant.offered((SESSION, 0), &[offer]);
        reply.unwrap().unwrap().below_cut
    };
    assert_eq!(below_cut("none", 50), 1);
    assert_eq!(below_cut("none", 51), 0);
    assert_eq!(below_cut("older", 40), 1);
    assert_eq!(below_cut("same", 40), 0);
    // The newer version goes where the older one is, and stays.
    assert_eq!(below_cut("newer", 40), 0);
}
