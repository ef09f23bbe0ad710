//! Writes one segment of a log.

use super::{
    FLAG_EXPIRES, FLAG_TOMBSTONE, GROUP_HEADER_BYTES, GROUP_MAGIC, PendingSync,
    RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SEGMENT_VERSION, segment_file_name,
    segment_tag,
};
use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::manifest::LogClaim;
use crate::wait_sites;
use base::{Entry, Expiry, KEY_BYTES_MAX, Kind, VALUE_BYTES_MAX};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much more than needed is allocated when a segment grows, in bytes.
const GROWTH_BYTES: u64 = 256 << 10;

/// The number of zeros in one write, in bytes.
const FILL_BYTES: u64 = 256 << 10;

/// A buffer that a rare, huge group has grown past this many bytes is freed after it.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Appends groups to one segment.
pub struct SegmentWriter {
    file: Arc<dyn DiskFile>,
    /// The same file, opened once more, for background syncs. The system reports a
    /// failed writeback once to each open handle. A background sync through `file`
    /// would take the report away from the next commit, whose sync would succeed.
    background_file: Arc<dyn DiskFile>,
    path: PathBuf,
    segment: u64,
    tag: u64,
    /// Where the next group begins.
    position: u64,
    /// All bytes before this are synced.
    synced: u64,
    /// The disk has allocated space for all bytes before this.
    allocated: u64,
    /// All bytes before this were written, at least with zeros.
    filled: u64,
    buffer: Vec<u8>,
}

impl SegmentWriter {
    /// Creates a segment with room for `bytes` bytes and makes it durable.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`]. The file is removed
    /// again if possible.
    pub(crate) fn create(
        disk: &dyn Disk,
        folder: &Path,
        secret: u64,
        segment: u64,
        bytes: u64,
    ) -> Result<Self, Error> {
        Self::create_in_place(disk, folder, secret, segment, bytes).inspect_err(|_| {
            // If it stays, it is an empty segment, which recovery creates again.
            let _ = disk.remove(&folder.join(segment_file_name(segment)));
        })
    }

    /// As [`SegmentWriter::create`], but replaces an empty segment if there is one.
    /// If this fails, the file stays, whole or not, so that the log never has a gap.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`].
    pub(crate) fn create_in_place(
        disk: &dyn Disk,
        folder: &Path,
        secret: u64,
        segment: u64,
        bytes: u64,
    ) -> Result<Self, Error> {
        let tag = segment_tag(secret, segment);
        let path = folder.join(segment_file_name(segment));
        let file = disk
            .create(&path)
            .map_err(|error| Error::io("create", &path, error))?;
        let background_file = disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        let allocated = bytes.max(SEGMENT_HEADER_BYTES as u64);
        file.allocate(0, allocated)
            .map_err(|error| Error::io("allocate", &path, error))?;
        file.write_all_at(&segment_header(tag), 0)
            .map_err(|error| Error::io("write", &path, error))?;
        file.sync().map_err(|error| Error::sync(&path, error))?;
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        Ok(Self {
            file,
            background_file,
            path,
            segment,
            tag,
            position: SEGMENT_HEADER_BYTES as u64,
            synced: SEGMENT_HEADER_BYTES as u64,
            allocated,
            filled: 0,
            buffer: Vec::new(),
        })
    }

