//! The manifest: which tables are live, and what else must survive a restart.
//!
//! It is small, so every change replaces it as a whole ([`replace_file`]). A crash leaves the
//! old manifest or the new one, but never a torn one, so any damage is corruption.
//!
//! The format of the file, with integers in little endian:
//!
//! ```text
//! | magic | version | store id | next table | least log | log claim | greatest timestamp |
//! |   8   |   u32   |   u128   |    u64     |    u64    |  2 * u64  |        u64         |
//!
//! | records before | tables |
//! |      u64       |  u32   |
//!
//! tables times:  | level | table id | file bytes |     then:  | damaged ranges |
//!                |  u8   |   u64    |    u64     |            |      u32       |
//!
//! damaged ranges times: | table id | from byte | to byte | is set aside |
//!                       |   u64    |    u64    |   u64   |      u8      |
//!
//!                       | first key  | last key   |     then:  | parts set aside |
//!                       | u16, bytes | u16, bytes |            |       u32       |
//!
//! parts set aside times: | table id | file bytes | versions | below | is kept |
//!                        |   u64    |    u64     |   u64    |  u64  |   u8    |
//!
//!                        | first key  | last key   |
//!                        | u16, bytes | u16, bytes |
//!
//! at the end:  | crc32c |
//!              |  u32   |
//! ```
//!
//! A last key of `u16::MAX` bytes, which no key has, is the end of the key space.
//!
//! The checksum covers everything before it. In every version the magic, the version
//! and the checksum have the same offsets, so that a reader can distinguish a damaged
//! file from one of a newer version. Version 2, which lacks the records before
//! and the damaged ranges, is read as if there were none. So is version 3, in which nothing is
//! set aside.

use crate::disk::{Disk, read_small_file, replace_file};
use crate::error::Error;
use crate::locks::sites as wait_sites;
use crate::table_id::TableId;
use base::{ByteReader, KEY_BYTES_MAX, Timestamp};
use bytes::Bytes;
use set_aside::parts_set_aside;
use std::collections::BTreeSet;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

mod fuzz;
mod set_aside;
#[cfg(test)]
mod tests;

pub use fuzz::fuzz_manifest;
pub(crate) use set_aside::{SetAsidePart, kept_tables};

/// The number of levels that tables lie on.
pub(crate) const LEVELS: usize = 7;

/// The manifest's name in the store's folder.
pub(crate) const MANIFEST_FILE: &str = "MANIFEST";

const MAGIC: [u8; 8] = *b"kvormani";
const VERSION: u32 = 4;
/// The oldest version that is read.
const VERSION_MIN: u32 = 2;
/// The versions of the format of `MANIFEST` that this release reads; it writes the last one.
pub const MANIFEST_VERSIONS: RangeInclusive<u32> = VERSION_MIN..=VERSION;
const TABLE_BYTES: usize = 1 + 8 + 8;
const END_OF_KEYS: u16 = u16::MAX;
const CHECKSUM_BYTES: usize = 4;

/// The longest manifest that is read, in bytes: it has room for almost four million
/// tables. A longer file is not a manifest, and would only take memory.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

/// Segments are numbered from 1, and no store lives long enough to reach this
/// number: the next one always exists.
const LOG_SEGMENT_MAX: u64 = u64::MAX / 2;

/// The same for tables.
const TABLE_MAX: TableId = TableId(u64::MAX / 2);

/// What the log holds for certain, however the last run ended. It covers the end of the
/// log, which the log's own groups do not cover (see [`crate::wal`]).
///
/// Of two claims of a store, the later one is the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogClaim {
    /// The file of this segment exists, and all live segments before it are sealed. 0
    /// before the store has its first segment.
    pub(crate) segment: u64,
    /// The number of bytes of the segment, its header and whole groups, that are durable;
    /// 0 if that is unknown.
    pub(crate) bytes: u64,
}

