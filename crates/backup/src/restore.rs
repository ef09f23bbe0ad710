//! Makes the store of one node of a new cluster of a backup. The node does not run meanwhile.
//!
//! - **The same nodes.** If the new cluster has nodes of the same names, and the backup has the
//!   store of this one, keys lie where they lay: the node gets its own tables as they are.
//! - **Other nodes.** Otherwise keys move. The node opens the store of each node of the backup, one
//!   after another, and takes over the versions of which it is a replica now: of each key the
//!   newest. A version that was written for more copies than there are nodes is for all of them.
//!   That takes room for the largest of those stores beside the new one.
//!
//! **What was deleted stays so.** Below the GC threshold of the backup tombstones may be gone. Then the
//! replicas of a version have it or a newer one, or it was deleted; a copy on another node says
//! nothing. So where keys move, such a copy is left behind if the backup has the store of a replica.
//! Where they stay, the node begins with that threshold, below which it sends nobody what the other
//! lacks.
//!
//! The file `RESTORING` is there from the begin to the end, and no node starts with it: a part of
//! a store must not count. At the end it is renamed to `RESTORED`. A restore that was cut off is
//! repeated; it keeps the tables that are complete.

use crate::catalog::{Catalog, Listed, read_nodes};
use crate::contents::{BackupContents, NodeContents, TableContents};
use crate::error::BackupError;
use crate::layout::{self, BackupId, FORMAT, hash_of, hex};
use crate::pieces::Pieces;
use crate::target::Target;
use base::{Clock, Entry, Random, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{NodeId, Placement};
use lsm::disk::{read_small_file, replace_file};
use lsm::{Admission, Disk, Engine, Environment, Executor, Job, JobClass, Options, RestoredStore};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The file of a folder whose restore is under way or was cut off.
pub const RESTORING_FILE: &str = "RESTORING";

/// The file of a folder that was restored.
const RESTORED_FILE: &str = "RESTORED";

/// Where the stores of the backup are opened, below the folder.
const SCRATCH: &str = "restore";

/// The longest of those two files, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// How many bytes of keys and values are taken over at once.
const BATCH_BYTES: usize = 4 << 20;

/// What is to be restored, and where.
pub struct Restore {
    /// Where the backup lies.
    pub target: Arc<dyn Target>,
    /// Which; the newest if none is named.
    pub backup: Option<BackupId>,
    /// The names of all nodes of the new cluster.
    pub members: Vec<String>,
    /// That of this one.
    pub own: String,
    /// What tells this restore from others of the same backup: the same text on all of its nodes, and
    /// another one elsewhere or later.
    pub purpose: String,
    /// Its data folder: empty, or that of a restore of this backup that was cut off.
    pub folder: PathBuf,
    /// The disk of the folder.
    pub disk: Arc<dyn Disk>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The backup.
    pub backup: Listed,
    /// The number of the new cluster: the same on all of its nodes.
    pub cluster: u64,
    /// Whether the node got its own tables as they are.
    pub same_nodes: bool,
    /// What was read from the target, in bytes.
    pub read_bytes: u64,
    /// Versions that were taken over; only if keys moved.
    pub versions: u64,
}

/// The content of `RESTORING` and `RESTORED`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RestoredFile {
    /// The version of the format.
    format: u32,
    /// The name of the backup.
    backup: String,
    /// The number of the cluster.
    cluster: u64,
    /// The GC threshold of the backup.
    gc_threshold: u64,
}

/// What a folder was restored for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredFolder {
    /// The number of the cluster.
    pub cluster: u64,
    /// The GC threshold with which the store begins: below it all stores of the cluster are equal, but
    /// for what is dead.
    pub gc_threshold: Timestamp,
}

/// What this folder was restored for; `None` if it was not restored.
///
/// # Errors
/// [`BackupError::Invalid`] if its restore was cut off; those of the disk.
pub fn restored_folder(
    disk: &dyn Disk,
    folder: &Path,
) -> Result<Option<RestoredFolder>, BackupError> {
    if read_file(disk, folder, RESTORING_FILE)?.is_some() {
        return Err(BackupError::Invalid(format!(
            "the restore of {} was cut off: repeat `kvorum restore`",
            folder.display()
        )));
    }
    let restored = read_file(disk, folder, RESTORED_FILE)?;
    Ok(restored.map(|restored| RestoredFolder {
        cluster: restored.cluster,
        gc_threshold: Timestamp::from_u64(restored.gc_threshold),
    }))
}

