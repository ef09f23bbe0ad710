//! A node's part in passes, on a store in memory.

use super::exchange::RangeId;
use super::joining::{Agreed, PresentStore};
use super::mended::WrittenKeys;
use super::participant::{Advance, Ended, Participant, PartEnvironment, Selected};
use crate::RepairSizes;
use base::{Clock, Entry, Expiry, ManualClock, Timestamp};
use bytes::Bytes;
use cluster::sweep::{Incarnation, Item, KeyBounds, SessionId, RepairKind};
use cluster::{NodeId, Placement};
use lsm::{Disk, Engine, Options};
use lsm_testing::{BlockingWrite, MemoryDisk, environment};
use peer::RepairAnswer;
use replica::{ExpiryBound, OwnClock};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const PASS: SessionId = SessionId(7);
const PEER: NodeId = NodeId::new(1);
pub(super) const STORE: Incarnation = Incarnation {
    store_id: 4,
    last_loss: 0,
};
const AFTER_A_LOSS: Incarnation = Incarnation {
    last_loss: 1,
    ..STORE
};

/// What a full pass is to a node that was not restarted since it began, or was.
fn full(is_from_begin: bool) -> Ended {
    Ended {
        kind: RepairKind::Full,
        is_from_begin,
    }
}

pub(super) fn engine() -> Engine {
    engine_on(&Arc::new(MemoryDisk::new()))
}

pub(super) fn engine_on(disk: &Arc<MemoryDisk>) -> Engine {
    let (environment, _executor) = environment(Arc::clone(disk) as Arc<dyn Disk>);
    Engine::open(environment, Options::default()).unwrap().0
}

fn participant(engine: &Engine) -> Participant {
    participant_of(engine, NodeId::new(0))
}

/// The part of one of the nodes "a", "b" and "c".
pub(super) fn participant_of(engine: &Engine, own: NodeId) -> Participant {
    participant_with(engine, own, &Arc::default())
}

fn participant_with(engine: &Engine, own: NodeId, mended: &Arc<WrittenKeys>) -> Participant {
    let clock = Arc::new(ManualClock::new(0)) as Arc<dyn Clock>;
    let placement = Arc::new(Placement::new(["a", "b", "c"]));
    Participant::new(PartEnvironment {
        engine: engine.clone(),
        clock,
        placement,
        own,
        mended: Arc::clone(mended),
        bounds: Arc::default(),
        is_receiver: Box::new(|| false),
        expiry: expiry(),
        sizes: RepairSizes::default(),
        ingest_bytes_max: 8 << 20,
    })
}

/// A store that begins to take part in a pass.
pub(super) fn present(incarnation: Incarnation) -> PresentStore {
    PresentStore {
        incarnation,
        start: 1,
        greatest_seen: Timestamp::ZERO,
        latest_fence: Timestamp::ZERO,
    }
}

/// What the nodes of a pass with this cut agree on.
pub(super) fn agreed(cut: u64, bounds: Vec<KeyBounds>) -> Agreed {
    Agreed {
        cut: Timestamp::from_u64(cut),
        forgotten: Timestamp::ZERO,
        reaches: vec![3; 3],
        bounds,
    }
}

/// What has expired by a clock that shows 1970, and that peers have proven.
pub(super) fn expiry() -> Arc<ExpiryBound> {
    let own_clock = OwnClock::ByPeers(Box::new(|| Some(0)));
    Arc::new(ExpiryBound::new(own_clock, Duration::ZERO))
}

pub(super) fn write(engine: &Engine, key: &str, timestamp: u64) {
    let timestamp = Timestamp::from_u64(timestamp);
    let entry = Entry::value(key.as_bytes(), timestamp, b"", Expiry::NEVER, 3);
    engine.write(entry).unwrap();
}

/// Begins a pass in which everything is compared, up to a cut.
pub(super) fn begin(participant: &mut Participant, pass: SessionId, kind: RepairKind, cut: u64) {
    let begun = participant.begin((pass, kind), false, present(STORE));
    assert!(matches!(begun, RepairAnswer::Begun { .. }), "{begun:?}");
    let bounds = vec![KeyBounds::everything(); 3];
    let agreed = participant.agree(pass, agreed(cut, bounds));
    assert_eq!(agreed, RepairAnswer::Done);
}

