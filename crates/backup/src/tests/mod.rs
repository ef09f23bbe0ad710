//! Backups of stores on disks in memory, each step of which can fail.

mod fixtures;
mod guards;

use crate::target::Target;
use crate::{
    BackupContents, BackupError, BackupId, Catalog, FolderTarget, Listed, Owner, Pruned,
    RESTORING_FILE, Restore, Restored, SharedSnapshot, TableHashes, Upload, UploadOrder, User,
    restored_folder,
};
use base::{Entry, Expiry, ManualClock, SeededRandom, Timestamp};
use cluster::{NodeId, Placement};
use lsm::{Disk, Engine, Environment, Options};
use lsm_testing::{BlockingWrite, Fault, FaultyDisk, MemoryDisk, environment};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;
const NODES: [&str; 3] = ["a", "b", "c"];
/// That of all backups here.
const GC_THRESHOLD: u64 = 900;

fn target_on(disk: &Arc<MemoryDisk>) -> Arc<dyn Target> {
    let disk = Arc::clone(disk);
    disk.create_folder(Path::new("/backups")).unwrap();
    Arc::new(FolderTarget::open(disk, Path::new("/backups"), 1).unwrap())
}

/// The first start of node `a`, of a cluster with these stores.
fn user() -> User {
    User {
        owner: Owner {
            node: "a".to_owned(),
            start: 7,
        },
        stores: (1..)
            .zip(NODES)
            .map(|(store, name)| (name.to_owned(), Some(store)))
            .collect(),
    }
}

/// The backups at a target, at this time.
fn catalog(target: &Arc<dyn Target>, unix_ms: u64) -> Catalog {
    Catalog::new(Arc::clone(target), Arc::new(ManualClock::new(unix_ms)))
}

fn prune(target: &Arc<dyn Target>, keep: usize, unix_ms: u64) -> Result<Pruned, BackupError> {
    prune_by(&catalog(target, unix_ms), keep)
}

fn prune_by(catalog: &Catalog, keep: usize) -> Result<Pruned, BackupError> {
    let mut prune = catalog.prune(&user(), keep, 2)?;
    while !prune.step()? {}
    Ok(prune.progress().clone())
}

/// The store of a node, and what its uploads know.
struct Store {
    name: &'static str,
    engine: Engine,
    hashes: TableHashes,
    holds: u64,
}

impl Store {
    fn new(name: &'static str) -> Self {
        Self::on(name, &Arc::default())
    }

    fn on(name: &'static str, disk: &Arc<MemoryDisk>) -> Self {
        let (environment, executor) = environment(Arc::clone(disk) as _);
        drop(executor);
        let options = Options {
            memtable_bytes: 64 << 10,
            compaction: false,
            ..Options::default()
        };
        Self {
            name,
            engine: Engine::open(environment, options).unwrap().0,
            hashes: TableHashes::new(),
            holds: 0,
        }
    }

    fn order(&self, target: &Arc<dyn Target>, id: &BackupId) -> UploadOrder {
        UploadOrder {
            target: Arc::clone(target),
            backup: id.clone(),
            node: self.name.to_owned(),
            pinned_bytes_max: u64::MAX,
        }
    }

    fn begin_upload(&mut self, order: UploadOrder) -> Upload {
        self.holds += 1;
        let snapshot = self.engine.freeze(self.holds, Duration::from_secs(1));
        let snapshot = snapshot.unwrap();
        assert!(self.engine.end_hold(self.holds));
        let snapshot = SharedSnapshot::new(snapshot);
        Upload::begin(order, snapshot, std::mem::take(&mut self.hashes))
    }

    fn write(&self, key: &str, timestamp: u64, copies: u8) {
        let value = format!("{key} {timestamp} {}", "v".repeat(100));
        let (timestamp, value) = (Timestamp::from_u64(timestamp), value.as_bytes());
        let entry = Entry::value(key.as_bytes(), timestamp, value, Expiry::NEVER, copies);
        self.engine.write(entry).unwrap();
    }
}

/// Three stores with a few hundred keys, two copies of each.
fn stores() -> Vec<Store> {
    let stores: Vec<_> = NODES.into_iter().map(Store::new).collect();
    let placement = Placement::new(NODES);
    for number in 0..400_u64 {
        let key = format!("key-{number:04}");
        for node in placement.preference_list(key.as_bytes(), 2) {
            stores[node.index()].write(&key, 1_000 + number, 2);
        }
        if number % 150 == 149 {
            stores.iter().for_each(|it| it.engine.flush().unwrap());
        }
    }
    // An older version on one that is no replica any more.
    stores[0].write("key-0000", 1, 2);
    stores
}