fn read_file(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
) -> Result<Option<RestoredFile>, BackupError> {
    let path = folder.join(name);
    let Some(bytes) = read_small_file(disk, &path, FILE_BYTES_MAX)? else {
        return Ok(None);
    };
    let object = path.display().to_string();
    let decoded: Result<RestoredFile, _> = serde_json::from_slice(&bytes);
    let file = decoded.map_err(|error| BackupError::damaged(&object, error.to_string()))?;
    match file.format {
        FORMAT => Ok(Some(file)),
        format => Err(BackupError::Newer { object, format }),
    }
}

impl Restore {
    /// Restores the store. `progress` is told how many bytes are there, and of how many. Blocks.
    ///
    /// # Errors
    /// [`BackupError::Invalid`] for a folder with something else in it; [`BackupError::NotFound`],
    /// [`BackupError::Damaged`]; those of the target and the disk. The restore can be repeated.
    pub fn run(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Restored, BackupError> {
        let own = self.members.iter().position(|name| *name == self.own);
        let own = own.and_then(|own| u8::try_from(own).ok());
        let Some(own) = own.map(NodeId::new) else {
            let text = format!("{} is none of the nodes of the new cluster", self.own);
            return Err(BackupError::Invalid(text));
        };
        let catalog = Catalog::new(Arc::clone(&self.target), Arc::clone(&self.clock));
        let backup = catalog.find(self.backup.as_ref())?;
        let nodes = read_nodes(&*self.target, &backup)?;
        let nodes: Vec<NodeContents> = nodes.into_iter().map(|(_, node)| node).collect();
        let file = RestoredFile {
            format: FORMAT,
            backup: backup.id.to_string(),
            cluster: self.cluster_number(&backup.id),
            gc_threshold: backup.contents.gc_threshold,
        };
        self.begin(&file)?;
        let mut run = Run {
            restore: self,
            greatest: Timestamp::from_u64(backup.contents.greatest_timestamp),
            read_bytes: 0,
            done_bytes: 0,
            bytes: 0,
            progress,
        };
        let mut old = backup.contents.members.clone();
        let mut new = self.members.clone();
        old.sort_unstable();
        new.sort_unstable();
        let own_tables = nodes.iter().find(|node| node.name == self.own);
        // A new cluster begins without zones.
        let is_same = old == new && backup.contents.zones.is_empty();
        let same_nodes = own_tables.filter(|_| is_same);
        let bytes_of = |node: &NodeContents| node.tables.iter().map(|it| it.bytes).sum::<u64>();
        run.bytes = same_nodes.map_or_else(|| nodes.iter().map(bytes_of).sum(), bytes_of);
        let versions = match same_nodes {
            Some(node) => {
                run.fetch(node, &self.folder)?;
                0
            }
            None => run.take_over(&backup.contents, &nodes, own)?,
        };
        let read_bytes = run.read_bytes;
        self.end()?;
        Ok(Restored {
            backup,
            cluster: file.cluster,
            same_nodes: same_nodes.is_some(),
            read_bytes,
            versions,
        })
    }

    /// Checks the folder, and notes that its restore has begun.
    fn begin(&self, file: &RestoredFile) -> Result<(), BackupError> {
        let (disk, folder) = (&*self.disk, &self.folder);
        disk.create_folder(folder)
            .map_err(|error| lsm::Error::io("create", folder, error))?;
        disk.check_folder(folder)
            .map_err(|error| lsm::Error::io("use", folder, error))?;
        match read_file(disk, folder, RESTORING_FILE)? {
            Some(begun) if begun == *file => {}
            Some(begun) => {
                return Err(BackupError::Invalid(format!(
                    "{} holds a part of the backup {}: restore that, or empty the folder",
                    folder.display(),
                    begun.backup
                )));
            }
            None if list(disk, folder)?.is_empty() => {}
            None => {
                return Err(BackupError::Invalid(format!(
                    "{} is not empty: a restore makes a new store in an empty folder",
                    folder.display()
                )));
            }
        }
        let encoded = serde_json::to_vec(file);
        let encoded = encoded.map_err(|error| BackupError::Invalid(error.to_string()))?;
        replace_file(disk, folder, RESTORING_FILE, &encoded)?;
        Ok(())
    }

    fn end(&self) -> Result<(), BackupError> {
        let (from, to) = (RESTORING_FILE, RESTORED_FILE);
        let (from, to) = (self.folder.join(from), self.folder.join(to));
        self.disk
            .rename(&from, &to)
            .map_err(|error| lsm::Error::io("rename", &from, error))?;
        self.disk
            .sync_folder(&self.folder)
            .map_err(|error| lsm::Error::sync(&self.folder, error))?;
        Ok(())
    }

    /// The number of the cluster that this backup is restored to. All of its nodes find the same
    /// without asking each other.
    fn cluster_number(&self, backup: &BackupId) -> u64 {
        let mut names = self.members.clone();
        names.sort_unstable();
        let text = format!("{backup} {} {}", names.join(" "), self.purpose);
        let hash = hash_of(text.as_bytes());
        let number = hash.iter().take(8);
        // 0 is no number.
        number
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
            .max(1)
    }
}

fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>, BackupError> {
    let names = disk.list(folder);
    Ok(names.map_err(|error| lsm::Error::io("list", folder, error))?)
}

/// A restore under way.
struct Run<'a> {
    restore: &'a Restore,
    greatest: Timestamp,
    read_bytes: u64,
    /// What is there, and of how much.
    done_bytes: u64,
    bytes: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Run<'_> {
    /// Makes a folder the store of a node of the backup.
    fn fetch(&mut self, node: &NodeContents, folder: &Path) -> Result<(), BackupError> {
        let store = STANDARD.decode(&node.store);
        let store = store.map_err(|error| BackupError::damaged(&node.name, error.to_string()))?;
        let store = RestoredStore::of(&store)?;
        for table in store.tables() {
            let described = node.tables.iter().find(|it| it.number == table.number);
            let described = described.filter(|it| it.bytes == table.bytes);
            let described = described.ok_or_else(|| {
                BackupError::damaged(&node.name, "its store has other tables than it names")
            })?;
            self.fetch_table(described, &RestoredStore::table_path(folder, table))?;
        }
        let restore = self.restore;
        let (disk, random) = (&*restore.disk, &*restore.random);
        store.complete(disk, folder, random, self.greatest)?;
        Ok(())
    }