/// What the node sends to one that lacks the keys with these hashes.
pub(super) fn sent_of(
    own: &mut Participant,
    range: RangeId,
    lacking: NodeId,
    key_hashes: Vec<u64>,
) -> Vec<Entry> {
    let keys = own.keys_of(range, key_hashes).unwrap();
    let newest = own.newest(range, lacking, &keys, usize::MAX);
    newest.unwrap().unwrap().entries
}

/// Finds the end of the range that begins at `start`.
pub(super) fn reach(participant: &mut Participant, pass: SessionId, start: &[u8]) -> Option<Bytes> {
    for _ in 0..100_000 {
        match participant.advance(pass, start).unwrap() {
            Advance::GoOn => {}
            Advance::Reached(end) => return end,
            Advance::Unknown => panic!("the pass is not known"),
        }
    }
    panic!("the range that begins at {start:?} has no end");
}

/// The number of items of each range that the node shares with its peer.
pub(super) fn items_of_ranges(participant: &mut Participant, pass: SessionId) -> Vec<u64> {
    let (mut start, mut all) = (Vec::new(), Vec::new());
    loop {
        let end = reach(participant, pass, &start);
        let number = all.len() as u32;
        match participant.digest(pass, number, end.as_deref()) {
            RepairAnswer::Digests { digests, .. } => all.push(digests[PEER.index()].items),
            answer => panic!("no digests: {answer:?}"),
        }
        match end {
            Some(end) => start = end.to_vec(),
            None => return all,
        }
    }
}

#[test]
fn a_full_pass_takes_versions_above_the_cut_and_a_recent_one_leaves_them_out() {
    let engine = engine();
    write(&engine, "below", 10);
    write(&engine, "above", 30);
    let mut participant = participant(&engine);
    // The first version of this key may have been acknowledged by a store that is
    // lost. It must not hide from a refill behind a later one.
    write(&engine, "both", 10);
    write(&engine, "both", 30);
    begin(&mut participant, PASS, RepairKind::Incremental, 20);
    assert_eq!(items_of_ranges(&mut participant, PASS), [1]);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    assert_eq!(items_of_ranges(&mut participant, PASS), [3]);
}

#[test]
fn a_range_of_the_shortest_keys_has_no_more_than_symbols_can_tell_apart() {
    const KEYS: u64 = 100_000;
    let engine = engine();
    for number in 0..KEYS {
        write(&engine, &format!("{number:05x}"), 10);
    }
    let mut participant = participant(&engine);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    let ranges = items_of_ranges(&mut participant, PASS);
    assert_eq!(ranges.iter().sum::<u64>(), KEYS);
    let most = *ranges.iter().max().unwrap();
    // Two nodes may share none of them.
    let symbols = f64::from(super::exchange::SYMBOLS_TOTAL_MAX);
    assert!(2.0 * 1.4 * (most as f64) < symbols, "{most} keys");
}

#[test]
fn a_node_that_was_restarted_in_a_pass_does_not_say_that_what_it_got_is_durable() {
    let engine = engine();
    let mut before = participant(&engine);
    begin(&mut before, PASS, RepairKind::Full, 20);
    assert!(before.sync(PASS).unwrap());
    let mut restarted = participant(&engine);
    assert!(!restarted.sync(PASS).unwrap());
    assert_eq!(restarted.end(PASS, STORE, &[PEER]), None);
}

#[test]
fn passes_whose_drivers_are_gone_keep_no_other_from_beginning() {
    let engine = engine();
    write(&engine, "k", 10);
    let mut participant = participant(&engine);
    for pass in 0..20 {
        begin(&mut participant, SessionId(pass), RepairKind::Full, 20);
    }
    assert_eq!(items_of_ranges(&mut participant, SessionId(19)), [1]);
}

