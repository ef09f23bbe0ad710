//! Opening a store: the manifest, the tables, the log, in this order. Afterwards
//! nothing is left that a crash interrupted.

pub(super) mod log;
pub(super) mod restored;
pub(super) mod tables;

use super::background::folder_lock::FolderLock;
use super::background::{Background, EngineJob};
use super::compaction::{Compactor, drop_above};
use super::core::Core;
use super::core::log::Log;
use super::counters::Counters;
use super::counters::acknowledged::AcknowledgedCounter;
use super::flush::Flusher;
use super::health::Health;
use super::health::full_disk::{FullDisk, RoomWatch};
use super::snapshots::Snapshots;
use super::snapshots::frozen::FrozenMemtables;
use super::snapshots::held_scans::HeldScans;
use super::store::Store;
use super::table_set::changes::Changes;
use super::table_set::damage::Damage;
use super::table_set::{Flushed, NotedRange, ReadState, TableFiles, TableSet, tell_tables};
use super::writes::closed_timestamp::ClosedTimestamp;
use super::writes::ingests_under_way::Ingests;
use super::writes::promises::Promises;
use super::writes::queue::WriteQueue;
use super::writes::write_rate::WriteRate;
use crate::cache::BlockCache;
use crate::disk::{Disk, FileCache};
use crate::error::Error;
use crate::manifest::{LogClaim, Manifest, ManifestLog, ReadManifest, kept_tables};
use crate::memtable::Memtable;
use crate::options::{Environment, Options};
use crate::record::Record;
use crate::table_id::parse_table_file_name;
use crate::wal::{FreeSegments, SegmentSpace, remove_segment, segment_of_file_name};
use log::{LogStart, read_log};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tables::open_tables;

/// What opening a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Entries replayed from the log.
    pub entries_replayed: u64,
    /// Bytes of a torn tail of the log that were dropped. They were never synced.
    pub torn_bytes: u64,
    /// Files that an interrupted write had left, and that were removed.
    pub orphans_removed: u64,
    /// Live tables that did not open. What they held is missing, as damaged ranges.
    pub tables_lost: u64,
    /// Versions above [`Options::drop_versions_above`] that were dropped.
    pub versions_dropped: u64,
}

