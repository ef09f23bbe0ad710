//! Backups of a cluster that clients write to, and what is restored of them.
//!
//! A client knows of each of its writes when it was begun and when it was acknowledged. So it knows
//! of a cut at a moment what must be in it, and what must not.

use super::{LOOK_PERIOD, World, begin, calm, until};
use crate::clock::BEGIN_UNIX_MS;
use crate::dice::Dice;
use crate::host::{Copy, Crash, FOLDER, TARGET_FOLDER, names};
use crate::network::HostNumber;
use crate::scenario::Scenario;
use crate::value;
use crate::world::simulate;
use backup::{BackupContents, Catalog, FolderTarget, Listed, Restore, Target};
use base::{Clock, Entry, Kind, ManualClock, SeededRandom, Timestamp};
use checker::{Action, Content, OperationId, Outcome, Request};
use lsm::Disk;
use lsm_testing::{Fault, FaultyDisk, MemoryDisk};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

const KEYS: u64 = 24;
const CLIENTS: u64 = 4;

/// How far wall clocks are wrong at most.
const SKEW_MS_MAX: u64 = 20 * 60 * 1000;

/// How long a backup may take. A node that has ended is waited for, for a minute.
const BACKUP_MAX: Duration = Duration::from_secs(300);

/// How many worlds each test has.
const SEEDS: std::ops::Range<u64> = 0..8;

fn scenario(nodes: usize) -> Scenario {
    Scenario {
        nodes,
        keys: KEYS,
        delay_ms: 0..=3,
        work_ms_max: 3,
        skew_ms_max: SKEW_MS_MAX,
        timeout: Duration::from_secs(1),
        has_backups: true,
        ..calm()
    }
}

/// What the nodes share.
struct SharedFolder {
    disk: Arc<MemoryDisk>,
    faulty: Arc<FaultyDisk>,
}

impl SharedFolder {
    fn new() -> Self {
        let disk = Arc::new(MemoryDisk::new());
        disk.create_folder(Path::new(TARGET_FOLDER)).unwrap();
        let faulty = Arc::new(FaultyDisk::new(Arc::clone(&disk) as _));
        Self { disk, faulty }
    }

    fn target(&self) -> Arc<dyn Target> {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        Arc::new(FolderTarget::open(disk, Path::new(TARGET_FOLDER), 1).unwrap())
    }

    /// The complete backups, of which everything is there.
    fn verified(&self) -> Vec<Listed> {
        let catalog = Catalog::new(self.target(), Arc::new(ManualClock::new(0)));
        let listed = catalog.list().unwrap().backups;
        for backup in &listed {
            let mut verify = catalog.verify(backup.clone());
            while !verify.step().unwrap() {}
        }
        listed
    }
}

/// A write of a client.
#[derive(Clone, Copy, Debug)]
struct Write {
    id: OperationId,
    key: u64,
    action: Action,
    /// In true time.
    began_ms: u64,
    /// When it was acknowledged, and with which version.
    acknowledged: Option<(u64, Timestamp)>,
}

/// Clients that write to their own keys, one write after another.
#[derive(Default)]
struct Clients {
    writes: RefCell<Vec<Write>>,
    is_over: Cell<bool>,
}

fn true_ms(world: &World) -> u64 {
    let clock = &world.hosts[0].clock;
    clock.unix_ms().saturating_add_signed(-clock.skew_ms())
}

impl Clients {
    fn start(world: &Rc<World>, dice: &Dice) -> Rc<Self> {
        let clients = Rc::new(Self::default());
        for client in 0..CLIENTS {
            let (world, clients, dice) = (Rc::clone(world), Rc::clone(&clients), dice.fork());
            spawn_local(async move {
                while !clients.is_over.get() {
                    clients.write(&world, client, &dice).await;
                    sleep(Duration::from_millis(dice.below(8))).await;
                }
            });
        }
        clients
    }