fn back_up(
    target: &Arc<dyn Target>,
    stores: &mut [Store],
    unix_ms: u64,
) -> Result<Listed, BackupError> {
    let running = catalog(target, unix_ms).begin(&user(), unix_ms)?;
    let mut nodes = Vec::new();
    let mut greatest_timestamp = 0;
    for store in stores.iter_mut() {
        let order = store.order(target, &running.id);
        let greatest = store.engine.greatest_timestamp().as_u64();
        greatest_timestamp = greatest_timestamp.max(greatest);
        let mut upload = store.begin_upload(order);
        while upload.end().is_none() {
            upload.step()?;
        }
        nodes.extend(upload.end().cloned());
        store.hashes = upload.into_hashes();
    }
    let contents = BackupContents {
        format: 1,
        number: 0,
        zones: BTreeMap::new(),
        gc_threshold: GC_THRESHOLD,
        members: stores.iter().map(|store| store.name.to_owned()).collect(),
        missing: Vec::new(),
        began_unix_ms: unix_ms,
        cut_unix_ms: unix_ms,
        completed_unix_ms: unix_ms,
        greatest_timestamp,
        nodes,
    };
    running.complete(&contents)
}

/// A new node.
struct NewNode {
    disk: Arc<MemoryDisk>,
    folder: &'static Path,
}

impl NewNode {
    fn new() -> Self {
        Self {
            disk: Arc::new(MemoryDisk::new()),
            folder: Path::new("/store"),
        }
    }

    fn restore(
        &self,
        target: &Arc<dyn Target>,
        members: &[&str],
        own: &str,
    ) -> Result<Restored, BackupError> {
        self.restore_on(Arc::clone(&self.disk) as _, target, members, own)
    }

    fn restore_on(
        &self,
        disk: Arc<dyn Disk>,
        target: &Arc<dyn Target>,
        members: &[&str],
        own: &str,
    ) -> Result<Restored, BackupError> {
        let restore = self.order(disk, target, members, own);
        restore.run(&mut |_, _| {})
    }

    fn order(
        &self,
        disk: Arc<dyn Disk>,
        target: &Arc<dyn Target>,
        members: &[&str],
        own: &str,
    ) -> Restore {
        Restore {
            target: Arc::clone(target),
            backup: None,
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            own: own.to_owned(),
            purpose: "here".to_owned(),
            folder: self.folder.to_owned(),
            disk,
            random: Arc::new(SeededRandom::new(3)),
            clock: Arc::new(ManualClock::new(0)),
        }
    }

    fn open(&self) -> Engine {
        let restored = restored_folder(&*self.disk, self.folder).unwrap();
        let gc_threshold = restored.map(|restored| restored.gc_threshold.as_u64());
        assert_eq!(gc_threshold, Some(GC_THRESHOLD));
        let (environment, executor) = environment(Arc::clone(&self.disk) as _);
        drop(executor);
        let environment = Environment {
            folder: self.folder.to_owned(),
            ..environment
        };
        Engine::open(environment, Options::default()).unwrap().0
    }
}

/// All newest versions of a store.
fn all(engine: &Engine) -> BTreeMap<Vec<u8>, (u64, u8, Vec<u8>)> {
    let mut scan = engine.scan(&[], None);
    let mut found = BTreeMap::new();
    loop {
        let batch = scan.next_batch(1 << 20).unwrap();
        if batch.is_empty() {
            return found;
        }
        for entry in batch {
            let timestamp = entry.timestamp().as_u64();
            let version = (timestamp, entry.copies(), entry.value_bytes().to_vec());
            found.insert(entry.key().to_vec(), version);
        }
    }
}

#[test]
fn the_same_nodes_get_their_stores_as_they_were() {
    let disk = Arc::new(MemoryDisk::new());
    let target = target_on(&disk);
    let mut stores = stores();
    let expected: Vec<_> = stores.iter().map(|store| all(&store.engine)).collect();
    let backup = back_up(&target, &mut stores, HOUR_MS).unwrap();
    stores[1].write("later", 9_999, 3);
    let mut clusters = Vec::new();
    for (store, expected) in stores.iter().zip(expected) {
        let node = NewNode::new();
        let restored = node.restore(&target, &["c", "b", "a"], store.name).unwrap();
        assert!(restored.same_nodes && restored.versions == 0);
        assert_eq!(restored.backup, backup);
        clusters.push(restored.cluster);
        let engine = node.open();
        assert_eq!(all(&engine), expected);
        let greatest = engine.greatest_timestamp().as_u64();
        assert_eq!(greatest, backup.contents.greatest_timestamp);
    }
    assert!(clusters.iter().all(|cluster| *cluster == clusters[0]));
}