impl Store {
    pub(super) fn open(
        environment: Environment,
        options: Options,
    ) -> Result<(Arc<Self>, RecoveryReport), Error> {
        let Environment { folder, disk, .. } = &environment;
        disk.create_folder(folder)
            .map_err(|error| Error::io("create", folder, error))?;
        disk.check_folder(folder)
            .map_err(|error| Error::io("use", folder, error))?;
        let folder_lock = disk
            .lock(folder)
            .map_err(|error| Error::io("lock", folder, error))?
            .ok_or_else(|| Error::Locked {
                folder: folder.clone(),
            })?;
        let mut report = RecoveryReport::default();
        let ReadManifest {
            mut manifest,
            is_durable,
        } = load_manifest(&environment)?;
        // This gives the reserve back, whose room the next steps may need.
        let full_disk = FullDisk::open(&environment, &options)?;
        let names = list(&**disk, folder)?;
        let log_secret = manifest.log_secret();

        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let mut orphans = find_orphans(folder, &names, &manifest);
        let open_files = FileCache::new(Arc::clone(disk), options.open_files_max);
        let tables = open_tables(&open_files, folder, &mut manifest, &cache)?;
        report.tables_lost = tables.lost;
        let tables = tables.tables;
        // Tables may still hold sequence numbers that snapshots of an earlier run
        // needed. Adding 1 cannot overflow: `TableProperties::check` bounds them.
        let mut next_sequence = 1 + tables
            .iter()
            .map(|(_, table)| table.properties().greatest_sequence)
            .max()
            .unwrap_or(0);
        let mut greatest_timestamp = manifest
            .progress
            .greatest_timestamp
            .max(tables.greatest_timestamp());

        let log = read_log(&environment, &names, &manifest, log_secret, &mut report)?;
        let free_segments = Arc::new(FreeSegments::open(
            &environment,
            &options,
            log_secret,
            &names,
            full_disk.room_to_leave_bytes(),
        ));
        let log_start = LogStart {
            environment: &environment,
            secret: log_secret,
            log: &log,
            free_segments: &free_segments,
        };
        let begun = match log_start.begin(options.memtable_bytes as u64) {
            // On a full disk the segment starts empty and grows as it must.
            Err(Error::DiskFull) => {
                free_segments.give_back();
                match log_start.begin(0) {
                    Err(Error::DiskFull) => {
                        // An older manifest, which a crash may bring back, may name them.
                        if is_durable {
                            report.orphans_removed += remove_files(&**disk, orphans.drain(..))?;
                        }
                        log_start
                            .begin(0)
                            .or_else(|error| log_start.resume(error))?
                    }
                    begun => begun?,
                }
            }
            begun => begun?,
        };

        let mut frozen: Vec<Arc<Memtable>> = Vec::new();
        let mut promises = Vec::new();
        let mut obsolete = BTreeMap::new();
        for (number, segment) in log.segments {
            let space = SegmentSpace {
                bytes: segment.end,
                filled_bytes: segment.end,
            };
            obsolete.insert(number, space);
            promises.extend(segment.promises);
            if segment.entries.is_empty() {
                continue;
            }
            let memtable = Memtable::new(number, options.memtable_bytes);
            report.entries_replayed += segment.entries.len() as u64;
            for entry in segment.entries {
                greatest_timestamp = greatest_timestamp.max(entry.timestamp());
                memtable.insert(&Record {
                    sequence: next_sequence,
                    entry,
                });
                next_sequence += 1;
            }
            frozen.push(Arc::new(memtable));
        }
        let newest = |key: &[u8]| {
            let newest = frozen.iter().filter_map(|memtable| memtable.newest(key));
            newest.map(|entry| entry.timestamp()).max()
        };
        let now = environment.clock.monotonic();
        let kept_for = options.newer_version_checks_kept;
        let mut promises = Promises::recovered(promises, newest, kept_for, now);
        let mut begun = begun;
        let kept = promises.logged(now);
        if !kept.is_empty() {
            // The segments that hold them now may be removed below.
            begun.append_promises(&kept)?;
            begun.sync()?;
        }
        let active_segment = begun.segment();
        // The log goes on in the segment of the last memtable if there is no room for another.
        obsolete.remove(&active_segment);
        let active = frozen
            .pop_if(|last| last.segment() == active_segment)
            .unwrap_or_else(|| Arc::new(Memtable::new(active_segment, options.memtable_bytes)));

        let damaged = (1..).zip(manifest.damaged.iter().cloned());
        let damaged = damaged.map(|(number, range)| NotedRange { number, range });
        let state = ReadState {
            damaged: damaged.collect(),
            set_aside: manifest.set_aside.clone().into(),
            active,
            frozen,
            tables: Arc::new(tables),
            flushed: vec![Flushed::before_start(
                environment.clock.monotonic(),
                greatest_timestamp,
            )],
        };
        for (_, table) in state.tables.all() {
            table.set_damaged_parts(state.damaged_parts(table.id()));
        }
        tell_tables(&state.tables, &state.set_aside);
        let progress = &mut manifest.progress;
        progress.least_log_segment = state.least_segment();
        progress.log_claim = progress.log_claim.max(LogClaim {
            segment: active_segment,
            bytes: 0,
        });
        progress.greatest_timestamp = greatest_timestamp;
        let progress = *progress;
        let mut manifest = ManifestLog::new(Arc::clone(disk), folder, manifest);
        let is_stored = match manifest.store() {
            // The one in force names the same store. What it needs stays, and the next edit
            // stores this one.
            Err(Error::DiskFull) => false,
            stored => stored.map(|()| true)?,
        };
        let mut sealed_segments = obsolete;
        if is_stored {
            // The manifest is stored again before this. If an earlier run stored it and
            // the sync failed, a crash may bring back an older manifest, which names
            // tables that are orphans now.
            report.orphans_removed += remove_files(&**disk, orphans.drain(..))?;
            let kept = sealed_segments.split_off(&progress.least_log_segment);
            let obsolete = std::mem::replace(&mut sealed_segments, kept);
            for segment in obsolete.into_keys().chain(log.made_ahead) {
                remove_segment(&**disk, folder, segment)?;
            }
        }
        if !full_disk.try_leave()? {
            free_segments.give_back();
        }

        // All of it is durable: the last segment was synced again above.
        let acknowledged = AcknowledgedCounter::new(
            progress
                .records_before
                .saturating_add(report.entries_replayed),
        );
        let snapshots = Snapshots::default();
        snapshots.publish(next_sequence - 1);
        let log = Log::new(
            &environment,
            &options,
            log_secret,
            begun,
            next_sequence,
            promises,
            Arc::clone(&free_segments),
        );
        let files = TableFiles::new(
            &environment,
            &options,
            open_files,
            cache,
            progress.next_table,
        );
        let tables = TableSet::new(
            &environment,
            &options,
            files,
            manifest,
            state,
            sealed_segments,
            free_segments,
        );
        let executor = Arc::clone(&environment.executor);
        let damage = Damage::new(&tables.load().damaged);
        let compactor = Compactor::new(options.compactions_max);
        let inner = Arc::new(Self {
            core: Core {
                background: Background::new(executor, FolderLock::new(folder_lock)),
                health: Health::new(full_disk),
                queue: WriteQueue::new(&options),
                log,
                closed_timestamp: ClosedTimestamp::new(options.closed_timestamp),
                tables,
                snapshots,
                frozen: FrozenMemtables::default(),
                held_scans: HeldScans::default(),
                changes: Changes::default(),
                damage,
                ingests: Ingests::default(),
                acknowledged,
                write_rate: WriteRate::new(options.memtable_bytes),
                counters: Counters::default(),
                environment,
                options,
            },
            flusher: Flusher::default(),
            compactor,
        });
        let runner: Weak<Self> = Arc::downgrade(&inner);
        inner.core.background.start(runner);
        inner.report_damage();
        if let Some(limit) = inner.core.options.drop_versions_above {
            report.versions_dropped = drop_above(&inner.core, limit)?;
        }
        inner.resume();
        Ok((inner, report))
    }