/// What a store consists of, besides its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// A random number that was drawn when the store was created. The upper 64 bits are
    /// the store's public id, the lower 64 bits are the secret that tags its log.
    pub(crate) store_id: u128,
    /// The number of the next table. All tables have lower numbers.
    pub(crate) next_table: TableId,
    /// The records of all log segments below this number are in tables.
    pub(crate) least_log_segment: u64,
    /// What the log holds for certain.
    pub(crate) log_claim: LogClaim,
    /// The greatest timestamp that any table has or had.
    pub(crate) greatest_timestamp: Timestamp,
    /// How many records were committed that are in no live log segment: those of the
    /// segments below `least_log_segment`, and those that were ingested.
    pub(crate) records_before: u64,
    /// The live tables. The file of any other table is obsolete.
    pub(crate) tables: Vec<LiveTable>,
    /// The parts of live tables that are damaged.
    pub(crate) damaged: Vec<DamagedRange>,
    /// What is set aside. A table whose part is kept has a file, even if it is not live.
    pub(crate) set_aside: Vec<SetAsidePart>,
}

/// A table that is part of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveTable {
    /// Its level, below [`LEVELS`].
    pub(crate) level: u8,
    /// Its number.
    pub(crate) id: TableId,
    /// The length of its file in bytes.
    pub(crate) bytes: u64,
}

/// A part of a table's file that is not what was written, and the keys whose versions
/// it may have held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRange {
    /// The table.
    pub(crate) table: TableId,
    /// The part of its file, in bytes.
    pub(crate) bytes: Range<u64>,
    /// The first key.
    pub(crate) first_key: Bytes,
    /// The last key; `None` for the end of the key space.
    pub(crate) last_key: Option<Bytes>,
    /// Whether what the store held of these keys was set aside since this was noted.
    pub(crate) is_set_aside: bool,
}

impl DamagedRange {
    /// Whether the part may have held versions of `key`.
    pub(crate) fn admits(&self, key: &[u8]) -> bool {
        *self.first_key <= *key && self.last_key.as_ref().is_none_or(|last| *key <= **last)
    }
}

/// Whether a folder holds a store: whether it has a manifest.
///
/// # Errors
/// [`Error::Io`].
pub fn holds_store(disk: &dyn Disk, folder: &Path) -> Result<bool, Error> {
    let path = folder.join(MANIFEST_FILE);
    match disk.open(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("open", &path, error)),
    }
}

impl Manifest {
    /// The public half of the store's id, which its owner and other nodes may know.
    pub(crate) fn public_id(&self) -> u64 {
        (self.store_id >> 64) as u64
    }

    /// The secret half of the store's id, which tags the groups of the log (see
    /// [`crate::wal`]).
    pub(crate) fn log_secret(&self) -> u64 {
        self.store_id as u64
    }

    /// Encodes the file's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.extend_from_slice(&self.next_table.0.to_le_bytes());
        bytes.extend_from_slice(&self.least_log_segment.to_le_bytes());
        bytes.extend_from_slice(&self.log_claim.segment.to_le_bytes());
        bytes.extend_from_slice(&self.log_claim.bytes.to_le_bytes());
        bytes.extend_from_slice(&self.greatest_timestamp.as_u64().to_le_bytes());
        bytes.extend_from_slice(&self.records_before.to_le_bytes());
        bytes.extend_from_slice(&(self.tables.len() as u32).to_le_bytes());
        for table in &self.tables {
            bytes.push(table.level);
            bytes.extend_from_slice(&table.id.0.to_le_bytes());
            bytes.extend_from_slice(&table.bytes.to_le_bytes());
        }
        bytes.extend_from_slice(&(self.damaged.len() as u32).to_le_bytes());
        for range in &self.damaged {
            bytes.extend_from_slice(&range.table.0.to_le_bytes());
            bytes.extend_from_slice(&range.bytes.start.to_le_bytes());
            bytes.extend_from_slice(&range.bytes.end.to_le_bytes());
            bytes.push(u8::from(range.is_set_aside));
            put_key(&mut bytes, Some(&range.first_key));
            put_key(&mut bytes, range.last_key.as_ref());
        }
        bytes.extend_from_slice(&(self.set_aside.len() as u32).to_le_bytes());
        for part in &self.set_aside {
            part.put(&mut bytes);
        }
        let checksum = base::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the file's bytes; `file` names the file in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for bytes that no store wrote, [`Error::Invalid`] for an
    /// unknown version of the format.
    pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let corrupt = |offset: usize, what: String| Error::corrupt(file, offset as u64, what);

