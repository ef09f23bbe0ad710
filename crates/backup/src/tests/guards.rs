//! What must not happen at a target, whatever runs there and whatever clocks say.

use super::*;
use crate::target::{ObjectInfo, ObjectReader, ObjectWriter};
use crate::{NoteWatch, Running};
use std::sync::mpsc;

const MINUTE: Duration = Duration::from_secs(60);

/// Two backups, each with a table of its own, and what differs.
fn two_backups(target: &Arc<dyn Target>, stores: &mut [Store], unix_ms: [u64; 2]) -> [Listed; 2] {
    let one = back_up(target, stores, unix_ms[0]).unwrap();
    stores[0].write("new", 9_999, 1);
    [one, back_up(target, stores, unix_ms[1]).unwrap()]
}

fn listed(target: &Arc<dyn Target>) -> Vec<Listed> {
    catalog(target, 0).list().unwrap().backups
}

#[test]
fn the_newest_is_what_was_made_last_whatever_clocks_and_timestamps_say() {
    let target = target_on(&Arc::default());
    let mut stores = stores();
    // The coordinator's clock is behind, and the node with the latest writes is missing.
    let [_, before] = two_backups(&target, &mut stores, [9 * HOUR_MS, 8 * HOUR_MS]);
    let newest = back_up(&target, &mut stores[1..], 7 * HOUR_MS).unwrap();
    let greatest = |backup: &Listed| backup.contents.greatest_timestamp;
    assert!(greatest(&newest) < greatest(&before));
    assert_eq!(catalog(&target, 0).find(None).unwrap(), newest);
    prune(&target, 1, 9 * HOUR_MS).unwrap();
    assert_eq!(listed(&target), std::slice::from_ref(&newest));
    verify(&target, &newest).unwrap();
}

#[test]
fn nothing_is_pruned_beside_a_backup_that_lives_by_any_clock() {
    let target = target_on(&Arc::default());
    let mut stores = stores();
    back_up(&target, &mut stores, HOUR_MS).unwrap();
    let clock = Arc::new(ManualClock::new(2 * HOUR_MS));
    let watch = Arc::<NoteWatch>::default();
    let other = Catalog::new(Arc::clone(&target), Arc::clone(&clock) as _);
    let running = other.begin(&user(), 1).unwrap();
    // Whoever prunes has a clock that is a year ahead.
    let ahead = Arc::new(ManualClock::new(365 * 24 * HOUR_MS));
    let pruning = Catalog::new(Arc::clone(&target), Arc::clone(&ahead) as _);
    let pruning = pruning.watching(Arc::clone(&watch));
    for _ in 0..40 {
        let refused = prune_by(&pruning, 1);
        assert!(matches!(refused, Err(BackupError::Busy(_))), "{refused:?}");
        for clock in [&clock, &ahead] {
            clock.advance(MINUTE);
        }
        running.refresh().unwrap();
    }
    // It is silent for a while, and then taken for dead.
    for _ in 0..15 {
        assert!(prune_by(&pruning, 1).is_err());
        ahead.advance(MINUTE);
    }
    prune_by(&pruning, 1).unwrap();
    clock.advance(2 * MINUTE);
    let refused = running.refresh();
    assert!(matches!(refused, Err(BackupError::TakenForDead)));
}

/// A backup whose tables are stored, and what it would be.
fn stored(target: &Arc<dyn Target>, stores: &mut [Store]) -> (Running, BackupContents) {
    let running = catalog(target, HOUR_MS).begin(&user(), 3).unwrap();
    let mut nodes = Vec::new();
    for store in stores.iter_mut() {
        let order = store.order(target, &running.id);
        let mut upload = store.begin_upload(order);
        while upload.end().is_none() {
            upload.step().unwrap();
        }
        nodes.extend(upload.end().cloned());
    }
    let contents = BackupContents {
        format: 1,
        number: 0,
        members: NODES.map(str::to_owned).to_vec(),
        zones: BTreeMap::new(),
        missing: Vec::new(),
        began_unix_ms: 1,
        cut_unix_ms: 1,
        completed_unix_ms: 1,
        greatest_timestamp: 1,
        gc_threshold: 0,
        nodes,
    };
    (running, contents)
}