    /// Writes a table to a file, unless it is there.
    fn fetch_table(&mut self, table: &TableContents, path: &Path) -> Result<(), BackupError> {
        if self.is_fetched(table, path) {
            self.done_bytes += table.bytes;
            return Ok(());
        }
        let name = layout::table(&table.sha256);
        let failed = |error| BackupError::target("read", &name, error);
        let mut reader = self.restore.target.open(&name).map_err(failed)?;
        if reader.bytes() != table.bytes {
            return Err(BackupError::damaged(&name, "it has another length"));
        }
        let unfinished = path.with_extension("tmp");
        let disk = &*self.restore.disk;
        let io = |action| {
            let path = path.to_owned();
            move |error| lsm::Error::io(action, &path, error)
        };
        let file = disk.create_direct(&unfinished).map_err(io("create"))?;
        let mut pieces = Pieces::of(table.bytes);
        while !pieces.is_over() {
            let begin = pieces.offset();
            let piece = pieces.next(|offset, buffer| reader.read(offset, buffer));
            let piece = piece.map_err(failed)?;
            file.write_all_at(piece, begin).map_err(io("write"))?;
            self.read_bytes += piece.len() as u64;
            self.done_bytes += piece.len() as u64;
            (self.progress)(self.done_bytes, self.bytes);
        }
        if hex(&pieces.hash()) != table.sha256 {
            return Err(BackupError::damaged(&name, "its SHA-256 is another"));
        }
        file.sync()
            .map_err(|error| lsm::Error::sync(&unfinished, error))?;
        disk.rename(&unfinished, path).map_err(io("rename"))?;
        Ok(())
    }

    /// Whether a file holds all of a table: an earlier attempt has written it.
    fn is_fetched(&self, table: &TableContents, path: &Path) -> bool {
        let Ok(file) = self.restore.disk.open(path) else {
            return false;
        };
        if file.len().ok() != Some(table.bytes) {
            return false;
        }
        let mut pieces = Pieces::of(table.bytes);
        while !pieces.is_over() {
            let piece = pieces.next(|offset, buffer| file.read_exact_at(buffer, offset));
            if piece.is_err() {
                return false;
            }
        }
        // What an earlier attempt has written may not be durable.
        hex(&pieces.hash()) == table.sha256 && file.sync().is_ok()
    }

