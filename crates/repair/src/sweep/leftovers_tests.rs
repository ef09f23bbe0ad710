//! What a node withholds in a pass, and what it buries, on a store in memory.

use super::leftovers::Verdicts;
use super::participant::{Advance, Participant};
use super::tests::{STORE, begin, engine_on, participant_of, sent_of};
use base::{Entry, Expiry, Kind, Timestamp};
use bytes::Bytes;
use cluster::forgetting::Vouching::{self, All, Nothing, Remembers};
use cluster::sweep::{Incarnation, Item, PassId, PassKind};
use cluster::{NodeId, Placement};
use lsm::{Disk, Engine, Options};
use lsm_testing::{BlockingWrite, MemoryDisk, StepExecutor, environment};
use peer::SweepAnswer;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PASS: PassId = PassId(7);
const OWN: NodeId = NodeId::new(0);
const PEERS: [NodeId; 2] = [NodeId::new(1), NodeId::new(2)];

fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_u64(timestamp)
}

fn value(key: &str, timestamp: u64, copies: u8) -> Entry {
    Entry::value(key.as_bytes(), at(timestamp), b"v", Expiry::NEVER, copies)
}

/// A node whose pass has compared its only range, where F is 100.
fn compared(entries: &[Entry], vouching: [Vouching; 3]) -> (Engine, Participant) {
    let engine = engine_on(&Arc::new(MemoryDisk::new()));
    for entry in entries {
        engine.write(entry.clone()).unwrap();
    }
    let own = compare(&engine, vouching);
    (engine, own)
}

fn compare(engine: &Engine, vouching: [Vouching; 3]) -> Participant {
    let mut own = participant_of(engine, OWN);
    begin(&mut own, PASS, PassKind::Full, 1 << 40);
    let named = own.disregard(PASS, at(100), vouching.to_vec());
    assert_eq!(named, SweepAnswer::Done);
    while matches!(own.advance(PASS, b"").unwrap(), Advance::GoOn) {}
    let digests = own.digest(PASS, 0, None);
    assert!(
        matches!(digests, SweepAnswer::Digests { .. }),
        "{digests:?}"
    );
    own
}

#[test]
fn a_pass_that_fills_no_store_ends_where_the_store_ended_after_the_fences() {
    for (vouching, is_behind_compared) in [
        ([All, All, All], false),
        ([All, Remembers, All], true),
        ([Nothing, All, All], true),
    ] {
        let engine = engine_on(&Arc::new(MemoryDisk::new()));
        engine.write(value("d", 200, 3)).unwrap();
        engine.flush().unwrap();
        engine.write(value("m", 200, 3)).unwrap();
        let mut own = participant_of(&engine, OWN);
        begin(&mut own, PASS, PassKind::Full, 1 << 40);
        assert!(!own.is_fenced());
        // Between the begin and the fence it may be anything.
        engine.write(value("p", 200, 3)).unwrap();
        assert_eq!(
            own.disregard(PASS, at(0), vouching.to_vec()),
            SweepAnswer::Done
        );
        assert!(own.is_fenced());
        for key in ["a", "q"] {
            engine.write(value(key, 300, 3)).unwrap();
        }
        while matches!(own.advance(PASS, b"").unwrap(), Advance::GoOn) {}
        assert!(matches!(
            own.advance(PASS, b"").unwrap(),
            Advance::Reached(None)
        ));
        let SweepAnswer::Digests { digests, .. } = own.digest(PASS, 0, None) else {
            panic!("no digests");
        };
        let items = 4 + u64::from(is_behind_compared);
        assert_eq!(digests[PEERS[0].index()].items, items, "{vouching:?}");
        // The next recent pass compares what came behind.
        let [one, other] = PEERS;
        assert!(own.end(PASS, STORE, &[one, other]).is_some());
        let least = own.bounds()[one.index()].of(b"q");
        assert!(least <= at(300), "{least}");
    }
}

