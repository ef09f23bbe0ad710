//! A node's part in sessions, on a store in memory.

mod behind_closed;
mod change;
mod kept;
mod overlap;
mod runs;

use super::{
    Advance, Agreed, Known, PartEnvironment, Participant, RangeId, Selected, StreamedKeys,
    UnknownRange, WrittenKeys,
};
use crate::RepairSizes;
use crate::session::exchange::SYMBOLS_TOTAL_MAX;
use base::{Clock, Entry, Expiry, ManualClock, Timestamp};
use bytes::Bytes;
use cluster::comparison::{Incarnation, Item, KeyBounds};
use cluster::repair::{SESSION_IDLE_MAX, SessionId, Token};
use cluster::{Epoch, Layout, NodeId};
use lsm::{Admission, Disk, Engine, Options};
use lsm_testing::{BlockingWrite, MemoryDisk, StepExecutor, environment};
use membership::Layouts;
use replica::{ExpiryBound, OwnClock};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SESSION: SessionId = full(7);
const PEER: NodeId = NodeId::new(1);
const STORE: Incarnation = Incarnation {
    store_id: 4,
    last_loss: 0,
};
const AFTER_A_LOSS: Incarnation = Incarnation {
    last_loss: 1,
    ..STORE
};

const fn full(session: u64) -> SessionId {
    let attempt = 0;
    SessionId::Full(Token { session, attempt })
}

/// Another attempt of a full session.
const fn next_attempt(session: u64) -> SessionId {
    let attempt = 1;
    SessionId::Full(Token { session, attempt })
}

const fn incremental(session: u64) -> SessionId {
    SessionId::Incremental(session)
}

fn engine() -> Engine {
    engine_on(&Arc::new(MemoryDisk::new()))
}

fn engine_on(disk: &Arc<MemoryDisk>) -> Engine {
    let (environment, _executor) = environment(Arc::clone(disk) as Arc<dyn Disk>);
    Engine::open(environment, Options::default()).unwrap().0
}

fn participant(engine: &Engine) -> Participant {
    participant_of(engine, NodeId::new(0))
}

/// The part of one of the nodes "a", "b" and "c".
fn participant_of(engine: &Engine, own: NodeId) -> Participant {
    participant_with(engine, own, &Arc::default())
}

fn participant_with(engine: &Engine, own: NodeId, written: &Arc<WrittenKeys>) -> Participant {
    Participant::new(PartEnvironment {
        written: Arc::clone(written),
        ..part_environment(engine, own)
    })
}

fn part_environment(engine: &Engine, own: NodeId) -> PartEnvironment {
    PartEnvironment {
        engine: engine.clone(),
        clock: Arc::new(ManualClock::new(0)),
        layouts: Layouts::new(Layout::named(&["a", "b", "c"], own).unwrap()),
        written: Arc::default(),
        uncertain_below: Box::new(|| Timestamp::ZERO),
        expiry: expiry(),
        sizes: RepairSizes::default(),
        ingest_bytes_max: 8 << 20,
    }
}

/// What the nodes of a session with this cut agree on.
fn agreed(cut: u64, bounds: Vec<KeyBounds>) -> Agreed {
    Agreed {
        cut: Timestamp::from_u64(cut),
        gc_threshold: Timestamp::ZERO,
        reaches: vec![3; 3],
        bounds,
    }
}

/// What has expired by a clock that shows 1970, and that peers have proven.
fn expiry() -> Arc<ExpiryBound> {
    let own_clock = OwnClock::ByPeers(Box::new(|| Some(0)));
    Arc::new(ExpiryBound::new(own_clock, Duration::ZERO))
}

fn write(engine: &Engine, key: &str, timestamp: u64) {
    let timestamp = Timestamp::from_u64(timestamp);
    let entry = Entry::value(key.as_bytes(), timestamp, b"", Expiry::NEVER, 3);
    engine.write(entry).unwrap();
}

/// Begins a session.
fn begun(participant: &mut Participant, session: SessionId) -> Known {
    let begun = participant.begin(session, Epoch::default(), STORE);
    begun.unwrap()
}