    /// Has a job note what tables report as damaged from now on.
    fn report_damage(self: &Arc<Self>) {
        let inner = Arc::downgrade(self);
        let wake = move || {
            if let Some(inner) = inner.upgrade() {
                let background = &inner.core.background;
                background.schedule(EngineJob::NoteDamage, Duration::ZERO);
            }
        };
        let files = self.core.tables.files();
        files.cache().damage_reports().start(Box::new(wake));
    }

    /// Resumes the background work of the last run.
    fn resume(&self) {
        let core = &self.core;
        if !core.tables.load().frozen.is_empty() {
            core.schedule_flush(Duration::ZERO);
        }
        core.schedule_compaction(Duration::ZERO);
        if core.health.is_full() {
            tracing::error!(
                folder = %core.environment.folder.display(),
                "the disk has no space for the reserve: puts are refused until there is space"
            );
            core.schedule_room_watch(RoomWatch::new());
        } else {
            core.background
                .schedule(EngineJob::PrepareSegment, Duration::ZERO);
        }
    }
}

/// Loads the manifest in force, or makes one in a folder that holds no store yet.
fn load_manifest(environment: &Environment) -> Result<ReadManifest, Error> {
    let Environment {
        folder,
        disk,
        random,
        ..
    } = environment;
    if let Some(read) = Manifest::load(&**disk, folder)? {
        // The manifest may have got its name just before a crash of the process or a failed
        // sync, and the name may not be durable. Only a durable manifest decides which files
        // may be removed. Until then the durable manifest may be the file that now has the
        // temporary name, so that one must not be written over. The same holds for the other
        // files that are replaced in this folder.
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        return Ok(read);
    }
    let of_a_store = list(&**disk, folder)?
        .into_iter()
        .find(|name| segment_of_file_name(name).is_some() || parse_table_file_name(name).is_some());
    if let Some(name) = of_a_store {
        return Err(Error::corrupt(
            &folder.join(name),
            0,
            "the folder holds this file of a store, but not the store's MANIFEST",
        ));
    }
    let store_id = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let manifest = Manifest::new(store_id);
    manifest.store(&**disk, folder)?;
    Ok(ReadManifest {
        manifest,
        is_durable: true,
    })
}