#[test]
fn a_backup_that_was_taken_for_dead_is_none_and_whoever_prunes_stops_when_it_is() {
    let target = target_on(&Arc::default());
    let mut stores = stores();
    let (running, contents) = stored(&target, &mut stores);
    target
        .remove(&target.list("running").unwrap()[0].name)
        .unwrap();
    let refused = running.complete(&contents);
    assert!(
        matches!(refused, Err(BackupError::TakenForDead)),
        "{refused:?}"
    );
    assert!(listed(&target).is_empty());
    let backups = two_backups(&target, &mut stores, [HOUR_MS, 2 * HOUR_MS]);
    let mut prune = catalog(&target, HOUR_MS).prune(&user(), 1, 2).unwrap();
    prune.step().unwrap();
    target
        .remove(&target.list("running").unwrap()[0].name)
        .unwrap();
    assert!(matches!(prune.step(), Err(BackupError::TakenForDead)));
    let [one, other] = backups;
    assert_eq!(listed(&target), [other, one]);
}

#[test]
fn a_backup_that_ends_while_somebody_begins_to_prune_keeps_its_tables() {
    let target = target_on(&Arc::default());
    let mut stores = stores();
    let (running, contents) = stored(&target, &mut stores);
    assert!(prune(&target, 1, HOUR_MS).is_err());
    let made = running.complete(&contents).unwrap();
    prune(&target, 1, HOUR_MS).unwrap();
    verify(&target, &made).unwrap();
}

#[test]
fn what_an_earlier_start_of_a_node_has_begun_holds_nobody_up() {
    let target = target_on(&Arc::default());
    let running = catalog(&target, HOUR_MS).begin(&user(), 1).unwrap();
    let of = |node: &str, start| User {
        owner: Owner {
            node: node.to_owned(),
            start,
        },
        ..user()
    };
    for (user, is_held_up) in [(of("a", 7), true), (of("b", 8), true), (of("a", 8), false)] {
        let catalog = catalog(&target, HOUR_MS);
        catalog.look_at_notes(&user).unwrap();
        let pruned = catalog.prune(&user, 1, 2);
        assert_eq!(pruned.is_err(), is_held_up, "{:?}", user.owner);
    }
    drop(running);
}

/// Another cluster, whose nodes have the same names.
fn stranger() -> User {
    let mut user = user();
    for store in user.stores.values_mut() {
        *store = store.map(|store| store + 100);
    }
    user.owner.start = 9;
    user
}

#[test]
fn a_target_belongs_to_one_cluster_until_another_one_takes_it_over() {
    let target = target_on(&Arc::default());
    let mut stores = stores();
    let made = back_up(&target, &mut stores, HOUR_MS).unwrap();
    let catalog = || catalog(&target, HOUR_MS);
    let refused = |stranger: &User| {
        let text = catalog().begin(stranger, 1).err().unwrap().to_string();
        assert!(
            text.contains("of a, b, c") && !text.contains('\n'),
            "{text}"
        );
        let pruned = catalog().prune(stranger, 1, 1).err();
        assert!(matches!(pruned, Some(BackupError::OtherCluster { .. })));
    };
    refused(&stranger());
    // Nor does it take back what nodes of its names have noted.
    let (running, contents) = stored(&target, &mut stores);
    catalog().look_at_notes(&stranger()).unwrap();
    assert_eq!(target.list("running").unwrap().len(), 1);
    // Nodes are replaced one by one, and some are not known at once.
    let mut next = user();
    next.stores.insert("a".to_owned(), Some(50));
    next.stores.insert("b".to_owned(), None);
    catalog().begin(&next, 5).unwrap().end().unwrap();
    for (name, store) in [("b", 51), ("c", 52)] {
        next.stores.insert(name.to_owned(), Some(store));
        catalog().begin(&next, 5).unwrap().end().unwrap();
    }
    refused(&user());
    catalog().adopt(&user()).unwrap();
    refused(&next);
    // What runs for the cluster from which it was taken is no backup.
    catalog().adopt(&stranger()).unwrap();
    let refused = running.complete(&contents);
    assert!(matches!(refused, Err(BackupError::OtherCluster { .. })));
    assert_eq!(listed(&target), [made]);
}

