//! The tables of a store that is being opened.
//!
//! A table that does not open must not keep the store from serving all others. Its footer,
//! properties or top index may be damaged, or the file cut short. It then counts as **lost**:
//! one damaged part that spans the file ([`damage`](crate::engine::table_set::damage)). The
//! keys that it may have held are a damaged range, of which nothing that the store says counts
//! until it was compared with all others; reads that might need the table fail. A compaction
//! then drops it. Until then each start tries it again. The file stays, in the end under the
//! name `table-N.sst.lost`: someone may repair it, or the disk may have been unreadable for a
//! moment only, and it may hold the only copy of something.
//!
//! A **read error** of the system (`EIO`) is damage as well once three tries have failed: a
//! bad sector stays bad, and a node that cannot start would be of no more use than one that
//! lacks a table. An error of opening the file is none, because it says something about
//! the process (file handles, permissions) and not about the table. A **missing** file
//! is no damage either: disks do not lose files, people do, and more may be missing than
//! the store can know. So these two stop the start, and so does a format of a later version.

use crate::cache::BlockCache;
use crate::disk::{CachedFile, FileCache, map_parallel};
use crate::engine::table_set::{Blobs, Tables};
use crate::error::Error;
use crate::manifest::{BLOB_LEVEL, DamagedRange, LiveTable, Manifest, kept_tables};
use crate::table::Table;
use crate::table_id::table_file_name;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How often a table is opened that the system cannot read.
const TRIES_MAX: u32 = 3;

/// The tables of a store.
pub(in crate::engine) struct RecoveredTables {
    pub(in crate::engine) tables: Tables,
    /// How many of them are lost.
    pub(in crate::engine) lost: u64,
}

/// What became of the file of a table.
enum Opened {
    Table(Arc<Table>),
    /// It does not open.
    Lost(Error),
}

/// A table that does not open.
struct Lost {
    /// What is damaged: all of it.
    range: DamagedRange,
    why: Error,
}

/// Opens the tables that the manifest names. Notes there what is lost.
///
/// # Errors
/// [`Error::Corrupt`] for a missing table, and for tables that overlap where they must not;
/// [`Error::Invalid`] for a table of a later version; [`Error::Io`].
pub(in crate::engine) fn open_tables(
    files: &Arc<FileCache>,
    folder: &Path,
    manifest: &mut Manifest,
    cache: &Arc<BlockCache>,
) -> Result<RecoveredTables, Error> {
    let named: Vec<&LiveTable> = manifest.tables.values().collect();
    let opened = map_parallel(files.parallel_opens(), named.len(), |number| {
        open(files, folder, named[number], cache)
    })?;
    let mut tables = Vec::with_capacity(named.len());
    let mut all_lost = Vec::new();
    for (live, opened) in named.into_iter().zip(opened) {
        match opened {
            Opened::Table(table) => tables.push((usize::from(live.level), table)),
            Opened::Lost(why) => {
                let range = range_of(live, manifest);
                all_lost.push(Lost { range, why });
            }
        }
    }
    let lost = all_lost.len() as u64;
    for Lost { range, why } in all_lost {
        let path = folder.join(table_file_name(range.table));
        tracing::error!(
            error = %why,
            file = %path.display(),
            from_key = %range.first_key.escape_ascii(),
            to_key = %range.last_key.as_deref().unwrap_or(b"(the last)").escape_ascii(),
            "a table does not open: its versions of these keys are missing, and reads of them \
             fail unless they find something newer. In a cluster the next full repair restores \
             them from the other nodes. For a node alone: stop it, restore the file from a copy, \
             and start it again"
        );
        let greatest = manifest.progress.greatest_timestamp;
        let file = files.closed(&path);
        let table = Table::lost(file, &path, &range, greatest, Arc::clone(cache), why);
        let live = manifest.tables.get_mut(&range.table);
        let live = live.filter(|live| !live.is_blob());
        let level = match live {
            // Where tables may overlap: others will be written in its range.
            Some(live) => {
                live.level = 0;
                0
            }
            None => BLOB_LEVEL,
        };
        tables.push((level, Arc::new(table)));
        manifest.damaged.retain(|known| known.table != range.table);
        manifest.damaged.push(range);
    }
    let mut tables = Tables::new(tables.into_iter());
    check_overlaps(folder, &tables)?;
    keep_blobs(files, folder, manifest, cache, tables.blobs_mut());
    Ok(RecoveredTables { tables, lost })
}