#[test]
fn other_nodes_get_the_newest_of_what_is_theirs() {
    let disk = Arc::new(MemoryDisk::new());
    let target = target_on(&disk);
    let mut stores = stores();
    let mut newest = BTreeMap::new();
    for store in &stores {
        for (key, version) in all(&store.engine) {
            let known = newest.entry(key).or_insert_with(|| version.clone());
            *known = version.max(known.clone());
        }
    }
    back_up(&target, &mut stores, HOUR_MS).unwrap();
    for members in [&["a"][..], &["b", "z"], &["a", "b", "c", "d", "e"]] {
        let copies = 2.min(members.len() as u8);
        let placement = Placement::new(members.iter().copied());
        let mut kept = 0;
        for (number, own) in members.iter().enumerate() {
            let node = NewNode::new();
            let restored = node.restore(&target, members, own).unwrap();
            assert!(!restored.same_nodes);
            let engine = node.open();
            let own = NodeId::new(number as u8);
            let of_own = newest.iter().filter(|(key, _)| {
                let list = placement.preference_list(key, copies);
                list.contains(&own)
            });
            let expected: BTreeMap<_, _> = of_own
                .map(|(key, (timestamp, _, value))| {
                    (key.clone(), (*timestamp, copies, value.clone()))
                })
                .collect();
            kept += expected.len();
            assert_eq!(all(&engine), expected, "{members:?} {number}");
        }
        assert_eq!(kept, newest.len() * usize::from(copies));
    }
}

#[test]
fn a_second_backup_stores_what_is_new() {
    let disk = Arc::new(MemoryDisk::new());
    let target = target_on(&disk);
    let mut stores = stores();
    let first = back_up(&target, &mut stores, HOUR_MS).unwrap();
    assert_eq!(first.contents.new_bytes(), first.contents.bytes());
    let same = back_up(&target, &mut stores, 2 * HOUR_MS).unwrap();
    assert_eq!(same.contents.new_bytes(), 0);
    stores[0].write("new", 9_999, 1);
    let more = back_up(&target, &mut stores, 3 * HOUR_MS).unwrap();
    let new_bytes = more.contents.bytes() - same.contents.bytes();
    assert_eq!(more.contents.new_bytes(), new_bytes);
    // A node that has restarted reads its tables anew, and stores none of them twice.
    stores.iter_mut().for_each(|it| it.hashes.clear());
    let again = back_up(&target, &mut stores, 4 * HOUR_MS).unwrap();
    assert_eq!(again.contents.new_bytes(), 0);
}