#[test]
fn a_recent_pass_after_nothing_happened_reads_no_data_block() {
    let engine = engine();
    for number in 0..1000 {
        write(&engine, &format!("{number:04}"), 10 + number);
    }
    engine.flush().unwrap();
    let mut participant = participant(&engine);
    let cut = Timestamp::from_u64(5000);
    begin(&mut participant, PASS, RepairKind::Full, cut.as_u64());
    assert_eq!(items_of_ranges(&mut participant, PASS), [1000]);
    let all = [PEER, NodeId::new(2)];
    assert_eq!(participant.end(PASS, STORE, &all), Some(full(true)));
    let recent = |participant: &mut Participant, pass| {
        let begun = participant.begin((pass, RepairKind::Incremental), false, present(STORE));
        let RepairAnswer::Begun { mut bounds, .. } = begun else {
            panic!("{begun:?}");
        };
        // As the driver says: a node compares nothing with itself.
        bounds[0] = KeyBounds::constant(Timestamp::MAX);
        participant.agree(pass, agreed(6000, bounds));
        let before = engine.statistics().data_blocks_fetched;
        let items = items_of_ranges(participant, pass);
        (items, engine.statistics().data_blocks_fetched - before)
    };
    assert_eq!(recent(&mut participant, SessionId(8)), (vec![0], 0));
    // An old version that arrives late is compared, and so is what may hide it.
    write(&engine, "0500x", 5);
    assert!(recent(&mut participant, SessionId(9)).0[0] > 0);
}

#[test]
fn a_pass_that_a_store_began_before_a_loss_shows_nothing_about_it() {
    let engine = engine();
    let mut participant = participant(&engine);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    items_of_ranges(&mut participant, PASS);
    assert_eq!(participant.end(PASS, AFTER_A_LOSS, &[PEER]), None);
}

#[test]
fn a_node_that_joins_again_does_not_pass_over_what_came_while_it_was_down() {
    let engine = engine();
    write(&engine, "k", 10);
    let mut before = participant(&engine);
    begin(&mut before, PASS, RepairKind::Full, 20);
    items_of_ranges(&mut before, PASS);
    let mut restarted = participant(&engine);
    let everything = vec![KeyBounds::everything(); 3];
    for (participant, knows) in [(&mut before, true), (&mut restarted, false)] {
        let kind = (PASS, RepairKind::Full);
        participant.begin(kind, true, present(STORE));
        participant.agree(PASS, agreed(20, everything.clone()));
        // It scans the rest again, whatever it had scanned before.
        assert_eq!(items_of_ranges(participant, PASS), [1]);
        assert_eq!(participant.end(PASS, STORE, &[PEER]), Some(full(knows)));
        let next = (SessionId(8), RepairKind::Incremental);
        let begun = participant.begin(next, false, present(STORE));
        let RepairAnswer::Begun { bounds, .. } = begun else {
            panic!("{begun:?}");
        };
        assert_eq!(bounds[PEER.index()] != KeyBounds::everything(), knows);
    }
}

