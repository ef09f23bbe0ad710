//! A node's part in passes behind a fence and a forget bound.

use super::joining::Agreed;
use super::participant::{Participant, PartEnvironment};
use super::tests::{PASS, STORE, agreed, begin, engine, expiry, items_of_ranges, present, write};
use crate::RepairSizes;
use base::{Entry, Expiry, ManualClock, Timestamp};
use bytes::Bytes;
use cluster::forgetting::{Bounds, Vouching};
use cluster::sweep::{Item, KeyBounds, SessionId, RepairKind};
use cluster::{NodeId, Placement};
use lsm::Engine;
use lsm_testing::BlockingWrite;
use peer::{Offer, RepairAnswer};
use replica::SharedBounds;
use replica::{ExpiryBound, OwnClock};
use std::sync::Arc;
use std::time::Duration;

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

fn participant(engine: &Engine, bounds: &Arc<SharedBounds>) -> Participant {
    Participant::new(PartEnvironment {
        engine: engine.clone(),
        clock: Arc::new(ManualClock::new(0)),
        placement: Arc::new(Placement::new(["a", "b", "c"])),
        own: NodeId::new(0),
        mended: Arc::default(),
        bounds: Arc::clone(bounds),
        is_receiver: Box::new(|| false),
        expiry: expiry(),
        sizes: RepairSizes::default(),
        ingest_bytes_max: 8 << 20,
    })
}

#[test]
fn a_pass_that_the_forget_bound_has_outrun_is_given_up() {
    let bounds = Arc::<SharedBounds>::default();
    let mut participant = participant(&engine(), &bounds);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    assert!(participant.sync(PASS).unwrap());
    // Another driver's pass has ended, and what it has deleted may be gone.
    bounds.hear(Timestamp::from_u64(9));
    assert_eq!(participant.digest(PASS, 0, None), RepairAnswer::Unknown);
    assert!(!participant.sync(PASS).unwrap());
    // The next pass knows of the bound.
    let next = (SessionId(77), RepairKind::Full);
    participant.begin(next, false, present(STORE));
    let agreed = Agreed {
        forgotten: Timestamp::from_u64(9),
        ..agreed(20, vec![KeyBounds::everything(); 3])
    };
    participant.agree(SessionId(77), agreed);
    assert!(participant.sync(SessionId(77)).unwrap());
}

#[test]
fn all_leave_out_what_is_dead_below_the_bound_that_they_agree_on() {
    let engine = engine();
    for (key, timestamp) in [(b"a", 8), (b"b", 9)] {
        let timestamp = Timestamp::from_u64(timestamp);
        engine.write(Entry::tombstone(key, timestamp, 3)).unwrap();
    }
    // This node has not heard of the bound that another one knows.
    let bounds = Arc::<SharedBounds>::default();
    let mut participant = participant(&engine, &bounds);
    participant.begin((PASS, RepairKind::Full), false, present(STORE));
    let agreed = Agreed {
        forgotten: Timestamp::from_u64(9),
        ..agreed(20, vec![KeyBounds::everything(); 3])
    };
    assert_eq!(participant.agree(PASS, agreed), RepairAnswer::Done);
    // It hears of it with the agreement, and is not outrun.
    bounds.hear(Timestamp::from_u64(9));
    assert_eq!(items_of_ranges(&mut participant, PASS), [1]);
}

/// The keys that are compared of three values below the forget bound: one that expired long
/// ago, one that expired just now, and one that lives for a year. The driver's clock is a
/// hundred years ahead.
fn compared_with_a_driver_from_the_future(proven_unix_ms: Option<u64>) -> u64 {
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
    let mut participant = participant(&engine, &Arc::default());
    participant.environment.expiry =
        Arc::new(ExpiryBound::new(own_clock, Duration::from_secs(3_600)));
    participant.begin((PASS, RepairKind::Full), false, present(STORE));
    let agreed = Agreed {
        cut: Timestamp::from_unix_ms(NOW_UNIX_MS + 100 * YEAR_MS),
        forgotten: Timestamp::from_unix_ms(NOW_UNIX_MS),
        ..agreed(0, vec![KeyBounds::everything(); 3])
    };
    participant.agree(PASS, agreed);
    items_of_ranges(&mut participant, PASS).into_iter().sum()
}