#[test]
fn a_backup_that_fails_anywhere_is_none_and_can_be_repeated() {
    let mut stores = stores();
    let memory = Arc::new(MemoryDisk::new());
    let good = back_up(&target_on(&memory), &mut stores, HOUR_MS).unwrap();
    for store in &stores {
        store.write("new", 9_999, 3);
    }
    let mut failed = 0;
    for at in 0.. {
        let memory = Arc::new(memory.clone_synced());
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
        let opened = FolderTarget::open(Arc::clone(&faulty) as _, Path::new("/backups"), 2);
        let target: Arc<dyn Target> = Arc::new(opened.unwrap());
        faulty.arm(Fault::at(at, io::ErrorKind::Other).lasting());
        let result = back_up(&target, &mut stores, 2 * HOUR_MS);
        let has_failed = faulty.failed() > 0;
        let sound = Arc::new(memory.clone_synced());
        let target = target_on(&sound);
        let listed = catalog(&target, 0).list().unwrap().backups;
        assert!(listed.contains(&good));
        for backup in &listed {
            verify(&target, backup).unwrap();
        }
        if !has_failed {
            assert_eq!(listed.len(), 2);
            assert!(result.is_ok());
            break;
        }
        failed += 1;
        if result.is_ok() {
            assert_eq!(listed.len(), 2, "fault {at}");
        }
        // Once more: what is there is not stored again.
        back_up(&target, &mut stores, 3 * HOUR_MS).unwrap();
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn an_upload_whose_steps_fail_and_are_tried_again_stores_everything() {
    let mut failed = 0;
    for at in 0.. {
        let memory = Arc::new(MemoryDisk::new());
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
        faulty.create_folder(Path::new("/backups")).unwrap();
        let opened = FolderTarget::open(Arc::clone(&faulty) as _, Path::new("/backups"), 1);
        let target: Arc<dyn Target> = Arc::new(opened.unwrap());
        let running = catalog(&target, HOUR_MS).begin(&user(), at).unwrap();
        let mut store = Store::new("a");
        for number in 0..3 {
            store.write(&format!("key-{at}-{number}"), 1, 1);
            store.engine.flush().unwrap();
        }
        let order = store.order(&target, &running.id);
        let mut upload = store.begin_upload(order);
        faulty.arm(Fault::at(at, io::ErrorKind::TimedOut));
        let mut failures = 0;
        while upload.end().is_none() {
            let before = upload.progress();
            match upload.step() {
                Ok(()) => assert!(upload.progress().done_bytes >= before.done_bytes),
                Err(_) => failures += 1,
            }
        }
        let has_failed = faulty.failed() > 0;
        faulty.heal();
        // A file that could not be removed after its time is no object, and harms nothing.
        assert!(failures <= 1, "fault {at}");
        let end = upload.end().unwrap().clone();
        assert_eq!(end.tables, 3, "fault {at}");
        assert_eq!(
            (end.bytes, end.new_bytes),
            (end.bytes, end.bytes),
            "fault {at}"
        );
        let contents = BackupContents {
            format: 1,
            number: 0,
            zones: BTreeMap::new(),
            gc_threshold: 0,
            members: vec!["a".to_owned()],
            missing: Vec::new(),
            began_unix_ms: HOUR_MS,
            cut_unix_ms: HOUR_MS,
            completed_unix_ms: HOUR_MS,
            greatest_timestamp: 1,
            nodes: vec![end],
        };
        let backup = running.complete(&contents).unwrap();
        verify(&target, &backup).unwrap();
        if !has_failed {
            break;
        }
        failed += 1;
    }
    assert!(failed > 10, "{failed}");
}

fn verify(target: &Arc<dyn Target>, backup: &Listed) -> Result<u64, BackupError> {
    let mut verify = catalog(target, 0).verify(backup.clone());
    while !verify.step()? {}
    Ok(verify.progress().bytes)
}

#[test]
fn a_verification_finds_every_damage() {
    let memory = Arc::new(MemoryDisk::new());
    let target = target_on(&memory);
    let backup = back_up(&target, &mut stores(), HOUR_MS).unwrap();
    assert_eq!(verify(&target, &backup).unwrap(), backup.contents.bytes());
    for folder in ["tables", "nodes", "backups"] {
        for object in target.list(folder).unwrap() {
            for offset in [0, object.bytes / 2, object.bytes - 1] {
                let path = Path::new("/backups").join(&object.name);
                memory.corrupt(&path, offset, 1).unwrap();
                let found = catalog(&target, 0).find(Some(&backup.id));
                let found = found.and_then(|backup| verify(&target, &backup));
                let found = found.map_err(|error| error.to_string()).unwrap_err();
                assert!(found.contains(&object.name), "{found}");
                let node = NewNode::new();
                let mut restored = NODES.map(|name| node.restore(&target, &NODES, name).is_ok());
                restored.sort_unstable();
                assert!(!restored[0], "one of the nodes needs {}", object.name);
                memory.corrupt(&path, offset, 1).unwrap();
            }
        }
    }
    let object = &target.list("tables").unwrap()[0];
    target.remove(&object.name).unwrap();
    assert!(verify(&target, &backup).is_err());
}

#[test]
fn pruning_keeps_what_the_others_need() {
    let memory = Arc::new(MemoryDisk::new());
    let target = target_on(&memory);
    let mut stores = stores();
    let mut backups = Vec::new();
    for hour in 1..=4 {
        backups.push(back_up(&target, &mut stores, hour * HOUR_MS).unwrap());
        stores[0].write(&format!("new-{hour}"), 9_999, 1);
        if hour == 2 {
            // Its tables go with the backups that have them.
            stores[1].engine.compact().unwrap();
        }
    }
    let pruned = prune(&target, 2, 5 * HOUR_MS).unwrap();
    assert_eq!(pruned.backups.len(), 2);
    assert!(pruned.tables > 0 && pruned.bytes > 0);
    let listed = catalog(&target, 0).list().unwrap().backups;
    backups.reverse();
    assert_eq!(listed, backups[..2]);
    for backup in &listed {
        verify(&target, backup).unwrap();
    }
    assert_eq!(target.list("nodes").unwrap().len(), 6);
    let again = prune(&target, 2, 5 * HOUR_MS).unwrap();
    assert_eq!(again, Pruned::default());
    assert!(target.list("running").unwrap().is_empty());
}

#[test]
fn a_node_that_does_not_share_the_folder_stores_nothing() {
    let (one, other) = (Arc::default(), Arc::new(MemoryDisk::new()));
    let running = catalog(&target_on(&one), HOUR_MS)
        .begin(&user(), 1)
        .unwrap();
    let elsewhere = target_on(&other);
    let mut store = Store::new("a");
    let order = store.order(&elsewhere, &running.id);
    let result = store.begin_upload(order).step();
    assert!(matches!(result, Err(BackupError::NotShared)), "{result:?}");
    assert!(elsewhere.list("tables").unwrap().is_empty());
}

#[test]
fn a_snapshot_that_pins_too_much_is_given_up() {
    let disk = Arc::new(MemoryDisk::new());
    let target = target_on(&disk);
    let running = catalog(&target, HOUR_MS).begin(&user(), 1).unwrap();
    let mut store = Store::new("a");
    store.write("key", 1, 1);
    let mut order = store.order(&target, &running.id);
    order.pinned_bytes_max = 100;
    let mut upload = store.begin_upload(order);
    upload.step().unwrap();
    store.write("key", 2, 1);
    store.engine.compact().unwrap();
    let result = upload.step();
    assert!(matches!(result, Err(BackupError::TooMuchPinned { .. })));
}

#[test]
fn a_restore_that_fails_anywhere_is_no_store_and_can_be_repeated() {
    let memory = Arc::new(MemoryDisk::new());
    let target = target_on(&memory);
    let mut stores = stores();
    let expected = all(&stores[0].engine);
    back_up(&target, &mut stores, HOUR_MS).unwrap();
    for members in [&NODES[..], &["a"]] {
        let mut failed = 0;
        for at in (0..).step_by(if members.len() == 1 { 7 } else { 1 }) {
            let mut node = NewNode::new();
            let faulty = Arc::new(FaultyDisk::new(Arc::clone(&node.disk) as _));
            faulty.arm(Fault::at(at, io::ErrorKind::Other).lasting());
            let result = node.restore_on(Arc::clone(&faulty) as _, &target, members, "a");
            let has_failed = faulty.failed() > 0;
            node.disk = Arc::new(node.disk.clone_synced());
            if result.is_err() {
                failed += 1;
                let is_store = lsm::holds_store(&*node.disk, node.folder).unwrap_or(false);
                let is_begun = restored_folder(&*node.disk, node.folder);
                let counts = is_store && is_begun.is_ok();
                assert!(!counts, "fault {at}: a part of a store counts");
                node.restore(&target, members, "a").unwrap();
            }
            let engine = node.open();
            if members.len() == 3 {
                assert_eq!(all(&engine), expected, "fault {at}");
            } else {
                assert_eq!(all(&engine).len(), 400, "fault {at}");
            }
            let path = node.folder.join(RESTORING_FILE);
            assert!(node.disk.open(&path).is_err());
            if !has_failed {
                break;
            }
        }
        assert!(failed > 10, "{failed}");
    }
}

#[test]
fn a_restore_touches_no_other_folder_and_no_other_restore() {
    let memory = Arc::new(MemoryDisk::new());
    let target = target_on(&memory);
    let mut stores = stores();
    back_up(&target, &mut stores, HOUR_MS).unwrap();
    let node = NewNode::new();
    node.restore(&target, &NODES, "a").unwrap();
    let again = node.restore(&target, &NODES, "a");
    assert!(matches!(again, Err(BackupError::Invalid(_))), "{again:?}");
    let none = NewNode::new().restore(&target, &NODES, "z");
    assert!(matches!(none, Err(BackupError::Invalid(_))), "{none:?}");
    let empty = target_on(&Arc::default());
    let none = NewNode::new().restore(&empty, &NODES, "a");
    assert!(matches!(none, Err(BackupError::NotFound(_))), "{none:?}");
}
