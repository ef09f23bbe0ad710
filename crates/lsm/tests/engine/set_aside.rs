//! What is set aside is not part of the store any more, and is kept until it is discarded.

use crate::common::{World, delete, long, put, read, scan_all, table_files, write_late};
use base::{Entry, Timestamp};
use lsm::{Disk, Engine, Error, SetAsideKeys, SetAsideStatus};
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, Unsynced};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

/// All copies that are set aside, page by page: keys and timestamps.
fn copies(engine: &Engine, page_bytes: usize) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    let mut start = Some(Vec::new());
    while let Some(key) = start {
        let page = engine.copies_set_aside(&key, page_bytes).unwrap();
        all.extend(page.copies.iter().map(|entry| {
            let key = String::from_utf8(entry.key().to_vec()).unwrap();
            (key, entry.timestamp().as_u64())
        }));
        start = page.next.map(|next| next.to_vec());
    }
    all
}

fn held(engine: &Engine) -> Vec<(String, u64)> {
    let all = scan_all(engine, "", None);
    let of_entry = |entry: &Entry| {
        let key = String::from_utf8(entry.key().to_vec()).unwrap();
        assert_eq!(engine.get(entry.key()).unwrap().as_ref(), Some(entry));
        (key, entry.timestamp().as_u64())
    };
    all.iter().map(of_entry).collect()
}

fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let own = |(key, timestamp): &(&str, u64)| ((*key).to_owned(), *timestamp);
    expected.iter().map(own).collect()
}

/// A store with versions in several tables and in memory, some below 50.
fn filled(world: &World) -> Engine {
    let engine = world.open();
    for entry in [put("a", 10, "old"), put("b", 20, "old"), put("d", 60, "v")] {
        engine.write(entry).unwrap();
    }
    engine.compact().unwrap();
    for entry in [put("b", 55, "new"), put("c", 30, "old")] {
        engine.write(entry).unwrap();
    }
    engine.flush().unwrap();
    for entry in [put("e", 40, "old"), delete("f", 41), put("g", 70, "v")] {
        engine.write(entry).unwrap();
    }
    engine
}

const KEPT: [(&str, u64); 3] = [("a", 10), ("c", 30), ("e", 40)];
const LEFT: [(&str, u64); 3] = [("b", 55), ("d", 60), ("g", 70)];

#[test]
fn what_is_set_aside_is_gone_for_readers_and_kept_for_the_operator() {
    let world = World::new();
    let mut engine = filled(&world);
    assert_eq!(engine.statistics().set_aside, SetAsideStatus::default());
    engine.set_aside(at(50), SetAsideKeys::All).unwrap();
    // The second time nothing changes; neither do compactions and a restart.
    for round in 0..4 {
        assert_eq!(held(&engine), pairs(&LEFT), "{round}");
        assert_eq!(copies(&engine, 1), pairs(&KEPT), "{round}");
        let status = engine.statistics().set_aside;
        assert_eq!((status.tables, status.below), (3, at(50)), "{round}");
        assert_eq!(status.versions_max, 8, "{round}");
        match round {
            0 => engine.set_aside(at(50), SetAsideKeys::All).unwrap(),
            1 => engine.compact().unwrap(),
            _ => {
                engine.close().unwrap();
                engine = world.open();
            }
        }
    }
    // What comes again is part of the store, and set aside no more.
    write_late(&engine, put("a", 10, "old"), 50).unwrap();
    assert_eq!(read(&engine, "a"), Some("old".into()));
    assert_eq!(copies(&engine, 1 << 20), pairs(&KEPT[1..]));
    engine.write(put("c", 80, "newer")).unwrap();
    assert_eq!(copies(&engine, 1 << 20), pairs(&KEPT[2..]));

    engine.flush().unwrap();
    let files = table_files(&world);
    engine.discard_set_aside(at(49)).unwrap();
    assert_eq!(
        engine.statistics().set_aside.tables,
        3,
        "it reaches up to 50"
    );
    engine.discard_set_aside(at(50)).unwrap();
    for _ in 0..2 {
        assert_eq!(engine.statistics().set_aside, SetAsideStatus::default());
        assert_eq!(copies(&engine, 1 << 20), []);
        assert_eq!(table_files(&world), files - 3);
        engine.close().unwrap();
        engine = world.open();
    }
}

