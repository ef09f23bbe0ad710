//! Writes one segment of a log.

use super::group::{GroupSize, RecordOf, SegmentFormat, write_group, write_seal};
use super::long_group::{LONG_GROUP_BYTES, write_long_group};
use super::segment_reader::read_segment_header;
use super::{
    PAGE_BYTES, PendingSync, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, segment_file_name, segment_tag,
};
use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::locks::sites as wait_sites;
use crate::manifest::LogClaim;
use base::Entry;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much more than needed is allocated when a segment grows, in bytes.
const GROWTH_BYTES: u64 = 256 << 10;

/// The number of zeros in one write, in bytes.
const FILL_BYTES: u64 = 256 << 10;

/// How many promises a group has at most, which bounds its bytes.
const PROMISES_A_GROUP: usize = 64;

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
    format: SegmentFormat,
    /// Where the next group begins.
    position: u64,
    /// All bytes before this are synced.
    synced: u64,
    /// The disk has allocated space for all bytes before this.
    allocated: u64,
    /// All bytes before this were written once, perhaps for another segment.
    filled: u64,
    /// All bytes before this were written for this segment, at least with zeros: whole
    /// pages. The system must read a page from the disk that is written in part, unless it
    /// still has the page in memory.
    cleared: u64,
    /// A group that is written, or a part of a long one.
    buffer: Vec<u8>,
}

/// The space of a segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSpace {
    /// Its length.
    pub(crate) bytes: u64,
    /// How many of these bytes, from the first on, were ever written.
    pub(crate) filled_bytes: u64,
}

/// Where a segment is, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct SegmentPlace<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) folder: &'a Path,
    /// The secret of the segment's log.
    pub(crate) secret: u64,
    /// The number of the segment.
    pub(crate) segment: u64,
}

impl SegmentPlace<'_> {
    fn path(&self) -> PathBuf {
        self.folder.join(segment_file_name(self.segment))
    }

    fn tag(&self) -> u64 {
        segment_tag(self.secret, self.segment)
    }
}

impl SegmentWriter {
    /// Creates a segment with room for `bytes` bytes and makes it durable.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`]. The file is removed
    /// again if possible.
    pub(crate) fn create(place: SegmentPlace<'_>, bytes: u64) -> Result<Self, Error> {
        Self::create_in_place(place, bytes).inspect_err(|_| {
            // If it stays, it is a segment without groups, which a start begins again. The
            // segment before is not sealed, so it need not have a header.
            let _ = place.disk.remove(&place.path());
        })
    }

    /// As [`SegmentWriter::create`], but begins a segment of this number again if there is one,
    /// which has no whole group. If this fails, the file stays, whole or not, so that the log
    /// never has a gap; and it keeps its header if it had one, because the segment before may be
    /// sealed.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`].
    pub(crate) fn create_in_place(place: SegmentPlace<'_>, bytes: u64) -> Result<Self, Error> {
        let SegmentPlace { disk, folder, .. } = place;
        let path = place.path();
        let file = match reopen_begun(place, bytes)? {
            Some(file) => file,
            // A file of this name is emptied.
            None => disk
                .create(&path)
                .map_err(|error| Error::io("create", &path, error))?,
        };
        let background_file = disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        let allocated = grow(&*file, bytes.max(SEGMENT_HEADER_BYTES as u64))
            .map_err(|error| Error::io("allocate", &path, error))?;
        let cleared = begin_segment(&*file, &path, place.tag(), allocated)?;
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        Ok(Self::begun(
            place,
            file,
            background_file,
            allocated,
            cleared,
        ))
    }

