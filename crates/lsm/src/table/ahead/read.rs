//! Reading ahead: a walk reads the data blocks that come next in one piece, and unpacks one
//! after another into the same memory.
//!
//! A block has a few kilobytes, so a call of the system for each costs more than its
//! bytes do. A walk that goes on where it stopped gets four times as much with each read, up
//! to what its purpose allows; one that has passed over blocks begins anew with a single
//! one, because it may pass over the next ones, too.
//!
//! A walk that nobody waits for, over a table that the system hardly has in its memory, reads
//! past that memory: what it reads is seldom read again.

use crate::disk::{CachedFile, DirectReader};
use crate::table::block::frame::{Handle, zeros};
use std::ops::Range;
use std::sync::Arc;

/// The first piece of a walk that turns out to read block after block.
const PIECE_BYTES_MIN: usize = 16 << 10;

/// The longest piece that comes from the system's memory. Those of several tables fit the
/// processor's cache together, so that their blocks are still there when they are checked and
/// copied; and a call of the system costs little beside the copy.
const CACHED_PIECE_BYTES_MAX: usize = 32 << 10;

/// The longest gap to the next data block that is an index block, or blocks that the
/// cache has.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// A piece of a table's file, for one walk. Blocks share its memory.
#[derive(Default)]
pub(in crate::table) struct ReadAhead {
    /// The piece, and perhaps room behind it from a longer one before.
    piece: Arc<[u8]>,
    /// Where the piece lies in the file.
    at: Range<u64>,
    /// Where it begins in its memory.
    begin: usize,
    /// Where the last block ended.
    last_end: u64,
    /// The most bytes of the next piece.
    next_bytes: usize,
    /// The most bytes of any piece.
    bytes_max: usize,
    /// Memory to unpack a block into, once nobody holds the last one any more.
    spare: Arc<[u8]>,
    /// Reads pieces of a file that the system hardly has in its memory, where that works.
    direct: Direct,
}

/// How a walk gets its pieces.
#[derive(Default)]
enum Direct {
    /// Through the system's memory.
    #[default]
    No,
    /// Past it, once there is a piece.
    Asked,
    Open(DirectReader),
}

impl ReadAhead {
    /// The bytes of the frame at `handle`, as a part of a piece. Reads another piece if
    /// needed, which ends at `end` at the latest. [`None`] if that failed.
    pub(in crate::table) fn frame(
        &mut self,
        file: &CachedFile,
        handle: Handle,
        end: u64,
    ) -> Option<(Arc<[u8]>, Range<usize>)> {
        let frame_end = handle.offset.checked_add(u64::from(handle.bytes))?;
        if handle.offset < self.at.start || frame_end > self.at.end {
            self.read(file, handle, frame_end, end)?;
        }
        self.last_end = frame_end;
        let start = self.begin + (handle.offset - self.at.start) as usize;
        let frame = start..start + handle.bytes as usize;
        Some((Arc::clone(&self.piece), frame))
    }

    /// The same, with pieces of at most so many bytes.
    pub(in crate::table) fn up_to(&mut self, bytes_max: usize) -> &mut Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Pieces are to be read past the system's memory from now on.
    pub(in crate::table) fn enable_direct_reads(&mut self) {
        self.direct = Direct::Asked;
    }

    /// Memory to unpack a block into.
    pub(in crate::table) fn spare(&mut self) -> &mut Arc<[u8]> {
        &mut self.spare
    }