        let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(corrupt(0, format!("a manifest of {} bytes", bytes.len())));
        };
        let mut reader = ByteReader::new(content);
        if reader.array() != Some(MAGIC) {
            return Err(corrupt(
                0,
                "the file does not begin as a manifest does".to_owned(),
            ));
        }
        let (found, computed) = (u32::from_le_bytes(*checksum), base::crc32c(content));
        if found != computed {
            return Err(corrupt(
                content.len(),
                format!("the checksum is {found:08x}, but that of the bytes is {computed:08x}"),
            ));
        }
        let truncated = || corrupt(content.len(), "the manifest is too short".to_owned());
        let version = reader.u32().ok_or_else(truncated)?;
        if !MANIFEST_VERSIONS.contains(&version) {
            return Err(Error::Invalid(format!(
                "{} has format version {version}; this release reads versions {VERSION_MIN} to \
                 {VERSION}",
                file.display()
            )));
        }
        let store_id = reader.u128().ok_or_else(truncated)?;
        let offset = content.len() - reader.rest().len();
        let next_table = TableId(reader.u64().ok_or_else(truncated)?);
        if next_table > TABLE_MAX {
            let what = format!("there is no table {}", next_table.0);
            return Err(corrupt(offset, what));
        }
        let offset = content.len() - reader.rest().len();
        let least_log_segment = reader.u64().ok_or_else(truncated)?;
        if !(1..=LOG_SEGMENT_MAX).contains(&least_log_segment) {
            let what = format!("there is no log segment {least_log_segment}");
            return Err(corrupt(offset, what));
        }
        let offset = content.len() - reader.rest().len();
        let log_claim = LogClaim {
            segment: reader.u64().ok_or_else(truncated)?,
            bytes: reader.u64().ok_or_else(truncated)?,
        };
        let greatest_timestamp = Timestamp::from_u64(reader.u64().ok_or_else(truncated)?);
        let records_before = match version {
            VERSION_MIN => 0,
            _ => reader.u64().ok_or_else(truncated)?,
        };
        let count = reader.u32().ok_or_else(truncated)? as usize;
        let tables_offset = content.len() - reader.rest().len();
        let table_bytes = count.checked_mul(TABLE_BYTES);
        if table_bytes.is_none_or(|bytes| bytes > reader.rest().len()) {
            return Err(corrupt(
                tables_offset,
                format!("{count} tables in {} bytes", reader.rest().len()),
            ));
        }
        let is_new = least_log_segment == 1 && count == 0 && log_claim == LogClaim::default();
        let is_claimed = (least_log_segment..=LOG_SEGMENT_MAX).contains(&log_claim.segment);
        if !is_claimed && !is_new {
            let what = format!("a claim for log segment {}", log_claim.segment);
            return Err(corrupt(offset, what));
        }

        let mut tables = Vec::with_capacity(count);
        let mut ids = BTreeSet::new();
        for _ in 0..count {
            let offset = content.len() - reader.rest().len();
            let level = reader.u8().ok_or_else(truncated)?;
            let id = TableId(reader.u64().ok_or_else(truncated)?);
            let bytes = reader.u64().ok_or_else(truncated)?;
            if usize::from(level) >= LEVELS {
                return Err(corrupt(offset, format!("a table on level {level}")));
            }
            if id >= next_table {
                return Err(corrupt(offset, format!("table {} is yet to come", id.0)));
            }
            if !ids.insert(id) {
                return Err(corrupt(offset, format!("table {} is there twice", id.0)));
            }
            tables.push(LiveTable { level, id, bytes });
        }
        let offset = content.len() - reader.rest().len();
        let damaged = match version {
            VERSION_MIN => Some(Vec::new()),
            _ => damaged_ranges(&mut reader, &tables, version),
        };
        let Some(damaged) = damaged else {
            let what = "the damaged ranges are malformed".to_owned();
            return Err(corrupt(offset, what));
        };
        let offset = content.len() - reader.rest().len();
        let set_aside = if version < VERSION {
            Some(Vec::new())
        } else {
            parts_set_aside(&mut reader, &ids, next_table)
        };
        let Some(set_aside) = set_aside.filter(|_| reader.rest().is_empty()) else {
            let what = "the parts that are set aside are malformed".to_owned();
            return Err(corrupt(offset, what));
        };
        Ok(Self {
            store_id,
            next_table,
            least_log_segment,
            log_claim,
            greatest_timestamp,
            records_before,
            tables,
            damaged,
            set_aside,
        })
    }

    /// The manifest of the store in `folder`; `None` if there is none. The caller decides
    /// what that means if the folder has other files of a store.
    ///
    /// # Errors
    /// As [`Manifest::decode`], and [`Error::Io`].
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(MANIFEST_FILE);
        let bytes = read_small_file(disk, &path, MANIFEST_BYTES_MAX)?;
        bytes.map(|bytes| Self::decode(&path, &bytes)).transpose()
    }

    /// Makes this the store's manifest, durably. Its tables have to be durable before,
    /// and so have their names in the folder.
    ///
    /// # Errors
    /// [`Error::DiskFull`] and [`Error::Io`]: the previous manifest stays in force.
    /// [`Error::Sync`]: after a crash either of the two may be in force.
    pub(crate) fn store(&self, disk: &dyn Disk, folder: &Path) -> Result<(), Error> {
        wait_sites::MANIFEST.time(|| replace_file(disk, folder, MANIFEST_FILE, &self.encode()))
    }
}

