//! A store that is made of the tables of a snapshot.

use crate::disk::Disk;
use crate::error::Error;
use crate::manifest::{LogClaim, Manifest};
use crate::table_id::{SnapshotTable, TableId, table_file_name};
use crate::wal::{SegmentPlace, SegmentWriter};
use base::{Random, Timestamp};
use std::path::{Path, PathBuf};

/// The number of the first segment of a log.
const FIRST_SEGMENT: u64 = 1;

/// The store of a snapshot, whose tables lie in files that are yet to be put into a folder.
///
/// The caller writes each table of [`RestoredStore::tables`] to its
/// [`path`](RestoredStore::table_path), durably, and then calls [`RestoredStore::complete`]. A
/// folder in which that was cut off holds tables and no manifest: no store opens there.
pub struct RestoredStore {
    manifest: Manifest,
}

impl RestoredStore {
    /// The store of a snapshot with this description.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Invalid`] for one of a later release.
    pub fn of(description: &[u8]) -> Result<Self, Error> {
        let manifest = Manifest::decode(Path::new("the description of a snapshot"), description)?;
        Ok(Self { manifest })
    }

    /// A store that holds nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            manifest: Manifest::new(0),
        }
    }

    /// The tables of the store.
    #[must_use]
    pub fn tables(&self) -> Vec<SnapshotTable> {
        let tables = self.manifest.tables.values().map(|table| SnapshotTable {
            number: table.id.0,
            bytes: table.bytes,
        });
        tables.collect()
    }

    /// Where a table lies in the folder of the store.
    #[must_use]
    pub fn table_path(folder: &Path, table: SnapshotTable) -> PathBuf {
        folder.join(table_file_name(TableId(table.number)))
    }

    /// Makes the folder a store with these tables. Its clock begins above `greatest_timestamp` as
    /// well. Blocks.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn complete(
        mut self,
        disk: &dyn Disk,
        folder: &Path,
        random: &dyn Random,
        greatest_timestamp: Timestamp,
    ) -> Result<(), Error> {
        let manifest = &mut self.manifest;
        manifest.store_id = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        let progress = &mut manifest.progress;
        progress.greatest_timestamp = progress.greatest_timestamp.max(greatest_timestamp);
        progress.least_log_segment = FIRST_SEGMENT;
        progress.log_claim = LogClaim {
            segment: FIRST_SEGMENT,
            bytes: 0,
        };
        // What an earlier attempt has left is made anew, and with it the folder is synced.
        let place = SegmentPlace {
            disk,
            folder,
            secret: manifest.log_secret(),
            segment: FIRST_SEGMENT,
        };
        let _segment = SegmentWriter::create_in_place(place, 0)?;
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        manifest.store(disk, folder)
    }
}