    /// The memory that it holds, in bytes.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        self.piece.len() + self.spare.len()
    }

    /// Holds no file any more, until the next piece is read.
    pub(in crate::table) fn close(&mut self) {
        if let Direct::Open(_) = self.direct {
            self.direct = Direct::Asked;
        }
    }

    /// The walk passes over a block: the next read gets a single one.
    pub(in crate::table) fn begin_anew(&mut self) {
        self.next_bytes = 0;
        self.last_end = 0;
    }

    fn read(&mut self, file: &CachedFile, handle: Handle, frame_end: u64, end: u64) -> Option<()> {
        let gap = self.last_end..=self.last_end.saturating_add(GAP_BYTES_MAX);
        let bytes_max = match self.direct {
            Direct::No => self.bytes_max.min(CACHED_PIECE_BYTES_MAX),
            Direct::Asked | Direct::Open(_) => self.bytes_max,
        };
        self.next_bytes = if self.last_end > 0 && gap.contains(&handle.offset) {
            (4 * self.next_bytes).max(PIECE_BYTES_MIN).min(bytes_max)
        } else {
            0
        };
        let piece_end = end.min(handle.offset.saturating_add(self.next_bytes as u64));
        let bytes = (piece_end.max(frame_end) - handle.offset) as usize;
        let before = std::mem::take(&mut self.at);
        if self.next_bytes > 0
            && let Direct::Asked = self.direct
        {
            let opened = file.opened().ok();
            let direct = opened.and_then(|file| file.direct_reader());
            self.direct = direct.map_or(Direct::No, Direct::Open);
        }
        let is_direct = matches!(self.direct, Direct::Open(_));
        self.begin = match self.read_directly(handle.offset, bytes) {
            Some(begin) => begin,
            None => {
                // A direct read that fails may leave anything in the memory.
                let carried = if is_direct {
                    0
                } else {
                    self.carry(before, handle.offset, bytes)
                };
                let room = &mut self.room(bytes)?[carried..bytes];
                let offset = handle.offset + carried as u64;
                file.opened().ok()?.read_exact_at(room, offset).ok()?;
                0
            }
        };
        self.at = handle.offset..handle.offset + bytes as u64;
        Some(())
    }

    /// Moves what a piece that lies at `at` in the file has from `offset` on to where a piece of
    /// `bytes` bytes begins, if that fits its memory. Returns how much it is. A piece seldom ends
    /// where a block does.
    fn carry(&mut self, at: Range<u64>, offset: u64, bytes: usize) -> usize {
        let piece = Arc::get_mut(&mut self.piece).filter(|piece| piece.len() >= bytes);
        let Some(piece) = piece.filter(|_| at.contains(&offset)) else {
            return 0;
        };
        let start = self.begin + (offset - at.start) as usize;
        let carried = bytes.min((at.end - offset) as usize);
        piece.copy_within(start..start + carried, 0);
        carried
    }

    /// Reads a piece past the system's memory, if the walk does so. Returns where it begins in
    /// the memory of the piece.
    fn read_directly(&mut self, offset: u64, bytes: usize) -> Option<usize> {
        if self.next_bytes == 0 {
            return None;
        }
        // Taken out, because the memory is borrowed meanwhile.
        let Direct::Open(direct) = std::mem::take(&mut self.direct) else {
            return None;
        };
        let room = self.room(DirectReader::memory_bytes(bytes))?;
        // If it fails, the walk goes on through the system's memory.
        let begin = direct.read_exact_at(room, offset, bytes).ok()?;
        self.direct = Direct::Open(direct);
        Some(begin)
    }

    /// Memory of at least this length for a piece.
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if Arc::get_mut(&mut self.piece).is_none_or(|piece| piece.len() < bytes) {
            self.piece = zeros(bytes);
        }
        Arc::get_mut(&mut self.piece)
    }
}

/// What holds a piece of so many bytes.
#[cfg(test)]
pub(in crate::table) fn of_bytes(bytes: usize) -> ReadAhead {
    ReadAhead {
        piece: zeros(bytes),
        ..ReadAhead::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disk;
    use crate::testing::MemoryDisk;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    #[test]
    fn a_walk_that_is_over_holds_no_file() {
        let (unreadable, _) = std::io::pipe().unwrap();
        let unreadable = File::from(OwnedFd::from(unreadable));
        let mut walk = ReadAhead {
            direct: Direct::Open(DirectReader::new(unreadable)),
            ..ReadAhead::default()
        };
        walk.close();
        assert!(matches!(walk.direct, Direct::Asked));
        walk.direct = Direct::No;
        walk.close();
        assert!(matches!(walk.direct, Direct::No), "it was refused");
    }

    #[test]
    fn a_walk_whose_direct_reads_fail_goes_on_through_the_systems_memory() {
        const FRAME_BYTES: u32 = 5_000;
        let bytes: Vec<u8> = (0..20 * FRAME_BYTES).map(|at| (at % 251) as u8).collect();
        let disk = MemoryDisk::new();
        disk.create_folder(Path::new("/store")).unwrap();
        let file = disk.create(Path::new("/store/a")).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let file = CachedFile::from(file);
        // At the beginning, or with a part of a frame in the piece.
        for direct_from in 0..10 {
            let mut walk = ReadAhead::default();
            for number in 0..20 {
                if number == direct_from {
                    let (_, unreadable) = std::io::pipe().unwrap();
                    let unreadable = File::from(OwnedFd::from(unreadable));
                    walk.direct = Direct::Open(DirectReader::new(unreadable));
                }
                let handle = Handle {
                    offset: u64::from(number * FRAME_BYTES),
                    bytes: FRAME_BYTES,
                };
                let end = bytes.len() as u64;
                let frame = walk.up_to(1 << 20).frame(&file, handle, end);
                let (piece, frame) = frame.unwrap();
                let from = handle.offset as usize;
                assert!(piece[frame] == bytes[from..from + FRAME_BYTES as usize]);
            }
            assert!(matches!(walk.direct, Direct::No), "it was tried, once");
        }
    }
}