    async fn write(&self, world: &World, client: u64, dice: &Dice) {
        let key = dice.below(KEYS / CLIENTS) * CLIENTS + client;
        let action = match dice.below(10) {
            0..=2 => Action::Delete,
            3 => Action::Put {
                ttl_seconds: Some(7 * 24 * 3600),
            },
            _ => Action::Put { ttl_seconds: None },
        };
        let request = Request {
            client: client as usize,
            node: dice.place(world.scenario.nodes),
            key,
            action,
            ack: 2,
            from: 3,
        };
        let write = Write {
            id: OperationId(world.history.borrow().operations().len()),
            key,
            action,
            began_ms: true_ms(world),
            acknowledged: None,
        };
        let place = self.writes.borrow().len();
        self.writes.borrow_mut().push(write);
        let outcome = world.ask(request, Duration::from_secs(2)).await;
        if let Some(Outcome::Written { version, .. }) = outcome {
            let told = (true_ms(world), version);
            self.writes.borrow_mut()[place].acknowledged = Some(told);
        }
    }

    fn acknowledged(&self) -> usize {
        let writes = self.writes.borrow();
        let acknowledged = writes.iter().filter(|it| it.acknowledged.is_some());
        acknowledged.count()
    }

    /// Lets them write for a while.
    async fn go_on(&self, writes: usize) {
        let before = self.acknowledged();
        until("clients write", || self.acknowledged() >= before + writes).await;
    }

    /// Checks what was restored of a cut at this moment, in true time.
    fn check(&self, cut_ms: u64, restored: &BTreeMap<u64, Entry>) {
        let writes = self.writes.borrow();
        for key in 0..KEYS {
            let of_key = || writes.iter().filter(move |write| write.key == key);
            let told = of_key().filter_map(|write| write.acknowledged);
            let before = told.filter(|(ms, _)| *ms < cut_ms);
            let least = before.map(|(_, version)| version).max();
            let held = restored.get(&key);
            let version = held.map(Entry::timestamp);
            assert!(
                version >= least,
                "key {key}: {version:?} instead of {least:?}"
            );
            let Some(held) = held else { continue };
            let id = match value::read(held.value_bytes()) {
                Content::Value(id) if held.kind() == Kind::Value => Some(id),
                _ => None,
            };
            let may_be = |write: &&Write| {
                write.began_ms <= cut_ms
                    && match (id, write.action) {
                        (Some(id), Action::Put { .. }) => write.id == id,
                        (None, Action::Delete) => held.kind() == Kind::Tombstone,
                        _ => false,
                    }
            };
            let found = of_key().find(may_be);
            assert!(found.is_some(), "{held:?} was not written before {cut_ms}");
        }
    }
}

/// A world of nodes that share a folder.
async fn world_with(folder: &SharedFolder, scenario: Scenario, dice: &Dice) -> Rc<World> {
    let world = World::of(scenario, dice);
    for host in &world.hosts {
        host.mount(Arc::clone(&folder.faulty) as _);
    }
    begin(&world).await;
    world
}

/// Orders a backup, and waits for its end.
async fn back_up(
    world: &World,
    coordinator: HostNumber,
    missing_max: usize,
) -> Result<Listed, String> {
    let host = &world.hosts[coordinator];
    let ordered = host.order_backup(missing_max).ok_or("it does not run")?;
    let ordered = ordered.answer.await.map_err(|error| error.to_string())?;
    let number = ordered?;
    let began = Instant::now();
    while began.elapsed() < BACKUP_MAX {
        if let Some(end) = host.backup_end(number) {
            return end.result;
        }
        if host.is_voter().is_none() {
            return Err("the coordinator has ended".to_owned());
        }
        sleep(LOOK_PERIOD).await;
    }
    panic!("the backup does not end");
}

/// The moment of a cut in true time.
fn cut_ms(world: &World, coordinator: HostNumber, backup: &BackupContents) -> u64 {
    let skew_ms = world.skews_ms[coordinator];
    backup.cut_unix_ms.saturating_add_signed(-skew_ms)
}

/// Restores a backup to a new cluster, whose clocks are behind, and starts it.
async fn restored(
    folder: &SharedFolder,
    backup: &Listed,
    nodes: usize,
    dice: &Dice,
) -> (Rc<World>, BTreeMap<u64, Entry>) {
    restored_with(folder, backup, nodes, dice, &|_| ()).await
}