#[test]
fn a_truncated_table_at_the_target_is_stored_again() {
    let memory = Arc::new(MemoryDisk::new());
    let target = target_on(&memory);
    let mut stores = stores();
    let one = back_up(&target, &mut stores, HOUR_MS).unwrap();
    let object = target.list("tables").unwrap().swap_remove(0);
    let file = memory
        .open(&Path::new("/backups").join(&object.name))
        .unwrap();
    file.set_len(object.bytes / 2).unwrap();
    assert!(verify(&target, &one).is_err());
    let other = back_up(&target, &mut stores, 2 * HOUR_MS).unwrap();
    assert_eq!(other.contents.new_bytes(), object.bytes);
    verify(&target, &other).unwrap();
    verify(&target, &one).unwrap();
}

#[test]
fn a_store_that_is_damaged_where_nobody_has_looked_is_no_part_of_a_backup() {
    let target = target_on(&Arc::default());
    let disk = Arc::new(MemoryDisk::new());
    let mut store = Store::on("a", &disk);
    store.write("key", 1, 1);
    store.engine.flush().unwrap();
    let is_table = |name: &String| name.ends_with(".sst");
    let folder = environment(Arc::clone(&disk) as _).0.folder;
    let table = disk
        .list(&folder)
        .unwrap()
        .into_iter()
        .find(is_table)
        .unwrap();
    disk.corrupt(&folder.join(table), 20, 1).unwrap();
    let running = catalog(&target, HOUR_MS).begin(&user(), 1).unwrap();
    let order = store.order(&target, &running.id);
    let mut upload = store.begin_upload(order);
    let failed = (0..10).find_map(|_| upload.step().err());
    assert!(matches!(failed, Some(BackupError::Store(_))), "{failed:?}");
    assert!(target.list("tables").unwrap().is_empty());
}

#[test]
fn one_damaged_or_later_backup_hides_no_other_one_and_keeps_its_tables() {
    for is_later in [false, true] {
        let memory = Arc::new(MemoryDisk::new());
        let target = target_on(&memory);
        let mut stores = stores();
        let [one, other] = two_backups(&target, &mut stores, [HOUR_MS, 2 * HOUR_MS]);
        let path = Path::new("/backups").join(format!("backups/{}.json", other.id));
        // After that it cannot be restored, but its tables can still be found by people.
        let at = if is_later { 14 } else { 40 };
        let xor = if is_later { b'1' ^ b'9' } else { 1 };
        memory.corrupt(&path, at, xor).unwrap();
        let listing = catalog(&target, 0).list().unwrap();
        assert_eq!(listing.backups, std::slice::from_ref(&one));
        assert_eq!(listing.unreadable[0].id, other.id);
        let why = &listing.unreadable[0].why;
        let part = if is_later { "format 9" } else { "damaged" };
        assert!(why.contains(part) && !why.contains('\n'), "{why}");
        // It may be the newest.
        assert!(catalog(&target, 0).find(None).is_err());
        prune(&target, 1, 3 * HOUR_MS).unwrap();
        verify(&target, &one).unwrap();
        memory.corrupt(&path, at, xor).unwrap();
        assert_eq!(catalog(&target, 0).find(None).unwrap(), other);
        verify(&target, &other).unwrap();
    }
}

#[test]
fn pruning_removes_what_was_never_completed() {
    let memory = Arc::new(MemoryDisk::new());
    let target = target_on(&memory);
    back_up(&target, &mut stores(), HOUR_MS).unwrap();
    for folder in ["tables", "nodes", "backups", "running"] {
        let mut writer = target.create(&format!("{folder}/x")).unwrap();
        writer.write(b"half").unwrap();
        std::mem::forget(writer);
    }
    prune(&target, 1, HOUR_MS).unwrap();
    for folder in ["tables", "nodes", "backups", "running"] {
        let names = memory.list(&Path::new("/backups").join(folder)).unwrap();
        assert!(
            !names.iter().any(|name| name.ends_with(".tmp")),
            "{names:?}"
        );
    }
}