#[test]
fn damage_is_mended_after_a_whole_full_pass_that_found_all_nodes_clean() {
    const LATER: SessionId = SessionId(8);
    let both = [PEER, NodeId::new(2)];
    let full = |participant: &mut Participant, pass| begin(participant, pass, RepairKind::Full, 20);
    for (label, clean_with, kind, is_mended) in [
        ("with one of two", &both[..1], RepairKind::Full, false),
        ("incremental", &both, RepairKind::Incremental, false),
        ("begun before", &both, RepairKind::Full, false),
        ("begun behind", &both, RepairKind::Full, false),
        ("whole", &both, RepairKind::Full, true),
    ] {
        let disk = Arc::new(MemoryDisk::new());
        let (environment, executor) = environment(Arc::clone(&disk) as _);
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        for number in 0..1000 {
            write(&engine, &format!("{number:04}"), 10);
        }
        engine.flush().unwrap();
        let mut participant = participant(&engine);
        if label == "begun before" {
            full(&mut participant, LATER);
        }
        let names = disk.list(Path::new("/store")).unwrap();
        let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
        disk.corrupt(&Path::new("/store").join(table), 10, 1)
            .unwrap();
        // The pass that finds the damage goes on behind it, and mends nothing.
        full(&mut participant, PASS);
        let kept: u64 = items_of_ranges(&mut participant, PASS).iter().sum();
        assert!((1..1000).contains(&kept), "{kept}");
        executor.run_for(Duration::from_secs(1));
        participant.end(PASS, STORE, &both);
        executor.run_for(Duration::from_secs(1));
        assert_eq!(engine.statistics().damaged_ranges, 1);
        assert!(engine.has_uncompared_damage());

        match label {
            "begun before" => {}
            "begun behind" => {
                participant.begin((LATER, kind), true, present(STORE));
                let bounds = vec![KeyBounds::everything(); 3];
                participant.agree(LATER, agreed(20, bounds));
            }
            _ => begin(&mut participant, LATER, kind, 20),
        }
        items_of_ranges(&mut participant, LATER);
        let ended = participant.end(LATER, STORE, clean_with);
        assert_eq!(ended.map(|ended| ended.kind), Some(kind), "{label}");
        executor.run_for(Duration::from_secs(1));
        let ranges = engine.statistics().damaged_ranges;
        assert_eq!(ranges, u64::from(!is_mended), "{label}");
    }
}

#[test]
fn a_version_in_a_sound_block_is_sent_although_a_damaged_one_may_hold_the_key() {
    let disk = Arc::new(MemoryDisk::new());
    let (environment, executor) = environment(Arc::clone(&disk) as _);
    let (engine, _) = Engine::open(environment, Options::default()).unwrap();
    for timestamp in [10, 20] {
        write(&engine, "k", timestamp);
        engine.flush().unwrap();
    }
    let names = disk.list(Path::new("/store")).unwrap();
    let tables = names.iter().filter(|name| name.ends_with(".sst"));
    let newest = Path::new("/store").join(tables.max().unwrap());
    disk.corrupt(&newest, 3, 1).unwrap();
    let mut participant = participant(&engine);
    begin(&mut participant, PASS, RepairKind::Full, 30);
    assert_eq!(items_of_ranges(&mut participant, PASS), [1]);
    executor.run_for(Duration::from_secs(1));
    assert!(engine.is_damaged(b"k"));
    let key_hashes = vec![Item::key_hash_of(b"k")];
    let entries = sent_of(&mut participant, (PASS, 0), PEER, key_hashes);
    let timestamps = entries.iter().map(|entry| entry.timestamp().as_u64());
    assert_eq!(timestamps.collect::<Vec<_>>(), [10]);
}

#[test]
fn what_is_sent_is_read_in_parts_however_long_the_values_are() {
    let engine = engine();
    let keys: Vec<Bytes> = ["a", "b", "c", "none", "z"].map(Bytes::from).to_vec();
    for key in &keys[..3] {
        let (timestamp, value) = (Timestamp::from_u64(10), [7; 1000]);
        let entry = Entry::value(key, timestamp, &value, Expiry::NEVER, 3);
        engine.write(entry).unwrap();
    }
    let mut own = participant(&engine);
    begin(&mut own, PASS, RepairKind::Full, 20);
    assert_eq!(items_of_ranges(&mut own, PASS), [3]);
    for (from, bytes_max, entries, read) in [
        (0, 1, 1, 1),
        (0, 1001, 1, 1),
        (0, 1002, 2, 2),
        (1, 10_000, 2, 4),
        (3, 1, 0, 2),
        (5, 1, 0, 0),
    ] {
        let newest = own.newest((PASS, 0), PEER, &keys[from..], bytes_max);
        let Selected {
            entries: sent,
            read: count,
            ..
        } = newest.unwrap().unwrap();
        assert_eq!((sent.len(), count), (entries, read), "{from} {bytes_max}");
    }
}