/// Begins a session in which everything is compared, up to a cut.
fn begin(participant: &mut Participant, session: SessionId, cut: u64) {
    begun(participant, session);
    let bounds = vec![KeyBounds::everything(); 3];
    participant.agree(session, agreed(cut, bounds)).unwrap();
}

/// What the node sends to one that lacks the keys with these hashes.
fn sent_of(own: &mut Participant, range: RangeId, key_hashes: Vec<u64>) -> Vec<Entry> {
    let keys = own.keys_of(range, key_hashes).unwrap();
    let newest = own.newest(range, &keys, usize::MAX);
    newest.unwrap().unwrap().entries
}

/// Makes durable what was streamed in a session.
fn commit(participant: &mut Participant, session: SessionId) -> Result<(), UnknownRange> {
    let rest = participant.take_streamed(session)?;
    rest.commit().unwrap();
    Ok(())
}

/// Finds the end of the range that begins at `start`.
fn reach(participant: &mut Participant, session: SessionId, start: &[u8]) -> Option<Bytes> {
    for _ in 0..100_000 {
        match participant.advance(session, start, || Ok(())).unwrap() {
            Advance::GoOn => {}
            Advance::Reached(end) => return end,
            Advance::Unknown => panic!("the session is not known"),
        }
    }
    panic!("the range that begins at {start:?} has no end");
}

/// The number of items of each range that the node shares with its peer.
fn items_of_ranges(participant: &mut Participant, session: SessionId) -> Vec<u64> {
    let (mut start, mut all) = (Vec::new(), Vec::new());
    loop {
        let end = reach(participant, session, &start);
        let number = all.len() as u32;
        let digested = participant.digest(session, number, end.as_deref()).unwrap();
        all.push(digested.summary.digests[PEER.index()].items);
        match end {
            Some(end) => start = end.to_vec(),
            None => return all,
        }
    }
}

#[test]
fn a_full_session_takes_versions_above_the_cut_and_an_incremental_one_leaves_them_out() {
    let engine = engine();
    write(&engine, "below", 10);
    write(&engine, "above", 30);
    let mut participant = participant(&engine);
    // The first version of this key may have been acknowledged by a store that is
    // lost. It must not hide from a rebuild behind a later one.
    write(&engine, "both", 10);
    write(&engine, "both", 30);
    begin(&mut participant, incremental(7), 20);
    assert_eq!(items_of_ranges(&mut participant, incremental(7)), [1]);
    begin(&mut participant, SESSION, 20);
    assert_eq!(items_of_ranges(&mut participant, SESSION), [3]);
}

#[test]
fn a_range_of_the_shortest_keys_has_no_more_than_symbols_can_tell_apart() {
    const KEYS: u64 = 100_000;
    let engine = engine();
    for number in 0..KEYS {
        write(&engine, &format!("{number:05x}"), 10);
    }
    let mut participant = participant(&engine);
    begin(&mut participant, SESSION, 20);
    let ranges = items_of_ranges(&mut participant, SESSION);
    assert_eq!(ranges.iter().sum::<u64>(), KEYS);
    let most = *ranges.iter().max().unwrap();
    // Two nodes may share none of them.
    let symbols = f64::from(SYMBOLS_TOTAL_MAX);
    assert!(2.0 * 1.4 * (most as f64) < symbols, "{most} keys");
}

#[test]
fn a_node_that_was_restarted_in_a_session_does_not_say_that_what_it_got_is_durable() {
    let engine = engine();
    let mut before = participant(&engine);
    begin(&mut before, SESSION, 20);
    commit(&mut before, SESSION).unwrap();
    let mut restarted = participant(&engine);
    assert_eq!(commit(&mut restarted, SESSION), Err(UnknownRange));
    assert!(restarted.end(SESSION, STORE, (&[PEER], &[PEER])).is_none());
}