#[test]
fn nothing_slips_in_behind_it() {
    let mut world = World::new();
    let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
    world.disk = Arc::clone(&faulty) as _;
    let engine = filled(&world);
    let is_manifest = |_, path: &Path| path.ends_with("MANIFEST") || path.ends_with("MANIFEST.tmp");
    faulty.arm(Fault::at(0, ErrorKind::Other).only(is_manifest).lasting());
    engine.set_aside(at(50), SetAsideKeys::All).unwrap_err();
    faulty.heal();
    for _ in 0..2 {
        let ordinary = engine.write(put("x", 49, "v"));
        assert!(
            matches!(ordinary, Err(Error::Obsolete { .. })),
            "{ordinary:?}"
        );
        let late = write_late(&engine, put("x", 49, "v"), 49);
        assert!(matches!(late, Err(Error::Obsolete { .. })), "{late:?}");
        engine.set_aside(at(50), SetAsideKeys::All).unwrap();
    }
    assert_eq!(held(&engine), pairs(&LEFT));
}

/// The compaction has read what is set aside while it is under way.
#[test]
fn a_compaction_under_way_does_not_bring_it_back() {
    let world = World::new();
    let engine = world.open();
    for number in 0..200 {
        let entry = put(&format!("k{number:03}"), 1 + number, &long(number, 900));
        engine.write(entry).unwrap();
        if number % 20 == 0 {
            engine.flush().unwrap();
        }
    }
    engine.order_compaction().unwrap();
    while engine.statistics().compactions == 0 {
        world.executor.run_one(|_| 0);
    }
    for _ in 0..3 {
        world.executor.run_one(|_| 0);
    }
    engine.set_aside(at(150), SetAsideKeys::All).unwrap();
    let left = held(&engine);
    assert_eq!(left.len(), 51);
    assert!(left.iter().all(|(_, timestamp)| *timestamp >= 150));
    world.executor.run_until_idle();
    engine.compact().unwrap();
    assert_eq!(held(&engine), left);
    assert_eq!(copies(&engine, 2_000).len(), 149);
}

#[test]
fn a_later_threshold_sets_aside_what_has_come_since_and_not_what_was_discarded() {
    let world = World::new();
    let engine = filled(&world);
    engine.set_aside(at(50), SetAsideKeys::All).unwrap();
    engine.discard_set_aside(at(50)).unwrap();
    write_late(&engine, put("h", 5, "came again"), 50).unwrap();
    engine.set_aside(at(65), SetAsideKeys::All).unwrap();
    assert_eq!(held(&engine), pairs(&[("g", 70)]));
    let kept = [("b", 55), ("d", 60), ("h", 5)];
    assert_eq!(copies(&engine, 1 << 20), pairs(&kept));
    engine.compact().unwrap();
    assert_eq!(held(&engine), pairs(&[("g", 70)]));
    assert_eq!(copies(&engine, 1 << 20), pairs(&kept));
}

/// Fails each disk call in turn; after each the power is cut in several ways.
#[test]
fn a_crash_finds_all_of_it_set_aside_or_nothing() {
    let all = [
        ("a", 10),
        ("b", 55),
        ("c", 30),
        ("d", 60),
        ("e", 40),
        ("f", 41),
        ("g", 70),
    ];
    let mut outcomes = BTreeMap::new();
    for (discards, blob_value_bytes_min) in [(false, None), (true, None), (true, Some(1))] {
        for call in 0.. {
            let mut world = World::new();
            world.options.blob_value_bytes_min = blob_value_bytes_min;
            let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
            world.disk = Arc::clone(&faulty) as _;
            let engine = filled(&world);
            if discards {
                engine.set_aside(at(50), SetAsideKeys::All).unwrap();
            }
            faulty.arm(Fault::at(call, ErrorKind::StorageFull).lasting());
            let done = if discards {
                engine.discard_set_aside(at(50))
            } else {
                engine.set_aside(at(50), SetAsideKeys::All)
            };
            let has_failed = faulty.failed() > 0;
            faulty.heal();
            for seed in 0..8 {
                let mut random = fastrand::Rng::with_seed(seed);
                let survives = &mut |_: Unsynced<'_>| random.bool();
                let crashed = World::on(Arc::new(world.memory.crash_clone(survives)));
                let engine = crashed.open();
                let context = format!("{discards} {call} {seed} {done:?}");
                let is_done = if discards {
                    assert_eq!(held(&engine), pairs(&LEFT), "{context}");
                    engine.statistics().set_aside == SetAsideStatus::default()
                } else {
                    held(&engine) == pairs(&LEFT)
                };
                if !discards {
                    let expected = if is_done { &LEFT[..] } else { &all };
                    assert_eq!(held(&engine), pairs(expected), "{context}");
                }
                let is_kept = is_done != discards;
                let expected = if is_kept { &KEPT[..] } else { &[] };
                assert_eq!(copies(&engine, 1 << 20), pairs(expected), "{context}");
                assert!(is_done || done.is_err(), "{context}");
                *outcomes.entry((discards, is_done)).or_insert(0) += 1;
                // It is done again, whatever came of it.
                engine.set_aside(at(50), SetAsideKeys::All).unwrap();
                engine.compact().unwrap();
                assert_eq!(held(&engine), pairs(&LEFT), "{context}");
                let is_gone = discards && is_done;
                let expected = if is_gone { &[] } else { &KEPT[..] };
                assert_eq!(copies(&engine, 1 << 20), pairs(expected), "{context}");
            }
            if !has_failed {
                break;
            }
        }
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

/// The file of a table stays when a compaction has replaced the table, whenever the power fails.
#[test]
fn a_crash_in_a_compaction_loses_nothing_that_is_kept() {
    crash_in_a_compaction(None);
    crash_in_a_compaction(Some(1));
}

fn crash_in_a_compaction(blob_value_bytes_min: Option<usize>) {
    for call in 0.. {
        let mut world = World::new();
        world.options.blob_value_bytes_min = blob_value_bytes_min;
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&world.memory) as _));
        world.disk = Arc::clone(&faulty) as _;
        let engine = filled(&world);
        engine.set_aside(at(50), SetAsideKeys::All).unwrap();
        faulty.arm(Fault::at(call, ErrorKind::Other).lasting());
        let _may_fail = engine.compact();
        let has_failed = faulty.failed() > 0;
        faulty.heal();
        for seed in 0..4 {
            let mut random = fastrand::Rng::with_seed(seed);
            let survives = &mut |_: Unsynced<'_>| random.bool();
            let crashed = World::on(Arc::new(world.memory.crash_clone(survives)));
            let engine = crashed.open();
            assert_eq!(held(&engine), pairs(&LEFT), "{call} {seed}");
            assert_eq!(copies(&engine, 1 << 20), pairs(&KEPT), "{call} {seed}");
        }
        if !has_failed {
            break;
        }
    }
}