#[test]
fn what_mends_have_brought_counts_for_the_next_node_if_the_store_has_it() {
    let engine = engine();
    write(&engine, "b", 10);
    let mended = Arc::new(WrittenKeys::default());
    let mut participant = participant_with(&engine, NodeId::new(0), &mended);
    begin(&mut participant, PASS, RepairKind::Full, 20);
    assert_eq!(items_of_ranges(&mut participant, PASS), [1]);
    let range = (PASS, 0);
    let before = participant.recount(range, PEER).unwrap();
    assert_eq!(before.items, 1);
    // One mend is stored, one has become newer, one was refused, one is of another pass.
    for (key, timestamp) in [
        ("a", Some(12)),
        ("b", Some(13)),
        ("c", None),
        ("d", Some(14)),
    ] {
        if let Some(timestamp) = timestamp {
            write(&engine, key, timestamp);
        }
        let pass = if key == "d" { SessionId(8) } else { PASS };
        mended.note(pass, key.as_bytes());
    }
    let after = participant.recount(range, PEER).unwrap();
    let scanned = |number: u64| {
        let mut anew = participant_of(&engine, NodeId::new(0));
        let pass = SessionId(number);
        begin(&mut anew, pass, RepairKind::Full, 20);
        assert_eq!(items_of_ranges(&mut anew, pass), [3]);
        anew.recount((pass, 0), PEER).unwrap()
    };
    let d = Timestamp::from_u64(14);
    let d = Entry::value(b"d", d, b"", Expiry::NEVER, 3);
    let mut whole = scanned(9);
    whole.remove(Item::of(d.lend(), Timestamp::from_u64(20)));
    assert_eq!(after, whole);
}

#[test]
fn a_pass_that_nobody_asks_about_is_forgotten_although_no_other_begins() {
    let clock = Arc::new(ManualClock::new(0));
    let placement = Arc::new(Placement::new(["a", "b", "c"]));
    let mut participant = Participant::new(PartEnvironment {
        engine: engine(),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        placement,
        own: NodeId::new(0),
        mended: Arc::default(),
        bounds: Arc::default(),
        is_receiver: Box::new(|| false),
        expiry: expiry(),
        sizes: RepairSizes::default(),
        ingest_bytes_max: 8 << 20,
    });
    begin(&mut participant, PASS, RepairKind::Full, 20);
    clock.advance(super::SESSION_IDLE_MAX / 2);
    participant.forget_idle();
    assert!(participant.sync(PASS).unwrap());
    clock.advance(super::SESSION_IDLE_MAX);
    participant.forget_idle();
    assert!(!participant.sync(PASS).unwrap());
}

#[test]
fn an_offer_of_a_key_that_may_be_damaged_is_wanted_unless_the_scan_has_shown_the_version() {
    let disk = Arc::new(MemoryDisk::new());
    let (environment, executor) = environment(Arc::clone(&disk) as _);
    let (engine, _) = Engine::open(environment, Options::default()).unwrap();
    write(&engine, "k", 10);
    engine.flush().unwrap();
    let held = engine.get(b"k").unwrap().unwrap();
    let item = Item::of(held.lend(), Timestamp::from_u64(20));
    let offers = [1, 3].map(|copies| peer::Offer {
        key: Bytes::from_static(b"k"),
        timestamp: item.timestamp,
        content_hash: item.content_hash,
        copies,
    });
    let wanted = || {
        [0, 1, 2].map(|own| {
            let mut participant = participant_of(&engine, NodeId::new(own));
            begin(&mut participant, PASS, RepairKind::Full, 20);
            items_of_ranges(&mut participant, PASS);
            executor.run_for(Duration::from_secs(1));
            participant
                .offered((PASS, 0), &offers)
                .unwrap()
                .unwrap()
                .wanted
        })
    };
    assert_eq!(wanted(), [const { Vec::<u16>::new() }; 3]);
    let names = disk.list(Path::new("/store")).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    disk.corrupt(&Path::new("/store").join(table), 3, 1)
        .unwrap();
    assert_eq!(wanted(), [vec![0, 1], vec![0, 1], vec![0, 1]]);
    assert!(engine.is_damaged(b"k"));
}