/// The same, where something is done to each restored folder.
async fn restored_with(
    folder: &SharedFolder,
    backup: &Listed,
    nodes: usize,
    dice: &Dice,
    change: &dyn Fn(&MemoryDisk),
) -> (Rc<World>, BTreeMap<u64, Entry>) {
    let world = World::of(scenario(nodes), dice);
    let members = names(nodes);
    for (number, host) in world.hosts.iter().enumerate() {
        let disk = Arc::new(MemoryDisk::new());
        let restore = Restore {
            target: folder.target(),
            backup: Some(backup.id.clone()),
            members: members.clone(),
            own: members[number].clone(),
            purpose: String::new(),
            folder: FOLDER.into(),
            disk: Arc::clone(&disk) as _,
            random: Arc::new(SeededRandom::new(dice.next())),
            clock: Arc::clone(&host.clock) as _,
        };
        let restored = restore.run(&mut |_, _| {}).unwrap();
        let old = &backup.contents;
        let is_there = old.nodes.iter().any(|node| node.name == members[number]);
        let is_same = old.members.len() == nodes && is_there;
        assert_eq!(restored.same_nodes, is_same);
        change(&disk);
        host.replace_disk(Copy::synced(&disk));
        host.clock.set_skew_ms(-(SKEW_MS_MAX as i64));
    }
    begin(&world).await;
    let mut newest = BTreeMap::new();
    for key in 0..KEYS {
        let held = world
            .hosts
            .iter()
            .filter_map(|host| host.held(key).unwrap());
        if let Some(entry) = held.max_by_key(|entry| entry.timestamp()) {
            newest.insert(key, entry);
        }
    }
    (world, newest)
}

/// Checks that clients of a restored cluster read what it holds, and write above it.
async fn check_restored(world: &World, newest: &BTreeMap<u64, Entry>, greatest: Timestamp) {
    let nodes = world.scenario.nodes;
    // What only one replica had when it was cut may be read or not, unless all are asked.
    let (ack, from) = (nodes.min(3) as u8, nodes.min(3) as u8);
    for key in 0..KEYS {
        let request = |action| Request {
            client: 0,
            node: key as usize % nodes,
            key,
            action,
            ack,
            from,
        };
        let get = world
            .ask(request(Action::Get), Duration::from_secs(9))
            .await;
        let Some(Outcome::Found {
            version, content, ..
        }) = get
        else {
            panic!("a read failed: {get:?}");
        };
        // A node alone drops tombstones at once.
        let live = newest.get(&key).filter(|it| it.kind() == Kind::Value);
        let expected = live.map_or(Content::Absent, |live| value::read(live.value_bytes()));
        assert_eq!(content, expected, "key {key}");
        if let Some(live) = live {
            assert_eq!(version, Some(live.timestamp()), "key {key}");
        }
        let put = request(Action::Put { ttl_seconds: None });
        let put = world.ask(put, Duration::from_secs(9)).await;
        let Some(Outcome::Written { version, .. }) = put else {
            panic!("a write failed: {put:?}");
        };
        assert!(version > greatest, "{version} is not above {greatest}");
    }
}

fn end(world: &World) {
    for host in &world.hosts {
        host.crash(Crash::Kill);
    }
}

#[test]
fn a_cut_under_load_has_all_that_was_acknowledged_before_and_nothing_that_began_after() {
    for seed in SEEDS {
        simulate(async {
            let (folder, dice) = (SharedFolder::new(), Dice::new(seed));
            let world = world_with(&folder, scenario(3), &dice).await;
            let clients = Clients::start(&world, &dice);
            clients.go_on(60).await;
            let coordinator = dice.place(3);
            let backup = back_up(&world, coordinator, 0).await.unwrap();
            clients.go_on(60).await;
            clients.is_over.set(true);
            let cut_ms = cut_ms(&world, coordinator, &backup.contents);
            assert!((BEGIN_UNIX_MS..true_ms(&world)).contains(&cut_ms));
            end(&world);
            assert_eq!(folder.verified(), std::slice::from_ref(&backup));
            let greatest = Timestamp::from_u64(backup.contents.greatest_timestamp);
            let (same, expected) = restored(&folder, &backup, 3, &dice).await;
            clients.check(cut_ms, &expected);
            assert!(expected.values().any(|held| held.kind() == Kind::Tombstone));
            check_restored(&same, &expected, greatest).await;
            end(&same);
            for nodes in [1, 2, 5] {
                let (other, newest) = restored(&folder, &backup, nodes, &dice).await;
                assert_eq!(newest.len(), expected.len(), "{nodes} nodes");
                for (key, entry) in &newest {
                    let old = &expected[key];
                    let of = |entry: &Entry| {
                        let value = entry.value_bytes().to_vec();
                        (entry.timestamp(), entry.kind(), entry.expiry(), value)
                    };
                    assert_eq!(of(entry), of(old), "key {key} on {nodes} nodes");
                    let copies = old.copies().min(nodes as u8);
                    assert_eq!(entry.copies(), copies, "key {key} on {nodes} nodes");
                }
                check_restored(&other, &expected, greatest).await;
                end(&other);
            }
        });
    }
}