/// Appends a key with its length; `None` is the end of the key space.
fn put_key(bytes: &mut Vec<u8>, key: Option<&Bytes>) {
    let key_bytes = key.map_or(END_OF_KEYS, |key| key.len() as u16);
    bytes.extend_from_slice(&key_bytes.to_le_bytes());
    bytes.extend_from_slice(key.map_or(&[], |key| key));
}

/// Takes a key; within, `None` is the end of the key space.
fn take_key(reader: &mut ByteReader<'_>) -> Option<Option<Bytes>> {
    let key_bytes = reader.u16()?;
    if key_bytes == END_OF_KEYS {
        return Some(None);
    }
    let key_bytes = usize::from(key_bytes);
    let key = (key_bytes <= KEY_BYTES_MAX).then(|| reader.bytes(key_bytes))??;
    Some(Some(Bytes::copy_from_slice(key)))
}

/// Takes the damaged ranges; `None` if no store wrote them.
fn damaged_ranges(
    reader: &mut ByteReader<'_>,
    tables: &[LiveTable],
    version: u32,
) -> Option<Vec<DamagedRange>> {
    let count = reader.u32()?;
    let mut damaged = Vec::new();
    for _ in 0..count {
        let range = DamagedRange {
            table: TableId(reader.u64()?),
            bytes: reader.u64()?..reader.u64()?,
            is_set_aside: version == VERSION
                && match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            first_key: take_key(reader)??,
            last_key: take_key(reader)?,
        };
        let is_live = tables.iter().any(|table| table.id == range.table);
        if !is_live || range.bytes.is_empty() || !range.admits(&range.first_key) {
            return None;
        }
        damaged.push(range);
    }
    Some(damaged)
}