#[test]
fn the_last_session_of_each_kind_takes_the_place_of_the_one_before() {
    let engine = engine();
    write(&engine, "k", 10);
    let mut participant = participant(&engine);
    for number in 1..20 {
        begin(&mut participant, full(number), 20);
        begin(&mut participant, incremental(number), 20);
        let sessions: Vec<SessionId> = participant.sessions().collect();
        assert_eq!(sessions, [incremental(number), full(number)]);
    }
    assert_eq!(items_of_ranges(&mut participant, full(19)), [1]);
    assert_eq!(items_of_ranges(&mut participant, incremental(19)), [1]);
    assert!(participant.digest(full(18), 0, None).is_err());
}

#[test]
fn an_incremental_session_after_nothing_happened_reads_no_data_block() {
    let engine = engine();
    for number in 0..1000 {
        write(&engine, &format!("{number:04}"), 10 + number);
    }
    engine.flush().unwrap();
    let mut participant = participant(&engine);
    let cut = Timestamp::from_u64(5000);
    begin(&mut participant, SESSION, cut.as_u64());
    assert_eq!(items_of_ranges(&mut participant, SESSION), [1000]);
    let all = [PEER, NodeId::new(2)];
    assert!(participant.end(SESSION, STORE, (&all, &all)).is_some());
    let compare = |participant: &mut Participant, session| {
        let mut bounds = begun(participant, session).bounds;
        // As the coordinator says: a node compares nothing with itself.
        bounds[0] = KeyBounds::constant(Timestamp::MAX);
        participant.agree(session, agreed(6000, bounds)).unwrap();
        let before = engine.statistics().data_blocks_fetched;
        let items = items_of_ranges(participant, session);
        (items, engine.statistics().data_blocks_fetched - before)
    };
    let compared = compare(&mut participant, incremental(8));
    assert_eq!(compared, (vec![0], 0));
    // An old version that arrives late is compared, and so is what may hide it.
    write(&engine, "0500x", 5);
    assert!(compare(&mut participant, incremental(9)).0[0] > 0);
}

#[test]
fn a_session_that_a_store_began_before_a_loss_shows_nothing_about_it() {
    let engine = engine();
    let mut participant = participant(&engine);
    begin(&mut participant, SESSION, 20);
    items_of_ranges(&mut participant, SESSION);
    assert!(
        participant
            .end(SESSION, AFTER_A_LOSS, (&[PEER], &[PEER]))
            .is_none()
    );
}

#[test]
fn a_node_that_joins_again_does_not_pass_over_what_came_while_it_was_down() {
    let engine = engine();
    write(&engine, "k", 10);
    let mut before = participant(&engine);
    begin(&mut before, SESSION, 20);
    items_of_ranges(&mut before, SESSION);
    let mut restarted = participant(&engine);
    for (participant, knows) in [(&mut before, true), (&mut restarted, false)] {
        begin(participant, next_attempt(7), 20);
        // It scans the rest again, whatever it had scanned before.
        assert_eq!(items_of_ranges(participant, next_attempt(7)), [1]);
        assert!(
            participant
                .end(next_attempt(7), STORE, (&[PEER], &[]))
                .is_some()
        );
        let bounds = begun(participant, incremental(8)).bounds;
        assert_eq!(bounds[PEER.index()] != KeyBounds::everything(), knows);
    }
}