    /// Makes a segment durable that was read from `bytes`, which end with its last
    /// whole group, and seals it unless it `is_sealed`.
    ///
    /// The bytes that were read may be in the system's memory only. If an earlier
    /// sync failed, the system may even consider them written, and another sync
    /// would write nothing. Therefore all of them are written again.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`]. A reader finds the same
    /// groups as before, and perhaps the seal.
    pub(crate) fn restore(
        disk: &dyn Disk,
        folder: &Path,
        secret: u64,
        segment: u64,
        bytes: &[u8],
        is_sealed: bool,
    ) -> Result<(), Error> {
        let path = folder.join(segment_file_name(segment));
        let file = disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        // The seal replaces a torn group or allocated zeros, so it has room even on a
        // full disk.
        let allocated = file
            .len()
            .map_err(|error| Error::io("read the length of", &path, error))?;
        file.write_all_at(bytes, 0)
            .map_err(|error| Error::io("write", &path, error))?;
        let mut writer = Self {
            // There are no commits whose errors a background sync could take.
            background_file: Arc::clone(&file),
            file,
            path,
            segment,
            tag: segment_tag(secret, segment),
            position: bytes.len() as u64,
            synced: 0,
            allocated,
            filled: 0,
            buffer: Vec::new(),
        };
        if is_sealed {
            writer.sync()?;
        } else {
            writer.seal()?;
        }
        // A reader stops at the seal, so this only frees space.
        let Self { file, path, .. } = &writer;
        file.set_len(writer.position)
            .map_err(|error| Error::io("truncate", path, error))
    }

    /// Writes `entries` as one group, without syncing, and returns the bytes
    /// written. A reader gets all entries of a group or none of them. Without
    /// entries nothing is written.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there is no room, and [`Error::Invalid`] when a
    /// key or a value exceeds the format's limits: the log is as before then,
    /// and the next group takes the place of this one. [`Error::Io`].
    pub fn append<'a>(
        &mut self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<u64, Error> {
        let mut entries = entries.into_iter().peekable();
        // A group without entries would be a seal.
        if entries.peek().is_none() {
            return Ok(0);
        }
        self.append_group(entries)
    }

    fn append_group<'a>(&mut self, entries: impl Iterator<Item = &'a Entry>) -> Result<u64, Error> {
        self.buffer.clear();
        self.buffer.resize(GROUP_HEADER_BYTES, 0);
        let mut count = 0_u32;
        for entry in entries {
            check(entry)?;
            encode_record(entry, &mut self.buffer);
            count += 1;
        }
        let bytes = self.buffer.len() as u64;
        let Ok(record_bytes) = u32::try_from(self.buffer.len() - GROUP_HEADER_BYTES) else {
            return Err(Error::Invalid(format!(
                "a group of {bytes} bytes is too long for a log"
            )));
        };
        let header = &mut self.buffer[..GROUP_HEADER_BYTES];
        header[0..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        header[8..16].copy_from_slice(&self.tag.to_le_bytes());
        header[16..24].copy_from_slice(&self.synced.to_le_bytes());
        header[24..28].copy_from_slice(&record_bytes.to_le_bytes());
        header[28..32].copy_from_slice(&count.to_le_bytes());
        let crc = crc32c::crc32c(&header[8..]);
        header[4..8].copy_from_slice(&crc.to_le_bytes());

        let end = self.position + bytes;
        if end > self.allocated {
            let allocate = |to: u64| {
                self.file
                    .allocate(self.allocated, to - self.allocated)
                    .map_err(|error| Error::io("allocate", &self.path, error))
                    .map(|()| to)
            };
            // A nearly full disk may still have room for the group alone.
            self.allocated = allocate(end + GROWTH_BYTES).or_else(|error| match error {
                Error::DiskFull => allocate(end),
                error => Err(error),
            })?;
        }
        self.file
            .write_all_at(&self.buffer, self.position)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.position = end;
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(bytes)
    }

    /// Makes all groups durable.
    ///
    /// # Errors
    /// [`Error::Sync`]: the unsynced groups may or may not be durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        wait_sites::LOG_SYNC
            .time(|| self.file.sync())
            .map_err(|error| Error::sync(&self.path, error))?;
        self.synced = self.position;
        Ok(())
    }

    /// Ends the segment: writes the seal and makes everything durable. No group
    /// may follow.
    ///
    /// # Errors
    /// As [`SegmentWriter::append`], and [`Error::Sync`]; the groups that were
    /// written are read back all the same.
    pub fn seal(&mut self) -> Result<(), Error> {
        self.append_group(std::iter::empty())?;
        self.sync()
    }

    /// Writes zeros to the next part of the allocated space that was never written;
    /// returns `false` if there is none. The sync after a first write to allocated
    /// space also changes the file system's metadata, and waits for the metadata of
    /// all other files. The sync after a write over zeros only writes data.
    ///
    /// # Errors
    /// As [`SegmentWriter::append`].
    pub(crate) fn fill_some(&mut self) -> Result<bool, Error> {
        let from = self.filled.max(self.position);
        let bytes = FILL_BYTES.min(self.allocated.saturating_sub(from));
        if bytes == 0 {
            return Ok(false);
        }
        self.file
            .write_all_at(&vec![0; bytes as usize], from)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.filled = from + bytes;
        Ok(true)
    }

    /// A sync of everything that is written now. It delays no append, and takes no
    /// error away from the writer's own syncs.
    pub(crate) fn background_sync(&self) -> PendingSync {
        PendingSync {
            file: Arc::clone(&self.background_file),
            path: self.path.clone(),
            segment: self.segment,
            position: self.position,
        }
    }

    /// The sync that makes all groups durable that are written now; [`None`] if they
    /// are durable. Run it where it delays no append, and pass it to
    /// [`SegmentWriter::synced`] after it has succeeded.
    #[must_use]
    pub fn pending_sync(&self) -> Option<PendingSync> {
        (self.synced < self.position).then(|| self.background_sync())
    }

    /// Notes a sync that has succeeded. The sync of a segment that this one has
    /// replaced in the meantime changes nothing.
    pub fn synced(&mut self, sync: &PendingSync) {
        if sync.segment == self.segment {
            self.synced = self.synced.max(sync.position);
        }
    }

    /// How much of the segment is durable.
    pub(crate) fn claim(&self) -> LogClaim {
        let has_groups = self.synced > SEGMENT_HEADER_BYTES as u64;
        LogClaim {
            segment: self.segment,
            bytes: if has_groups { self.synced } else { 0 },
        }
    }

    /// The bytes of the header and all groups.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes of groups are written and not synced.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        self.position - self.synced
    }

    /// Whether a group with `record_bytes` bytes of records fits the allocated space.
    pub(crate) fn has_room(&self, record_bytes: usize) -> bool {
        let room = self.allocated.saturating_sub(self.position);
        room >= (GROUP_HEADER_BYTES + record_bytes) as u64
    }

    /// The number of the segment.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
    }

    /// The bytes of the groups written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.position - SEGMENT_HEADER_BYTES as u64
    }

    /// The space of the segment on disk, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated
    }
}

