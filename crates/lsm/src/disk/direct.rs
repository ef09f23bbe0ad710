//! Direct I/O: what is written and read past the system's memory.
//!
//! It spares the processor what the system's memory costs: to find a page, to copy into it
//! and to write it back. And it drives nothing out of that memory that is read more often.

use crate::locks::lock;
use crate::locks::sites as wait_sites;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Direct reads and writes begin, end and lie in memory at multiples of this, in bytes. A disk
/// with longer sectors refuses them, and is used without direct I/O.
pub(crate) const ALIGNMENT: usize = 4096;

/// The most bytes of one direct write.
const PIECE_BYTES: usize = 512 << 10;

/// `bytes` bytes of `memory` that begin at a multiple of [`ALIGNMENT`], and where that is.
/// [`None`] if it is too short; a multiple lies in every [`ALIGNMENT`] bytes.
fn aligned(memory: &mut [u8], bytes: usize) -> Option<(usize, &mut [u8])> {
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    let aligned = memory.get_mut(start..start.checked_add(bytes)?)?;
    Some((start, aligned))
}

/// Writes whole pages of a file directly.
pub(super) struct DirectWriter {
    direct: File,
    /// Memory in which a piece is aligned that is not where it lies.
    room: Mutex<Vec<u8>>,
    /// Whether the file system has refused a direct write.
    is_refused: AtomicBool,
}

impl DirectWriter {
    /// A writer of a file that was opened for direct I/O.
    pub(super) fn new(direct: File) -> Self {
        Self {
            direct,
            room: Mutex::default(),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Writes the whole pages that `bytes` begins with, if `offset` is where one begins and the
    /// file system allows that. Returns how many bytes it has written; the rest is for the
    /// system's memory.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn write_pages(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !offset.is_multiple_of(ALIGNMENT as u64) || self.is_refused.load(Relaxed) {
            return Ok(0);
        }
        let mut written = 0;
        for piece in bytes[..bytes.len() / ALIGNMENT * ALIGNMENT].chunks(PIECE_BYTES) {
            match self.write_piece(piece, offset + written as u64) {
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    self.is_refused.store(true, Relaxed);
                    break;
                }
                result => result?,
            }
            written += piece.len();
        }
        Ok(written)
    }

    /// Writes a piece from where it lies, if it is aligned there.
    fn write_piece(&self, piece: &[u8], offset: u64) -> io::Result<()> {
        if piece.as_ptr().align_offset(ALIGNMENT) == 0 {
            return self.direct.write_all_at(piece, offset);
        }
        let mut room = lock(&self.room);
        room.resize(PIECE_BYTES + ALIGNMENT, 0);
        let (_, aligned) = aligned(&mut room, piece.len()).ok_or(Errno::INVAL)?;
        aligned.copy_from_slice(piece);
        self.direct.write_all_at(aligned, offset)
    }
}

/// Reads long pieces of a file directly.
pub struct DirectReader {
    direct: File,
}

impl DirectReader {
    /// A reader of a file that was opened for direct I/O.
    pub(crate) fn new(direct: File) -> Self {
        Self { direct }
    }

    /// The memory that [`DirectReader::read_exact_at`] needs for so many bytes, in bytes.
    pub(crate) const fn memory_bytes(bytes: usize) -> usize {
        // Before what is read, behind it, and to align the memory itself.
        bytes + 3 * ALIGNMENT
    }

    /// Reads `bytes` bytes from `offset` into `memory`. Returns where they begin there.
    ///
    /// # Errors
    /// `UnexpectedEof` if that is not all there, and those of the system, which may refuse
    /// direct reads. Whether the file is too short or damaged, an ordinary read has to tell.
    pub(crate) fn read_exact_at(
        &self,
        memory: &mut [u8],
        offset: u64,
        bytes: usize,
    ) -> io::Result<usize> {
        let before = (offset % ALIGNMENT as u64) as usize;
        let pages = (before + bytes).next_multiple_of(ALIGNMENT);
        let (start, pages) = aligned(memory, pages).ok_or(io::ErrorKind::InvalidInput)?;
        let from = offset - before as u64;
        let read = wait_sites::READ.time(|| {
            rustix::io::retry_on_intr(|| rustix::io::pread(&self.direct, &mut *pages, from))
        })?;
        // At the end of the file it gets less.
        if read >= before + bytes {
            Ok(start + before)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}