#[test]
fn damage_is_repaired_after_a_whole_full_session_that_has_brought_what_all_nodes_have() {
    let both = [PEER, NodeId::new(2)];
    // That the others lack something does not matter.
    for (label, has_all_of, session, is_repaired) in [
        ("with one of two", &both[..1], full(8), false),
        ("incremental", &both, incremental(8), false),
        ("begun before", &both, full(8), false),
        ("begun behind", &both, next_attempt(8), false),
        ("whole", &both, full(8), true),
    ] {
        let disk = Arc::new(MemoryDisk::new());
        let (environment, executor) = environment(Arc::clone(&disk) as _);
        let (engine, _) = Engine::open(environment, Options::default()).unwrap();
        for number in 0..1000 {
            write(&engine, &format!("{number:04}"), 10);
        }
        engine.flush().unwrap();
        let (mut participant, mut earlier) = (participant(&engine), participant(&engine));
        begin(&mut earlier, full(8), 20);
        let names = disk.list(Path::new("/store")).unwrap();
        let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
        disk.corrupt(&Path::new("/store").join(table), 10, 1)
            .unwrap();
        // The session that finds the damage goes on behind it, and repairs nothing.
        begin(&mut participant, SESSION, 20);
        let kept: u64 = items_of_ranges(&mut participant, SESSION).iter().sum();
        assert!((1..1000).contains(&kept), "{kept}");
        executor.run_for(Duration::from_secs(1));
        participant.end(SESSION, STORE, (&both, &both));
        executor.run_for(Duration::from_secs(1));
        assert_eq!(engine.statistics().damaged_ranges, 1);
        assert!(engine.has_uncompared_damage());

        let participant = if label == "begun before" {
            &mut earlier
        } else {
            begin(&mut participant, session, 20);
            &mut participant
        };
        items_of_ranges(participant, session);
        assert!(
            participant.end(session, STORE, (&[], has_all_of)).is_some(),
            "{label}"
        );
        executor.run_for(Duration::from_secs(1));
        let ranges = engine.statistics().damaged_ranges;
        assert_eq!(ranges, u64::from(!is_repaired), "{label}");
    }
}

/// A store with two versions of a key, each in a table of its own, of which the newer one is
/// damaged.
fn with_damaged_newest_table() -> (Engine, Arc<StepExecutor>) {
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
    (engine, executor)
}

#[test]
fn a_version_in_a_sound_block_is_sent_although_a_damaged_one_may_hold_the_key() {
    let (engine, executor) = with_damaged_newest_table();
    let mut participant = participant(&engine);
    begin(&mut participant, SESSION, 30);
    assert_eq!(items_of_ranges(&mut participant, SESSION), [1]);
    executor.run_for(Duration::from_secs(1));
    assert!(engine.is_damaged(b"k"));
    let key_hashes = vec![Item::key_hash_of(b"k")];
    let entries = sent_of(&mut participant, (SESSION, 0), key_hashes);
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
    begin(&mut own, SESSION, 20);
    assert_eq!(items_of_ranges(&mut own, SESSION), [3]);
    for (from, bytes_max, entries, read) in [
        (0, 1, 1, 1),
        (0, 1001, 1, 1),
        (0, 1002, 2, 2),
        (1, 10_000, 2, 4),
        (3, 1, 0, 2),
        (5, 1, 0, 0),
    ] {
        let newest = own.newest((SESSION, 0), &keys[from..], bytes_max);
        let Selected {
            entries: sent,
            read: count,
            ..
        } = newest.unwrap().unwrap();
        assert_eq!((sent.len(), count), (entries, read), "{from} {bytes_max}");
    }
}

#[test]
fn what_repair_writes_have_brought_counts_for_the_next_node_if_the_store_has_it() {
    let engine = engine();
    write(&engine, "b", 10);
    let written = Arc::new(WrittenKeys::default());
    let mut participant = participant_with(&engine, NodeId::new(0), &written);
    begin(&mut participant, SESSION, 20);
    assert_eq!(items_of_ranges(&mut participant, SESSION), [1]);
    let range = (SESSION, 0);
    let before = participant.recount(range, PEER).unwrap();
    assert_eq!(before.items, 1);
    // One is stored, one has become newer, one was refused, one is of another session.
    for (key, timestamp) in [
        ("a", Some(12)),
        ("b", Some(13)),
        ("c", None),
        ("d", Some(14)),
    ] {
        if let Some(timestamp) = timestamp {
            write(&engine, key, timestamp);
        }
        let session = if key == "d" { full(8) } else { SESSION };
        written.note(session, key.as_bytes());
    }
    let after = participant.recount(range, PEER).unwrap();
    let scanned = |number: u64| {
        let mut anew = participant_of(&engine, NodeId::new(0));
        begin(&mut anew, full(number), 20);
        assert_eq!(items_of_ranges(&mut anew, full(number)), [3]);
        anew.recount((full(number), 0), PEER).unwrap()
    };
    let d = Timestamp::from_u64(14);
    let d = Entry::value(b"d", d, b"", Expiry::NEVER, 3);
    let mut whole = scanned(9);
    whole.remove(Item::of(d.lend(), Timestamp::from_u64(20)));
    assert_eq!(after, whole);
}