/// A store of many blocks with a damaged one, and the key in its middle.
fn damaged(world: &mut World) -> Engine {
    world.options.compression = lsm::Compression::None;
    let engine = world.open();
    for number in 0..40 {
        let key = format!("k{number:02}");
        engine
            .write(put(&key, 10 + number, &"v".repeat(200)))
            .unwrap();
    }
    engine.compact().unwrap();
    // The damaged block may have held tombstones of what is here.
    for number in 0..40 {
        engine
            .write(put(&format!("k{number:02}"), 5, "zombie"))
            .unwrap();
    }
    engine.close().unwrap();
    let folder = World::folder();
    let names = world.memory.list(&folder).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    world.memory.corrupt(&folder.join(table), 10, 1).unwrap();
    let engine = world.open();
    assert!(!engine.has_damage_to_set_aside());
    assert!(engine.get(b"k00").is_err());
    world.executor.run_until_idle();
    engine
}

#[test]
fn of_damaged_ranges_the_keys_alone_are_set_aside_and_only_once() {
    let mut world = World::new();
    let mut engine = damaged(&mut world);
    let (_, last) = engine.damage_from(b"").unwrap();
    let last = String::from_utf8(last.unwrap().to_vec()).unwrap();
    let first_sound = format!("{last}\0");
    let sound = scan_all(&engine, &first_sound, None);
    assert!(engine.has_damage_to_set_aside());
    engine.set_aside(at(30), SetAsideKeys::Damaged).unwrap();
    for round in 0..3 {
        assert!(!engine.has_damage_to_set_aside(), "{round}");
        assert_eq!(scan_all(&engine, &first_sound, None), sound, "{round}");
        assert_eq!(engine.get_skipping_damage(b"k00").unwrap(), None, "{round}");
        let kept = copies(&engine, 1 << 20);
        assert!(kept.iter().all(|(key, _)| *key <= last), "{kept:?}");
        assert!(kept.contains(&("k00".to_owned(), 5)), "{kept:?}");
        match round {
            0 => engine.set_aside(at(30), SetAsideKeys::Damaged).unwrap(),
            _ => {
                engine.close().unwrap();
                engine = world.open();
            }
        }
    }
    // A comparison brings back what the others have, with any timestamp.
    write_late(&engine, put("k00", 5, "zombie"), 30).unwrap();
    engine.set_aside(at(30), SetAsideKeys::Damaged).unwrap();
    let found = engine.get_skipping_damage(b"k00").unwrap();
    assert_eq!(found.map(|entry| entry.timestamp()), Some(at(5)));
    // Ordinary writes are taken as before.
    engine.write(put("k99", 20, "v")).unwrap();

    // The rewritten table shows nothing of it either.
    engine.damage_compared(engine.damage_mark());
    world.bound.store(30, Relaxed);
    world.executor.run_until_idle();
    engine.compact().unwrap();
    assert_eq!(engine.damage_from(b""), None);
    assert_eq!(read(&engine, "k00"), Some("zombie".into()));
    assert_eq!(read(&engine, "k01"), None);
    assert_eq!(scan_all(&engine, &first_sound, Some("k99")), sound);
}