#[test]
fn restored_nodes_begin_with_the_gc_threshold_of_their_backup() {
    const GC_THRESHOLD: u64 = 7;
    simulate(async {
        let (folder, dice) = (SharedFolder::new(), Dice::new(3));
        let world = world_with(&folder, scenario(3), &dice).await;
        let backup = back_up(&world, 0, 0).await.unwrap();
        assert_eq!(backup.contents.gc_threshold, 0);
        end(&world);
        // As if a full repair had raised it before.
        let raise = |disk: &MemoryDisk| {
            let path = Path::new(FOLDER).join("RESTORED");
            let file = disk.open(&path).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let (from, to) = (
                "\"gc_threshold\":0",
                format!("\"gc_threshold\":{GC_THRESHOLD}"),
            );
            assert!(text.contains(from), "{text}");
            let text = text.replace(from, &to);
            let folder = Path::new(FOLDER);
            lsm::disk::replace_file(disk, folder, "RESTORED", text.as_bytes()).unwrap();
        };
        let (world, _) = restored_with(&folder, &backup, 3, &dice, &raise).await;
        for host in &world.hosts {
            let status = host.gc_status().unwrap();
            assert_eq!(status.gc_threshold.as_u64(), GC_THRESHOLD);
            assert_eq!(status.closed.as_u64(), GC_THRESHOLD);
            assert_eq!(host.is_voter(), Some(true));
        }
        end(&world);
    });
}

#[test]
fn a_backup_that_a_crash_cuts_off_anywhere_is_none_and_the_next_one_is_whole() {
    let (mut cut_off, mut whole) = (0, 0);
    for seed in SEEDS {
        simulate(async {
            let (folder, dice) = (SharedFolder::new(), Dice::new(seed));
            let world = world_with(&folder, scenario(3), &dice).await;
            let clients = Clients::start(&world, &dice);
            clients.go_on(30).await;
            let good = back_up(&world, dice.place(3), 0).await.unwrap();
            clients.go_on(30).await;
            let (coordinator, victim) = (dice.place(3), dice.place(3));
            let how = *dice.pick(&[Crash::Kill, Crash::PowerCut]);
            let after = Duration::from_millis(dice.below(3_000));
            let crashing = spawn_local({
                let (world, clients) = (Rc::clone(&world), Rc::clone(&clients));
                async move {
                    sleep(after).await;
                    world.hosts[victim].crash(how);
                    // A minute of silence is waited for.
                    clients.is_over.set(true);
                }
            });
            let result = back_up(&world, coordinator, 0).await;
            crashing.await.unwrap();
            let listed = folder.verified();
            assert!(listed.contains(&good), "{listed:?}");
            match &result {
                Ok(backup) => {
                    assert!(listed.contains(backup), "{listed:?}");
                    whole += 1;
                }
                Err(_) => cut_off += 1,
            }
            // The coordinator may have ended after it was complete, and before it said so.
            assert!(listed.len() == 2 || result.is_err(), "{result:?}");
            world.start(victim);
            let is_back = || world.hosts.iter().all(|it| it.is_voter() == Some(true));
            until("all stores count", is_back).await;
            let coordinator = dice.place(3);
            let last = retried(&world, coordinator).await;
            let cut_ms = cut_ms(&world, coordinator, &last.contents);
            end(&world);
            assert_eq!(folder.verified()[0], last);
            let (same, expected) = restored(&folder, &last, 3, &dice).await;
            clients.check(cut_ms, &expected);
            end(&same);
            let (old, _) = restored(&folder, &good, 3, &dice).await;
            end(&old);
        });
    }
    assert!(cut_off > 0 && whole > 0, "{cut_off} {whole}");
}