#[test]
fn a_pass_over_a_store_without_keys_ends_at_once() {
    let engine = engine_on(&Arc::new(MemoryDisk::new()));
    let mut own = participant_of(&engine, OWN);
    begin(&mut own, PASS, PassKind::Full, 1 << 40);
    own.disregard(PASS, at(0), vec![All; 3]);
    engine.write(value("k", 300, 3)).unwrap();
    while matches!(own.advance(PASS, b"").unwrap(), Advance::GoOn) {}
    assert!(matches!(
        own.digest(PASS, 0, None),
        SweepAnswer::Digests { .. }
    ));
}

/// The keys of what the node sends to one that lacks these.
fn sent(own: &mut Participant, lacking: NodeId, keys: &[&str]) -> Vec<String> {
    let hashes = keys.iter().map(|key| Item::key_hash_of(key.as_bytes()));
    let entries = sent_of(own, (PASS, 0), lacking, hashes.collect());
    let key = |entry: &Entry| String::from_utf8(entry.key().to_vec()).unwrap();
    entries.iter().map(key).collect()
}

fn is_value(engine: &Engine, key: &str, timestamp: u64) -> bool {
    let held = engine.get(key.as_bytes()).unwrap().unwrap();
    assert_eq!(held.timestamp(), at(timestamp));
    held.kind() == Kind::Value
}

#[test]
fn a_receiver_buries_what_all_who_vouch_lack() {
    let entries = [
        value("deleted", 50, 3),
        value("kept", 60, 3),
        value("new", 100, 3),
    ];
    let (engine, mut own) = compared(&entries, [Nothing, All, All]);
    for peer in PEERS {
        // The bound itself is not below it.
        assert_eq!(sent(&mut own, peer, &["deleted", "new"]), ["new"]);
    }
    let verdicts = own.verdicts(PASS);
    assert!(!verdicts.are_at_odds);
    assert_eq!(verdicts.vouchers, BTreeSet::from(PEERS));
    assert_eq!(verdicts.bury, [("deleted".into(), at(50))]);
    assert!(own.bury(PASS, verdicts.bury).unwrap());
    assert!(own.sync(PASS).unwrap());
    assert!(!is_value(&engine, "deleted", 50));
    assert!(is_value(&engine, "kept", 60));
    assert_eq!(own.verdicts(PASS), Verdicts::default(), "each is told once");
}

#[test]
fn what_has_become_newer_meanwhile_is_not_buried() {
    let (engine, mut own) = compared(&[value("k", 50, 3)], [Nothing, All, All]);
    for peer in PEERS {
        assert!(sent(&mut own, peer, &["k"]).is_empty());
    }
    let bury = own.verdicts(PASS).bury;
    engine.write(value("k", 200, 3)).unwrap();
    assert!(own.bury(PASS, bury).unwrap());
    assert!(own.sync(PASS).unwrap());
    assert!(is_value(&engine, "k", 200));
}

#[test]
fn those_who_vouch_may_not_disagree() {
    let (_engine, mut own) = compared(&[value("k", 50, 3)], [Nothing, All, All]);
    assert!(sent(&mut own, PEERS[0], &["k"]).is_empty());
    let verdicts = own.verdicts(PASS);
    assert!(verdicts.are_at_odds && verdicts.bury.is_empty());
}

#[test]
fn those_who_vouch_do_not_disagree_about_what_is_hidden_or_dead_by_now() {
    // One of them lacks the newer version, too, or has freed what has expired.
    for now in [value("k", 200, 3), Entry::tombstone(b"k", at(50), 3)] {
        let (engine, mut own) = compared(&[value("k", 50, 3)], [Nothing, All, All]);
        assert!(sent(&mut own, PEERS[0], &["k"]).is_empty());
        engine.write(now).unwrap();
        assert_eq!(own.verdicts(PASS), Verdicts::default());
    }
}