#[test]
fn the_clock_of_the_driver_alone_makes_no_pass_leave_out_what_lives() {
    assert_eq!(compared_with_a_driver_from_the_future(Some(NOW_UNIX_MS)), 2);
    assert_eq!(compared_with_a_driver_from_the_future(None), 3);
}

#[test]
fn a_new_fence_ends_the_other_passes() {
    let mut participant = participant(&engine(), &Arc::default());
    let other = SessionId(8);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    begin(&mut participant, other, RepairKind::Incremental, 20);
    participant.give_up_all_but(PASS);
    let passes: Vec<_> = participant.passes().collect();
    assert_eq!(passes, [(PASS, RepairKind::Full)]);
}

#[test]
fn a_pass_has_gone_back_once_it_is_resumed_unless_not_all_nodes_are_fenced() {
    let mut participant = participant(&engine(), &Arc::default());
    let gone_back = |own: &Participant| own.passes_gone_back().collect::<Vec<_>>();
    let everything = || agreed(20, vec![KeyBounds::everything(); 3]);
    for (kind, is_resumed, is_fenced, expected) in [
        (RepairKind::Full, false, true, false),
        (RepairKind::Full, true, true, true),
        (RepairKind::Full, true, false, false),
        (RepairKind::Incremental, true, true, false),
    ] {
        participant.begin((PASS, kind), is_resumed, present(STORE));
        // Whether it is fenced is not known yet, and its mends may come.
        let may_go_back = is_resumed && kind == RepairKind::Full;
        assert_eq!(gone_back(&participant) == [PASS], may_go_back);
        if is_fenced {
            participant.disregard(PASS, Timestamp::ZERO, vec![Vouching::All; 3]);
        }
        participant.agree(PASS, everything());
        assert_eq!(gone_back(&participant) == [PASS], expected, "{kind:?}");
    }
}

#[test]
fn only_offers_below_the_fence_may_hide_what_a_tombstone_hides() {
    let engine = engine();
    let fence = Timestamp::from_u64(50);
    let bounds = SharedBounds::of(Bounds {
        fence,
        forgotten: Timestamp::ZERO,
    });
    for (key, timestamp) in [("older", 10), ("same", 40), ("newer", 60)] {
        write(&engine, key, timestamp);
    }
    let mut participant = participant(&engine, &Arc::new(bounds));
    begin(&mut participant, PASS, RepairKind::Full, 90);
    items_of_ranges(&mut participant, PASS);
    let mut offered = |key: &'static str, timestamp| {
        let timestamp = Timestamp::from_u64(timestamp);
        let entry = Entry::value(key.as_bytes(), timestamp, b"", Expiry::NEVER, 3);
        let offer = Offer {
            key: Bytes::from_static(key.as_bytes()),
            timestamp,
            content_hash: Item::of(entry.lend(), fence).content_hash,
            copies: 3,
        };
        let reply = participant.offered((PASS, 0), &[offer]).unwrap().unwrap();
        (reply.unsettled, reply.below_fence)
    };
    assert_eq!(offered("none", 40), (1, 1));
    assert_eq!(offered("none", 50), (1, 0));
    assert_eq!(offered("older", 40), (1, 1));
    assert_eq!(offered("same", 40), (0, 0));
    // The newer version goes where the older one is, and stays.
    assert_eq!(offered("newer", 40), (1, 0));
}

/// A tombstone of fewer copies may hide it on the node that has sent it.
#[test]
fn a_pass_behind_whose_scan_something_old_has_come_raises_no_bound() {
    let engine = engine();
    write(&engine, "k", 10);
    let mut participant = participant(&engine, &Arc::default());
    let other = SessionId(8);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    begin(&mut participant, other, RepairKind::Incremental, 20);
    assert_eq!(participant.digest(PASS, 0, None), RepairAnswer::Unknown);
    items_of_ranges(&mut participant, PASS);
    let mended = Arc::clone(&participant.environment.mended);
    mended.old_version_came(PASS, b"k");
    assert!(participant.is_as_begun(PASS, STORE), "the pass expects it");
    mended.old_version_came(other, b"k");
    assert!(!participant.is_as_begun(PASS, STORE));
    // The next one meets it.
    begin(&mut participant, SessionId(9), RepairKind::Full, 20);
    assert!(participant.is_as_begun(SessionId(9), STORE));
    // Nor does a pass count that goes on after this node has forgotten it.
    participant.give_up(PASS);
    participant.begin((PASS, RepairKind::Full), true, present(STORE));
    assert!(!participant.is_as_begun(PASS, STORE));
}