    /// Makes the file at `free`, which was a segment with another number, the file of this
    /// one, durably and with room for at least `bytes` bytes. A segment of this number that
    /// has no whole group is replaced. The bytes of the other segment stay until groups
    /// are written over them. `filled` says how many bytes of the file were ever written.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Sync`], [`Error::Io`]. The file stays, under its old
    /// name, or under the new one as a segment without groups.
    pub(crate) fn reuse(
        place: SegmentPlace<'_>,
        free: &Path,
        filled: u64,
        bytes: u64,
    ) -> Result<Self, Error> {
        let SegmentPlace { disk, folder, .. } = place;
        let open = |path: &Path| {
            disk.open(path)
                .map_err(|error| Error::io("open", path, error))
        };
        let file = open(free)?;
        let length = file
            .len()
            .map_err(|error| Error::io("read the length of", free, error))?;
        let allocated = length.max(bytes).max(SEGMENT_HEADER_BYTES as u64);
        file.allocate(length, allocated - length)
            .map_err(|error| Error::io("allocate", free, error))?;
        // The header first: under the new name a start takes the header of another segment
        // for damage.
        let cleared = begin_segment(&*file, free, place.tag(), allocated)?;
        let path = place.path();
        disk.rename(free, &path)
            .map_err(|error| Error::io("rename", free, error))?;
        disk.sync_folder(folder)
            .map_err(|error| Error::sync(folder, error))?;
        let filled = filled.clamp(cleared, length.max(cleared));
        Ok(Self {
            filled,
            ..Self::begun(place, open(&path)?, open(&path)?, allocated, cleared)
        })
    }