#[test]
fn a_receiver_does_not_vouch_for_another() {
    // Node 1 lacks it, and it is whole; whether node 2 has it does not count.
    let (_engine, mut own) = compared(&[value("k", 50, 3)], [Nothing, All, Nothing]);
    assert!(sent(&mut own, PEERS[0], &["k"]).is_empty());
    assert_eq!(own.verdicts(PASS).bury.len(), 1);
    // What only a receiver lacks it gets from the one that is whole.
    assert!(sent(&mut own, PEERS[1], &["k"]).is_empty());
    assert_eq!(own.verdicts(PASS), Verdicts::default());
}

#[test]
fn where_nobody_is_whole_those_send_that_can_say_most() {
    for (vouching, is_sent) in [
        ([All, All, All], true),
        ([Remembers, Remembers, Nothing], true),
        ([Nothing, Nothing, Nothing], true),
        ([Nothing, Remembers, Nothing], false),
        ([Remembers, All, Nothing], false),
    ] {
        let (_engine, mut own) = compared(&[value("k", 50, 3)], vouching);
        let sent = !sent(&mut own, PEERS[1], &["k"]).is_empty();
        assert_eq!(sent, is_sent, "{vouching:?}");
    }
}

#[test]
fn a_store_that_lacks_something_sends_nothing_old_unless_a_pass_names_who_vouches() {
    for (is_receiver, kind, expected) in [
        (false, PassKind::Recent, vec!["new", "old"]),
        (true, PassKind::Recent, vec!["new"]),
        (true, PassKind::Full, vec!["new"]),
    ] {
        let engine = engine_on(&Arc::new(MemoryDisk::new()));
        for entry in [value("new", 100, 3), value("old", 50, 3)] {
            engine.write(entry).unwrap();
        }
        let mut own = participant_of(&engine, OWN);
        own.environment.is_receiver = Box::new(move || is_receiver);
        own.environment.bounds.hear(at(100));
        begin(&mut own, PASS, kind, 1 << 40);
        while matches!(own.advance(PASS, b"").unwrap(), Advance::GoOn) {}
        own.digest(PASS, 0, None);
        let hashes = ["new", "old"].map(|key| Item::key_hash_of(key.as_bytes()));
        let keys = own.keys_of((PASS, 0), hashes.to_vec()).unwrap();
        let selected = own.newest((PASS, 0), PEERS[0], &keys, usize::MAX);
        let selected = selected.unwrap().unwrap();
        let keys = selected.entries.iter().map(Entry::key);
        let expected: Vec<&[u8]> = expected.into_iter().map(str::as_bytes).collect();
        assert_eq!(keys.collect::<Vec<_>>(), expected, "{is_receiver} {kind:?}");
        assert_eq!(selected.is_all, !is_receiver, "the two are not equal then");
        assert_eq!(own.verdicts(PASS), Verdicts::default(), "nothing is buried");
        let run = own.run((PASS, 0), PEERS[0], None, Vec::new());
        let in_bulk = run.unwrap().unwrap().entries().unwrap();
        let keys = in_bulk.iter().map(Entry::key);
        assert_eq!(keys.collect::<Vec<_>>(), expected, "{is_receiver} {kind:?}");
    }
}

#[test]
fn those_who_vouch_but_lack_something_are_asked_once_more() {
    for (vouching, doubtful) in [
        ([Nothing, All, Remembers], vec![]),
        ([Nothing, Remembers, Remembers], PEERS.to_vec()),
        ([Nothing, Remembers, Nothing], vec![PEERS[0]]),
    ] {
        let (_engine, mut own) = compared(&[value("k", 50, 3)], vouching);
        for peer in PEERS {
            assert!(sent(&mut own, peer, &["k"]).is_empty());
        }
        let verdicts = own.verdicts(PASS);
        assert_eq!(verdicts.bury.len(), 1);
        let keys = doubtful.into_iter().map(|node| (node, Bytes::from("k")));
        assert_eq!(verdicts.doubtful, keys.collect::<Vec<_>>());
    }
}