/// Keeps the blob tables to which tables refer that are kept and not live: all, if nobody can say
/// which these are.
fn keep_blobs(
    files: &Arc<FileCache>,
    folder: &Path,
    manifest: &Manifest,
    cache: &Arc<BlockCache>,
    blobs: &mut Blobs,
) {
    if blobs.is_empty() {
        return;
    }
    let mut kept = kept_tables(&manifest.set_aside);
    kept.retain(|id| !manifest.tables.contains_key(id));
    for id in kept {
        let path = folder.join(table_file_name(id));
        let opened = files.open(&path);
        let opened = opened.map(|file| Table::open(file, &path, id, Arc::clone(cache), None));
        let referred = match opened {
            Ok(Ok(table)) => Some(table.properties().blobs.keys().copied().collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Arc::default()),
            Ok(Err(_)) | Err(_) => None,
        };
        blobs.keep(id, referred);
    }
}

/// Opens the file of a table, and the table, in several tries if the system cannot read it.
///
/// # Errors
/// As [`open_tables`].
fn open(
    files: &Arc<FileCache>,
    folder: &Path,
    live: &LiveTable,
    cache: &Arc<BlockCache>,
) -> Result<Opened, Error> {
    let path = folder.join(table_file_name(live.id));
    let mut tries = 1;
    loop {
        let file = files.open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::corrupt(&path, 0, "the manifest names this table, but it is missing")
            }
            _ => Error::io("open", &path, error),
        })?;
        match open_table(file, &path, live, cache) {
            Ok(table) => return Ok(Opened::Table(Arc::new(table))),
            Err(why @ Error::Corrupt { .. }) => return Ok(Opened::Lost(why)),
            Err(error @ Error::Io { action: "open", .. }) => return Err(error),
            Err(Error::Io { .. }) if tries < TRIES_MAX => tries += 1,
            Err(error @ Error::Io { .. }) => {
                let what = format!("the system cannot read it: {error}");
                return Ok(Opened::Lost(Error::corrupt(&path, 0, what)));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Opens a table, which has to be as long as the manifest says.
///
/// # Errors
/// Those of [`Table::open`].
fn open_table(
    file: CachedFile,
    path: &Path,
    live: &LiveTable,
    cache: &Arc<BlockCache>,
) -> Result<Table, Error> {
    let (level, cache) = (usize::from(live.level), Arc::clone(cache));
    let table = Table::open(file, path, live.id, cache, Some(level))?;
    if table.file_bytes() != live.bytes {
        let what = format!("the manifest says that the file has {} bytes", live.bytes);
        return Err(Error::corrupt(path, table.file_bytes(), what));
    }
    Ok(table)
}

/// The keys that a lost table may have held: those that are noted already, or else those
/// between its bounds.
fn range_of(lost: &LiveTable, manifest: &Manifest) -> DamagedRange {
    let bytes = 0..lost.bytes.max(1);
    let mut noted = manifest.damaged.iter();
    let noted = noted.find(|known| known.table == lost.id && known.bytes == bytes);
    noted.cloned().unwrap_or_else(|| DamagedRange {
        table: lost.id,
        bytes,
        first_key: lost.keys.first.clone(),
        last_key: lost.keys.last.clone(),
        is_set_aside: false,
    })
}

/// Checks that no two tables of a sorted level overlap. Lookups rely on that.
fn check_overlaps(folder: &Path, tables: &Tables) -> Result<(), Error> {
    for (level, tables) in tables.levels().iter().enumerate().skip(1) {
        for (before, after) in tables.iter().zip(tables.iter().skip(1)) {
            if before.properties().greatest_key >= after.properties().least_key {
                let names = [before, after].map(|table| table_file_name(table.id()));
                return Err(Error::corrupt(
                    &folder.join(&names[1]),
                    0,
                    format!(
                        "the keys of this table of level {level} overlap those of {}",
                        names[0]
                    ),
                ));
            }
        }
    }
    Ok(())
}