#[test]
fn restores_of_one_backup_have_their_own_numbers() {
    let target = target_on(&Arc::default());
    back_up(&target, &mut stores(), HOUR_MS).unwrap();
    let number = |own: &str, purpose: &str| {
        let node = NewNode::new();
        let mut restore = node.order(Arc::clone(&node.disk) as _, &target, &NODES, own);
        restore.purpose = purpose.to_owned();
        restore.run(&mut |_, _| {}).unwrap().cluster
    };
    assert_eq!(number("a", "here"), number("b", "here"));
    assert_ne!(number("a", "here"), number("a", "there"));
}

#[test]
fn a_copy_of_what_may_have_been_deleted_does_not_come_back_where_keys_move() {
    let target = target_on(&Arc::default());
    let mut stores = stores();
    let placement = Placement::new(NODES);
    // `gone` was deleted and collected; a node that is no replica has kept a copy. `fresh` is
    // above the threshold, and only such a node has it.
    for (key, timestamp) in [("gone", GC_THRESHOLD - 1), ("fresh", GC_THRESHOLD)] {
        let replicas = placement.preference_list(key.as_bytes(), 2);
        let other = (0..3).find(|node| !replicas.contains(&NodeId::new(*node)));
        stores[usize::from(other.unwrap())].write(key, timestamp, 2);
    }
    // A replica has it, below the threshold or not.
    let replica = placement.preference_list(b"old", 2)[0];
    stores[replica.index()].write("old", 5, 2);
    back_up(&target, &mut stores, HOUR_MS).unwrap();
    for members in [&["a"][..], &["x", "y"]] {
        for own in members {
            let node = NewNode::new();
            node.restore(&target, members, own).unwrap();
            let held = all(&node.open());
            let has = |key: &str| held.contains_key(key.as_bytes());
            assert_eq!([has("gone"), has("fresh"), has("old")], [false, true, true]);
        }
    }
    // Without the stores of its replicas it may be the last copy.
    let key = "gone";
    let replicas = placement.preference_list(key.as_bytes(), 2);
    let other = (0..3).find(|node| !replicas.contains(&NodeId::new(*node)));
    let other = usize::from(other.unwrap());
    let (running, mut contents) = stored(&target, &mut stores[other..=other]);
    contents.gc_threshold = GC_THRESHOLD;
    running.complete(&contents).unwrap();
    let node = NewNode::new();
    node.restore(&target, &["a"], "a").unwrap();
    assert!(all(&node.open()).contains_key(key.as_bytes()));
}

/// A target that hangs while an object is written.
struct Hanging {
    inner: Arc<dyn Target>,
    begun: mpsc::Sender<()>,
    goes_on: std::sync::Mutex<mpsc::Receiver<()>>,
}

impl Target for Hanging {
    fn create(&self, name: &str) -> io::Result<Box<dyn ObjectWriter>> {
        self.begun.send(()).unwrap();
        self.goes_on.lock().unwrap().recv().unwrap();
        self.inner.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ObjectReader>> {
        self.inner.open(name)
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ObjectInfo>> {
        self.inner.list(folder)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn remove_unfinished(&self, folder: &str) -> io::Result<()> {
        self.inner.remove_unfinished(folder)
    }
}

#[test]
fn what_an_upload_pins_is_let_go_of_while_the_target_hangs() {
    let target = target_on(&Arc::default());
    let running = catalog(&target, HOUR_MS).begin(&user(), 1).unwrap();
    let store = Store::new("a");
    store.write("key", 1, 1);
    let (begun, has_begun) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let hanging: Arc<dyn Target> = Arc::new(Hanging {
        inner: Arc::clone(&target),
        begun,
        goes_on: goes_on.into(),
    });
    let order = store.order(&hanging, &running.id);
    let snapshot = SharedSnapshot::new(store.engine.freeze(1, Duration::from_secs(1)).unwrap());
    let mut upload = Upload::begin(order, snapshot.clone(), TableHashes::new());
    std::thread::scope(|scope| {
        let uploading = scope.spawn(|| (0..9).find_map(|_| upload.step().err()));
        has_begun.recv().unwrap();
        snapshot.let_go();
        // The store can be frozen again while the upload hangs.
        let next = store.engine.freeze(2, Duration::from_secs(1));
        assert!(next.is_ok(), "{:?}", next.err());
        go_on.send(()).unwrap();
        let failed = uploading.join().unwrap();
        assert!(matches!(failed, Some(BackupError::LetGo)), "{failed:?}");
    });
}