/// The files that the manifest does not name: tables whose writing or removal was
/// interrupted, and segments whose records are in tables. A temporary file of the
/// manifest is not among them, because the next manifest takes its place.
fn find_orphans(folder: &Path, names: &[String], manifest: &Manifest) -> Vec<PathBuf> {
    let kept = kept_tables(&manifest.set_aside);
    let is_named = |id| kept.contains(&id) || manifest.tables.contains_key(&id);
    let is_orphan = |name: &&String| {
        segment_of_file_name(name)
            .is_some_and(|segment| segment < manifest.progress.least_log_segment)
            || parse_table_file_name(name).is_some_and(|id| !is_named(id))
    };
    let orphans = names.iter().filter(is_orphan);
    orphans.map(|name| folder.join(name)).collect()
}

/// Removes files. Returns how many.
fn remove_files(disk: &dyn Disk, files: impl Iterator<Item = PathBuf>) -> Result<u64, Error> {
    let mut removed = 0;
    for file in files {
        disk.remove(&file)
            .map_err(|error| Error::io("remove", &file, error))?;
        removed += 1;
    }
    Ok(removed)
}

fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>, Error> {
    disk.list(folder)
        .map_err(|error| Error::io("list", folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Engine;
    use crate::manifest::{KeyBounds, LiveTable, Progress};
    use crate::table_id::{TableId, table_file_name};
    use crate::testing::{BlockingWrite, Call, Fault, FaultyDisk, MemoryDisk, environment};
    use base::{Entry, Expiry, Timestamp};
    use std::io;

    /// Opens a store with a manifest that no engine writes, although its checksum is
    /// right: two flushed tables with these keys, on a sorted level.
    fn open_sorted(keys: [[&str; 2]; 2]) -> Result<(), Error> {
        let disk = Arc::new(MemoryDisk::new());
        let options = Options {
            compaction: false,
            ..Options::default()
        };
        let (engine, _) =
            Engine::open(environment(Arc::clone(&disk) as _).0, options.clone()).unwrap();
        for keys in keys {
            for key in keys {
                let key = key.as_bytes();
                let entry = Entry::value(key, Timestamp::from_u64(1), b"v", Expiry::NEVER, 1);
                engine.write(entry).unwrap();
            }
            engine.flush().unwrap();
        }
        engine.close().unwrap();
        let folder = Path::new("/store");
        let mut manifest = Manifest::load(&*disk, folder).unwrap().unwrap().manifest;
        assert_eq!(manifest.tables.len(), 2);
        for table in manifest.tables.values_mut() {
            table.level = 3;
        }
        manifest.store(&*disk, folder).unwrap();
        Engine::open(environment(disk).0, options).map(drop)
    }

    #[test]
    fn orphans_stay_until_the_manifest_is_stored_again() {
        let memory = Arc::new(MemoryDisk::new());
        let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
        let open = || Engine::open(environment(Arc::clone(&disk) as _).0, Options::default());
        open().unwrap().0.close().unwrap();
        let orphan = Path::new("/store").join(table_file_name(TableId(77)));
        memory.create(&orphan).unwrap();
        let is_rename = |call, _: &Path| call == Call::Rename;
        disk.arm(Fault::at(0, io::ErrorKind::Other).only(is_rename));
        open().map(drop).unwrap_err();
        memory.open(&orphan).unwrap();
        let (_engine, report) = open().unwrap();
        assert_eq!(report.orphans_removed, 1);
        memory.open(&orphan).map(drop).unwrap_err();
    }

    #[test]
    fn tables_that_overlap_on_a_sorted_level_stop_the_start() {
        open_sorted([["a", "c"], ["d", "f"]]).unwrap();
        for keys in [
            [["a", "c"], ["b", "d"]],
            [["a", "c"], ["c", "d"]],
            [["a", "d"], ["b", "c"]],
        ] {
            let refused = open_sorted(keys);
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
        }
    }

    /// An older release was killed. Its log is read, sealed and left behind, and what follows
    /// is in the new format.
    #[test]
    fn a_log_of_version_1_is_taken_over() {
        let disk = Arc::new(MemoryDisk::new());
        let (environment, _executor) = environment(Arc::clone(&disk) as _);
        let folder = environment.folder;
        disk.create_folder(&folder).unwrap();
        let mut manifest = Manifest::new(0x5ec2e7);
        manifest.progress.log_claim.segment = 1;
        manifest.store(&*disk, &folder).unwrap();
        let fixture = include_bytes!("../../../tests/fixtures/log-v1.wal");
        let segment = folder.join("log-0000000000000001.wal");
        let file = disk.create(&segment).unwrap();
        // Without its seal.
        file.write_all_at(&fixture[..fixture.len() - 32], 0)
            .unwrap();
        file.set_len(8 << 20).unwrap();
        for start in 0..3 {
            let (environment, _executor) = crate::testing::environment(Arc::clone(&disk) as _);
            let (engine, report) = Engine::open(environment, Options::default()).unwrap();
            assert_eq!(report.entries_replayed, 5 + start);
            let key = format!("new-{start}");
            let timestamp = Timestamp::from_u64(10 + start);
            let entry = Entry::value(key.as_bytes(), timestamp, b"v", Expiry::NEVER, 1);
            engine.write(entry).unwrap();
            for key in ["a", "c", "d", "e", &key] {
                assert!(engine.get(key.as_bytes()).unwrap().is_some(), "{key}");
            }
        }
    }

    /// The process was killed between the exchange of two manifests and the sync of the folder, and
    /// the power fails while the next process writes its manifest.
    #[test]
    fn a_start_does_not_write_over_a_manifest_that_may_still_be_the_durable_one() {
        // Longer than a page.
        let table = |number| LiveTable {
            level: 0,
            id: TableId(number),
            bytes: number,
            keys: KeyBounds::of(b"first", b"last"),
        };
        let manifest = |number: u64| Manifest {
            progress: Progress {
                next_table: TableId(2000),
                least_log_segment: number,
                log_claim: LogClaim {
                    segment: number,
                    bytes: 0,
                },
                ..Progress::NEW
            },
            tables: (number..number + 600)
                .map(|number| (TableId(number), table(number)))
                .collect(),
            ..Manifest::new(1)
        };
        for seed in 0..32 {
            let memory = Arc::new(MemoryDisk::new());
            let disk = Arc::new(FaultyDisk::new(Arc::clone(&memory) as _));
            let (environment, _executor) = environment(Arc::clone(&disk) as _);
            let folder = &environment.folder;
            disk.create_folder(folder).unwrap();
            for number in 1..=2 {
                manifest(number).store(&*disk, folder).unwrap();
            }
            let is_after_exchange =
                |call, _: &Path| matches!(call, Call::SyncFolder | Call::Remove);
            disk.arm(
                Fault::at(0, io::ErrorKind::Other)
                    .only(is_after_exchange)
                    .lasting(),
            );
            manifest(3).store(&*disk, folder).unwrap_err();
            disk.heal();
            let found = load_manifest(&environment).unwrap().manifest;
            assert_eq!(found.progress.least_log_segment, 3);
            let is_sync = |call, _: &Path| call == Call::Sync;
            disk.arm(Fault::at(0, io::ErrorKind::Other).only(is_sync));
            manifest(4).store(&*disk, folder).unwrap_err();
            let mut rng = fastrand::Rng::with_seed(seed);
            let after = memory.crash_clone(&mut |_| rng.bool());
            let after = Manifest::load(&after, folder).unwrap().unwrap().manifest;
            assert_eq!(after.progress.least_log_segment, 3, "seed {seed}");
        }
    }
}