#[test]
fn a_session_that_nobody_asks_about_is_left_although_no_other_begins() {
    let clock = Arc::new(ManualClock::new(0));
    let engine = engine();
    let mut participant = Participant::new(PartEnvironment {
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..part_environment(&engine, NodeId::new(0))
    });
    begin(&mut participant, SESSION, 20);
    clock.advance(SESSION_IDLE_MAX / 2);
    participant.forget_idle();
    assert!(commit(&mut participant, SESSION).is_ok());
    clock.advance(SESSION_IDLE_MAX);
    participant.forget_idle();
    assert!(commit(&mut participant, SESSION).is_err());
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
            begin(&mut participant, SESSION, 20);
            items_of_ranges(&mut participant, SESSION);
            executor.run_for(Duration::from_secs(1));
            participant
                .offered((SESSION, 0), &offers)
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

#[test]
fn a_key_behind_the_last_one_is_never_ahead_of_the_scan() {
    let engine = engine();
    for key in ["b", "m"] {
        write(&engine, key, 10);
    }
    let mut participant = participant(&engine);
    begun(&mut participant, SESSION);
    participant
        .close(SESSION, b"", Admission::Ordinary)
        .unwrap();
    // A read repair of "z" would be taken, and never be met.
    write(&engine, "z", 10);
    let bounds = vec![KeyBounds::everything(); 3];
    participant.agree(SESSION, agreed(20, bounds)).unwrap();
    let ahead = |from: &'static [u8]| {
        let until = Bytes::from_static(b"m\0");
        Some((Bytes::from_static(from), Some(until)))
    };
    assert_eq!(participant.keys_ahead(SESSION), ahead(b""));
    let mut was_asked = false;
    let asked = participant.advance(SESSION, b"", || {
        was_asked = true;
        Ok(())
    });
    assert!(asked.is_ok() && was_asked, "the scan says when it begins");
    assert_eq!(participant.keys_ahead(SESSION), None);
    assert_eq!(reach(&mut participant, SESSION, b""), None);
    let summary = participant.digest(SESSION, 0, None).unwrap().summary;
    assert_eq!(summary.digests[PEER.index()].items, 2);
    // A session that goes on has scanned what is before its checkpoint.
    begun(&mut participant, next_attempt(7));
    participant
        .close(next_attempt(7), b"k", Admission::Ordinary)
        .unwrap();
    let (from, until) = participant.keys_ahead(next_attempt(7)).unwrap();
    assert_eq!(
        (&from[..], until.as_deref()),
        (&b"k"[..], Some(&b"z\0"[..]))
    );
}

#[test]
fn a_version_whose_tombstone_a_damaged_block_may_have_held_is_not_sent_below_the_threshold() {
    let (engine, executor) = with_damaged_newest_table();
    for (below, is_sent) in [(10, true), (11, false)] {
        let mut participant = Participant::new(PartEnvironment {
            uncertain_below: Box::new(move || Timestamp::from_u64(below)),
            ..part_environment(&engine, NodeId::new(0))
        });
        begin(&mut participant, SESSION, 30);
        items_of_ranges(&mut participant, SESSION);
        executor.run_for(Duration::from_secs(1));
        let keys = [Bytes::from_static(b"k")];
        let newest = participant.newest((SESSION, 0), &keys, usize::MAX);
        let Selected {
            entries, is_all, ..
        } = newest.unwrap().unwrap();
        assert_eq!((entries.len() == 1, is_all), (is_sent, is_sent), "{below}");
        let run = participant.run((SESSION, 0), PEER, &StreamedKeys::default());
        let entries = run.unwrap().unwrap().run.entries().unwrap();
        assert_eq!(entries.len() == 1, is_sent, "{below}");
    }
}