#[test]
fn a_surplus_copy_is_a_leftover_if_its_replica_lacks_it() {
    let placement = Placement::new(["a", "b", "c"]);
    let key_of = |node: NodeId| {
        let mut keys = (0..).map(|number| format!("k{number}"));
        let is_of = |key: &String| placement.replicas(key.as_bytes(), 1).contains(&node);
        keys.find(is_of).unwrap()
    };
    let (surplus, single) = (key_of(PEERS[0]), key_of(OWN));
    let entries = [value(&surplus, 50, 1), value(&single, 50, 1)];
    let (_engine, mut own) = compared(&entries, [Nothing, All, All]);
    // Of a single copy no other node can tell.
    assert_eq!(sent(&mut own, PEERS[0], &[&surplus, &single]), [single]);
    assert_eq!(own.verdicts(PASS).bury, [(Bytes::from(surplus), at(50))]);
}

/// A store with a value in one table, and its tombstone in a block of another one that is
/// damaged, which nobody has noticed yet.
fn with_damage() -> (Engine, Arc<StepExecutor>) {
    let disk = Arc::new(MemoryDisk::new());
    for entry in [value("k", 50, 3), Entry::tombstone(b"k", at(60), 3)] {
        let engine = engine_on(&disk);
        engine.write(entry).unwrap();
        // It writes the memtable to a table.
        engine.close().unwrap();
    }
    let folder = Path::new("/store");
    let mut tables = disk.list(folder).unwrap();
    tables.retain(|name| name.ends_with(".sst"));
    tables.sort();
    let newest = folder.join(tables.pop().unwrap());
    disk.corrupt(&newest, 20, 0x10).unwrap();
    let (environment, executor) = environment(Arc::clone(&disk) as Arc<dyn Disk>);
    let engine = Engine::open(environment, Options::default()).unwrap().0;
    (engine, executor)
}

fn find_damage(engine: &Engine, executor: &StepExecutor) {
    let mut scan = engine.scan(b"", None).for_full_comparison();
    while !scan.next_batch(1 << 20).unwrap().is_empty() {}
    executor.run_all_due();
    assert!(engine.is_damaged(b"k"));
}

/// The others have forgotten the tombstone.
#[test]
fn what_a_damaged_tombstone_has_hidden_is_buried_before_it_counts_again() {
    let (engine, executor) = with_damage();
    find_damage(&engine, &executor);
    let mut own = compare(&engine, [All, All, All]);
    for peer in PEERS {
        assert!(sent(&mut own, peer, &["k"]).is_empty());
    }
    let bury = own.verdicts(PASS).bury;
    assert!(own.bury(PASS, bury).unwrap());
    assert!(own.sync(PASS).unwrap());
    own.end(PASS, STORE, &PEERS).unwrap();
    executor.run_for(Duration::from_secs(60));
    assert!(!engine.is_damaged(b"k"));
    assert!(!is_value(&engine, "k", 50));
}

#[test]
fn a_store_in_which_damage_is_found_is_not_what_it_was_when_the_pass_began() {
    let (engine, executor) = with_damage();
    let mut own = participant_of(&engine, OWN);
    assert!(!own.is_as_begun(PASS, STORE), "it has not begun");
    begin(&mut own, PASS, PassKind::Full, 1 << 40);
    assert!(own.is_as_begun(PASS, STORE));
    let replaced = Incarnation {
        store_id: STORE.store_id + 1,
        ..STORE
    };
    assert!(!own.is_as_begun(PASS, replaced));
    find_damage(&engine, &executor);
    assert!(!own.is_as_begun(PASS, STORE));
    // The next pass passes over the damage from its begin on.
    begin(&mut own, PassId(8), PassKind::Full, 1 << 40);
    assert!(own.is_as_begun(PassId(8), STORE));
}