/// Backs up, if need be several times: a node may still keep what was frozen for a coordinator
/// that is gone.
async fn retried(world: &World, coordinator: HostNumber) -> Listed {
    for _ in 0..20 {
        match back_up(world, coordinator, 0).await {
            Ok(backup) => return backup,
            Err(_) => sleep(Duration::from_secs(10)).await,
        }
    }
    panic!("there is no backup after the crash");
}

#[test]
fn a_node_that_is_down_or_frozen_is_missing() {
    for is_frozen in [false, true] {
        simulate(async move {
            const AWAY: HostNumber = 2;
            let (folder, dice) = (SharedFolder::new(), Dice::new(1));
            let world = world_with(&folder, scenario(3), &dice).await;
            let clients = Clients::start(&world, &dice);
            clients.go_on(30).await;
            if is_frozen {
                world.hosts[AWAY].freeze();
            } else {
                world.hosts[AWAY].crash(Crash::Kill);
            }
            let refused = back_up(&world, 0, 0).await.unwrap_err();
            assert!(refused.contains("node-2: "), "{refused}");
            assert!(folder.verified().is_empty());
            let backup = back_up(&world, 0, 1).await.unwrap();
            assert_eq!(backup.contents.missing, ["node-2"]);
            assert_eq!(backup.contents.nodes.len(), 2);
            clients.is_over.set(true);
            let cut_ms = cut_ms(&world, 0, &backup.contents);
            end(&world);
            let (world, newest) = restored(&folder, &backup, 3, &dice).await;
            clients.check(cut_ms, &newest);
            let greatest = Timestamp::from_u64(backup.contents.greatest_timestamp);
            check_restored(&world, &newest, greatest).await;
            end(&world);
        });
    }
}

#[test]
fn a_target_that_is_full_or_away_harms_no_backup_and_holds_no_writes_up() {
    for is_full in [true, false] {
        simulate(async move {
            let (folder, dice) = (SharedFolder::new(), Dice::new(2));
            let world = world_with(&folder, scenario(3), &dice).await;
            let clients = Clients::start(&world, &dice);
            clients.go_on(30).await;
            let good = back_up(&world, 0, 0).await.unwrap();
            clients.go_on(30).await;
            if is_full {
                let room = 1_000 + dice.below(3_000);
                folder.disk.set_capacity(folder.disk.used_bytes() + room);
            } else {
                let fault = Fault::at(dice.below(12), io::ErrorKind::TimedOut);
                folder.faulty.arm(fault.lasting());
            }
            let before = clients.acknowledged();
            let refused = back_up(&world, 1, 0).await.unwrap_err();
            assert!(refused.contains("the target cannot"), "{refused}");
            // A target that is away is noticed at once.
            assert!(!is_full || clients.acknowledged() > before + 100);
            folder.disk.set_capacity(u64::MAX);
            folder.faulty.heal();
            assert_eq!(folder.verified(), [good]);
            let next = retried(&world, 1).await;
            assert_eq!(folder.verified()[0], next);
            clients.is_over.set(true);
            end(&world);
        });
    }
}

#[test]
fn two_coordinators_at_once_make_whole_backups_or_none() {
    for seed in SEEDS {
        simulate(async {
            let (folder, dice) = (SharedFolder::new(), Dice::new(seed));
            let world = world_with(&folder, scenario(3), &dice).await;
            let clients = Clients::start(&world, &dice);
            clients.go_on(30).await;
            let other = spawn_local({
                let (world, pause) = (Rc::clone(&world), dice.below(200));
                async move {
                    sleep(Duration::from_millis(pause)).await;
                    (1, back_up(&world, 1, 0).await)
                }
            });
            let one = (0, back_up(&world, 0, 0).await);
            let other = other.await.unwrap();
            clients.is_over.set(true);
            let made = [one, other].into_iter();
            let made = made.filter_map(|(node, made)| Some((node, made.ok()?)));
            let made: Vec<(HostNumber, Listed)> = made.collect();
            assert!(!made.is_empty(), "none of the two was made");
            sleep(LOOK_PERIOD).await;
            end(&world);
            assert_eq!(folder.verified().len(), made.len());
            for (coordinator, backup) in made {
                let cut_ms = cut_ms(&world, coordinator, &backup.contents);
                let (world, newest) = restored(&folder, &backup, 3, &dice).await;
                clients.check(cut_ms, &newest);
                end(&world);
            }
        });
    }
}