    /// The writer of a segment whose header is durable, and that has room for `allocated`
    /// bytes, of which the first `cleared` are written.
    fn begun(
        place: SegmentPlace<'_>,
        file: Arc<dyn DiskFile>,
        background_file: Arc<dyn DiskFile>,
        allocated: u64,
        cleared: u64,
    ) -> Self {
        Self {
            file,
            background_file,
            path: place.path(),
            segment: place.segment,
            tag: place.tag(),
            format: SegmentFormat::NEWEST,
            position: SEGMENT_HEADER_BYTES as u64,
            synced: SEGMENT_HEADER_BYTES as u64,
            allocated,
            filled: cleared,
            cleared,
            buffer: Vec::new(),
        }
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
        place: SegmentPlace<'_>,
        format: SegmentFormat,
        bytes: &[u8],
        is_sealed: bool,
    ) -> Result<(), Error> {
        let path = place.path();
        let file = place
            .disk
            .open(&path)
            .map_err(|error| Error::io("open", &path, error))?;
        // The seal replaces a torn group or allocated space, so it has room even on a
        // full disk.
        let allocated = file
            .len()
            .map_err(|error| Error::io("read the length of", &path, error))?;
        file.write_all_at(bytes, 0)
            .map_err(|error| Error::io("write", &path, error))?;
        // There are no commits whose errors a background sync could take.
        let background_file = Arc::clone(&file);
        let mut writer = Self {
            format,
            position: bytes.len() as u64,
            synced: 0,
            ..Self::begun(place, file, background_file, allocated, bytes.len() as u64)
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

    /// Goes on in a segment without a seal, whose file was read: `bytes` end with its last whole
    /// group. What is torn behind them is cleared. All of them are written again, as by
    /// [`SegmentWriter::restore`]. Takes no room.
    ///
    /// # Errors
    /// [`Error::Sync`], [`Error::Io`], and [`Error::DiskFull`] on a file system that needs room
    /// to write over a file. A reader finds the same groups as before.
    pub(crate) fn resume(
        place: SegmentPlace<'_>,
        format: SegmentFormat,
        bytes: &[u8],
    ) -> Result<Self, Error> {
        let path = place.path();
        let open = || {
            place
                .disk
                .open(&path)
                .map_err(|error| Error::io("open", &path, error))
        };
        let file = open()?;
        let failed = |error| Error::io("write", &path, error);
        let end = bytes.len() as u64;
        let length = file.len().map_err(failed)?.max(end);
        let torn_end = file.written_end().map_err(failed)?.clamp(end, length);
        file.write_all_at(bytes, 0).map_err(failed)?;
        let cleared = match write_zeros(&*file, end..torn_end) {
            Ok(()) => torn_end,
            Err(error) => match failed(error) {
                // A hole has no room of its own.
                Error::DiskFull => end,
                error => return Err(error),
            },
        };
        let allocated = if cleared == torn_end { length } else { end };
        file.set_len(allocated).map_err(failed)?;
        let mut writer = Self {
            format,
            position: end,
            ..Self::begun(place, file, open()?, allocated, cleared)
        };
        writer.sync()?;
        Ok(writer)
    }

    /// Writes `entries` as one group, without syncing, and returns the bytes
    /// written. A reader gets all entries of a group or none of them. Without
    /// entries nothing is written.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there is no room, and [`Error::Invalid`] when a
    /// key or a value exceeds the format's limits: the log is as before then,
    /// and the next group takes the place of this one. [`Error::Io`].
    pub fn append<'a, Entries>(&mut self, entries: Entries) -> Result<u64, Error>
    where
        Entries: IntoIterator<Item = &'a Entry, IntoIter: Clone>,
    {
        let entries = entries.into_iter();
        let size = GroupSize::of(entries.clone())?;
        // A group without entries would be a seal.
        if size.is_empty() {
            return Ok(0);
        }
        self.buffer.clear();
        if size.group_bytes() <= LONG_GROUP_BYTES {
            let of = RecordOf::Version;
            write_group(size, of, entries, self.tag, self.synced, &mut self.buffer);
            return self.write_buffer();
        }
        let end = self.position + size.group_bytes();
        self.make_room(end)?;
        // If this fails, what it has written is still to be cleared.
        let before = std::mem::replace(&mut self.cleared, self.position);
        let cleared = before.max(self.page_end(end));
        let header = write_long_group(
            &*self.file,
            self.position..cleared,
            size,
            entries,
            self.tag,
            self.synced,
            &mut self.buffer,
        )
        .map_err(|error| Error::io("write", &self.path, error))?;
        self.file
            .write_all_at(&header, self.position)
            .map_err(|error| Error::io("write", &self.path, error))?;
        self.cleared = cleared;
        self.position = end;
        Ok(size.group_bytes())
    }

    /// Writes promises, without syncing, and returns the bytes written. Each is a tombstone of
    /// the key with the ballot as its timestamp. A reader may get some of them only.
    ///
    /// # Errors
    /// As [`SegmentWriter::append`].
    pub(crate) fn append_promises(&mut self, promises: &[Entry]) -> Result<u64, Error> {
        let mut written = 0;
        for promises in promises.chunks(PROMISES_A_GROUP) {
            let size = GroupSize::of(promises.iter())?;
            let of = RecordOf::Promise;
            self.buffer.clear();
            write_group(
                size,
                of,
                promises.iter(),
                self.tag,
                self.synced,
                &mut self.buffer,
            );
            written += self.write_buffer()?;
        }
        Ok(written)
    }

    /// Allocates space for groups that end at `end`, and more if possible.
    fn make_room(&mut self, end: u64) -> Result<(), Error> {
        if end <= self.allocated {
            return Ok(());
        }
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
        Ok(())
    }

    /// Where the page ends in which the groups up to `end` do, and before that the space.
    fn page_end(&self, end: u64) -> u64 {
        let page_end = end.next_multiple_of(PAGE_BYTES as u64);
        page_end.min(self.allocated)
    }

    /// Writes the group in the buffer. Returns its length.
    fn write_buffer(&mut self) -> Result<u64, Error> {
        let bytes = self.buffer.len() as u64;
        let end = self.position + bytes;
        self.make_room(end)?;
        // If this fails, what it has written is still to be cleared.
        let before = std::mem::replace(&mut self.cleared, self.position);
        if end > before {
            let bytes = self.page_end(end) - self.position;
            self.buffer.resize(bytes as usize, 0);
        }
        self.file
            .write_all_at(&self.buffer, self.position)
            .map_err(|error| Error::io("write", &self.path, error))?;
        let written_to = self.position + self.buffer.len() as u64;
        self.cleared = before.max(written_to);
        self.position = end;
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
        self.buffer.clear();
        write_seal(self.format, self.tag, self.synced, &mut self.buffer);
        self.write_buffer()?;
        self.sync()
    }

    /// Writes zeros to the next part of the allocated space that was never written;
    /// returns `false` if there is none. The sync after a first write to allocated
    /// space also changes the file system's metadata, and waits for the metadata of
    /// all other files. The sync after a write over zeros, or over what another segment has
    /// left in the file, only writes data.
    ///
    /// # Errors
    /// As [`SegmentWriter::append`].
    pub(crate) fn fill_some(&mut self) -> Result<bool, Error> {
        let from = self.filled.max(self.position);
        let bytes = FILL_BYTES.min(self.allocated.saturating_sub(from));
        if bytes == 0 {
            return Ok(false);
        }
        write_zeros(&*self.file, from..from + bytes)
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
        room >= (self.format.group_header_bytes() + record_bytes) as u64
    }

    /// Checks that the file was not removed: what is written to it would be lost with the process.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn check_name(&self) -> Result<(), Error> {
        let removed = || Err(io::Error::other("it was removed under the running node"));
        let has_name = self.file.has_name();
        has_name
            .and_then(|has_name| if has_name { Ok(()) } else { removed() })
            .map_err(|error| Error::io("write to", &self.path, error))
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

    /// The space of the segment's file.
    pub(crate) fn space(&self) -> SegmentSpace {
        SegmentSpace {
            bytes: self.allocated,
            filled_bytes: self.filled.max(self.position),
        }
    }
}

/// Writes zeros, a piece at a time.
fn write_zeros(file: &dyn DiskFile, range: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES.min(range.end - range.start) as usize];
    let mut at = range.start;
    while at < range.end {
        let count = FILL_BYTES.min(range.end - at);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

/// Gives a file room for at least `bytes` bytes, and returns for how many it has. If this fails,
/// it has what it had: a part of the room would be missing elsewhere.
fn grow(file: &dyn DiskFile, bytes: u64) -> io::Result<u64> {
    let length = file.len()?;
    if bytes <= length {
        return Ok(length);
    }
    let grown = file.allocate(length, bytes - length);
    grown.map(|()| bytes).inspect_err(|_| {
        let _ = file.set_len(length);
    })
}

/// The file of a segment whose header is whole, cleared behind its header: it may hold torn
/// groups of the same tag. It keeps its room, which a full disk would not give back, unless that is
/// more than `bytes` bytes, if any are asked for. [`None`] if there is no such file.
fn reopen_begun(place: SegmentPlace<'_>, bytes: u64) -> Result<Option<Arc<dyn DiskFile>>, Error> {
    let path = place.path();
    let file = match place.disk.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", &path, error)),
    };
    let mut header = [0; SEGMENT_HEADER_BYTES];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(Error::io("read", &path, error)),
    }
    if !matches!(
        read_segment_header(&header, place.tag(), &path),
        Ok(Some(_))
    ) {
        return Ok(None);
    }
    clear(&*file, bytes).map_err(|error| Error::io("clear", &path, error))?;
    Ok(Some(file))
}

/// Writes zeros to what is behind the header of a segment, after cutting it to `bytes` bytes,
/// if any are asked for. If the file system needs room for that, the file's own is of no use.
fn clear(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    let from = SEGMENT_HEADER_BYTES as u64;
    if bytes > 0 && file.len()? > bytes {
        file.set_len(bytes.max(from))?;
    }
    let to = file.written_end()?.max(from);
    match write_zeros(file, from..to) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => file.set_len(from),
        cleared => cleared,
    }
}

/// Writes the header of a segment with this tag to a file with `allocated` bytes, clears the
/// page behind it, and syncs both. Returns how many bytes that wrote.
fn begin_segment(file: &dyn DiskFile, path: &Path, tag: u64, allocated: u64) -> Result<u64, Error> {
    let mut page = segment_header(tag).to_vec();
    page.resize((PAGE_BYTES as u64).min(allocated) as usize, 0);
    file.write_all_at(&page, 0)
        .map_err(|error| Error::io("write", path, error))?;
    file.sync().map_err(|error| Error::sync(path, error))?;
    Ok(page.len() as u64)
}

fn segment_header(tag: u64) -> [u8; SEGMENT_HEADER_BYTES] {
    let version = SegmentFormat::NEWEST.version();
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[0..8].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&version.to_le_bytes());
    header[16..24].copy_from_slice(&tag.to_le_bytes());
    let crc = base::crc32c_append(base::crc32c(&header[0..12]), &header[16..]);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}