    /// Takes over the versions of which this node is a replica. Returns how many.
    fn take_over(
        &mut self,
        backup: &BackupContents,
        nodes: &[NodeContents],
        own: NodeId,
    ) -> Result<u64, BackupError> {
        let folder = self.restore.folder.clone();
        let scratch = folder.join(SCRATCH);
        // What an earlier attempt has taken over is not known.
        self.empty(&folder)?;
        let (disk, random) = (&*self.restore.disk, &*self.restore.random);
        RestoredStore::empty().complete(disk, &folder, random, self.greatest)?;
        let (new, _) = Engine::open(self.environment(&folder), options())?;
        let placement = Placement::new(self.restore.members.iter().map(String::as_str));
        let count = u8::try_from(self.restore.members.len()).unwrap_or(u8::MAX);
        let collected = Collected::of(backup, nodes);
        let mut versions = 0;
        for node in nodes {
            let of_node = collected.on(&node.name);
            disk.create_folder(&scratch)
                .map_err(|error| lsm::Error::io("create", &scratch, error))?;
            self.empty(&scratch)?;
            self.fetch(node, &scratch)?;
            let (old, _) = Engine::open(self.environment(&scratch), options())?;
            let mut ingest = new.begin_ingest(Admission::Ordinary)?;
            let mut scan = old.scan(&[], None).for_comparison(Timestamp::ZERO);
            loop {
                let batch = scan.next_batch(BATCH_BYTES)?;
                if batch.is_empty() {
                    break;
                }
                for entry in batch {
                    let copies = entry.copies().min(count);
                    if !placement.is_replica(own, entry.key(), copies) || of_node(&entry) {
                        continue;
                    }
                    let known = new.get(entry.key())?;
                    if known.is_some_and(|known| known.rank() >= entry.rank()) {
                        continue;
                    }
                    ingest.push(&with_copies(entry, copies))?;
                    versions += 1;
                }
            }
            drop(scan);
            // Behind damage may lie what it hid.
            if old.damage_met() > 0 {
                let what = "a part of one of its tables was damaged before it was stored";
                return Err(BackupError::damaged(&node.name, what));
            }
            ingest.commit()?;
            old.close()?;
        }
        new.close()?;
        if !nodes.is_empty() {
            self.empty(&scratch)?;
        }
        Ok(versions)
    }

    /// Removes all files of a folder but the one that says that it is being restored.
    fn empty(&self, folder: &Path) -> Result<(), BackupError> {
        let disk = &*self.restore.disk;
        for name in list(disk, folder)? {
            if name != RESTORING_FILE {
                let path = folder.join(name);
                disk.remove(&path)
                    .map_err(|error| lsm::Error::io("remove", &path, error))?;
            }
        }
        Ok(())
    }

    fn environment(&self, folder: &Path) -> Environment {
        Environment {
            folder: folder.to_owned(),
            disk: Arc::clone(&self.restore.disk),
            clock: Arc::clone(&self.restore.clock),
            random: Arc::clone(&self.restore.random),
            executor: Arc::new(NoJobs),
            gc_threshold: Arc::new(|| Timestamp::ZERO),
            non_owned: None,
            expired_before_unix_ms: Arc::new(|| 0),
            rest_after: Arc::new(|_, _| Duration::ZERO),
        }
    }
}

/// Which copies of a backup say nothing, because a version that they had may have been deleted, and its
/// tombstone collected.
struct Collected {
    placement: Placement,
    members: Vec<String>,
    /// Which of the members the backup has the stores of.
    present: Vec<bool>,
    gc_threshold: Timestamp,
}

impl Collected {
    fn of(backup: &BackupContents, nodes: &[NodeContents]) -> Self {
        let members = backup.members.clone();
        let is_there = |name: &String| nodes.iter().any(|node| node.name == *name);
        Self {
            placement: Placement::listed(members.iter().zip(0..).map(|(name, id)| {
                let zone = backup.zones.get(name).map(String::as_str);
                (NodeId::new(id), name.as_str(), zone)
            })),
            present: members.iter().map(is_there).collect(),
            members,
            gc_threshold: Timestamp::from_u64(backup.gc_threshold),
        }
    }

    /// Those in the store of a node.
    fn on(&self, node: &str) -> impl Fn(&Entry) -> bool {
        let position = self.members.iter().position(|name| name == node);
        let node = position
            .and_then(|it| u8::try_from(it).ok())
            .map(NodeId::new);
        move |entry| {
            if entry.timestamp() >= self.gc_threshold {
                return false;
            }
            let replicas = self.placement.preference_list(entry.key(), entry.copies());
            let is_present = |id: &NodeId| self.present.get(id.index()) == Some(&true);
            node.is_none_or(|node| !replicas.contains(&node)) && replicas.iter().any(is_present)
        }
    }
}

fn with_copies(entry: Entry, copies: u8) -> Entry {
    if entry.copies() == copies {
        return entry;
    }
    let (key, value) = (entry.key(), entry.value_bytes());
    let (timestamp, kind, expiry) = (entry.timestamp(), entry.kind(), entry.expiry());
    Entry::new(key, timestamp, kind, value, expiry, copies)
}

/// Those of a store that is written once: nothing is compacted.
fn options() -> Options {
    Options {
        compaction: false,
        ..Options::default()
    }
}

/// Drops all jobs: whatever a restore does, it does on its own thread.
struct NoJobs;

impl Executor for NoJobs {
    fn spawn(&self, _class: JobClass, _delay: Duration, _job: Job) {}
}