fn segment_header(tag: u64) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[0..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&tag.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[0..12]), &header[16..]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Refuses an entry that a reader would not accept or would read as another one.
fn check(entry: &Entry) -> Result<(), Error> {
    let (key_bytes, value_bytes) = (entry.key().len(), entry.value_bytes().len());
    if (1..=KEY_BYTES_MAX).contains(&key_bytes) && value_bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "a log holds no key of {key_bytes} and no value of {value_bytes} bytes"
    )))
}

fn encode_record(entry: &Entry, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    let mut flags = 0;
    if entry.kind() == Kind::Tombstone {
        flags |= FLAG_TOMBSTONE;
    }
    if entry.expiry() != Expiry::NEVER {
        flags |= FLAG_EXPIRES;
    }
    buffer.extend_from_slice(&[flags, entry.copies()]);
    buffer.extend_from_slice(&(entry.key().len() as u16).to_le_bytes());
    buffer.extend_from_slice(&entry.timestamp().as_u64().to_le_bytes());
    if entry.expiry() != Expiry::NEVER {
        buffer.extend_from_slice(&entry.expiry().unix_ms().to_le_bytes());
    }
    buffer.extend_from_slice(entry.key());
    buffer.extend_from_slice(entry.value_bytes());
    let body_bytes = (buffer.len() - start - RECORD_HEADER_BYTES) as u32;
    buffer[start + 4..start + 8].copy_from_slice(&body_bytes.to_le_bytes());
    let crc = crc32c::crc32c(&buffer[start + 4..]);
    buffer[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}
