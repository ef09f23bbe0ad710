//! Direct I/O: what is written and read past the system's memory.
//!
//! It spares the processor what the system's memory costs: to find a page, to copy into it
//! and to write it back. And it drives nothing out of that memory that is read more often.

use super::DiskFile;
use super::real::RealFile;
use crate::sync::lock;
use crate::wait_sites;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Direct reads and writes begin, end and lie in memory at multiples of this, in bytes: no
/// disk has longer sectors.
const ALIGNMENT: usize = 4096;

/// The most bytes of one direct write.
const PIECE_BYTES: usize = 512 << 10;

/// Memory that begins at a multiple of [`ALIGNMENT`].
#[derive(Default)]
struct AlignedRoom {
    memory: Vec<u8>,
}

impl AlignedRoom {
    /// Memory of this length.
    fn get(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.len() < bytes + ALIGNMENT {
            self.memory = vec![0; bytes + ALIGNMENT];
        }
        let start = self.memory.as_ptr().align_offset(ALIGNMENT);
        // The offset is unknown to an interpreter only; the system then refuses the memory.
        let rest = self.memory.len() - bytes;
        &mut self.memory[start.min(rest)..][..bytes]
    }
}

/// A new file that is written once, from its beginning to its end. What begins and ends at
/// a multiple of [`ALIGNMENT`] is written directly. The rest, which is at the file's end, goes
/// through the system's memory, and so does all of it if the file system wants it so.
pub(super) struct DirectFile {
    file: RealFile,
    /// The same file, opened for direct I/O.
    direct: File,
    room: Mutex<AlignedRoom>,
    /// Whether the file system has refused a direct write.
    is_refused: AtomicBool,
}

impl DirectFile {
    /// The file that both are handles of, of which the second is for direct I/O.
    pub(super) fn new(file: RealFile, direct: File) -> Self {
        Self {
            file,
            direct,
            room: Mutex::default(),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Writes bytes directly. Returns whether the file system allows that.
    fn write_directly(&self, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let mut room = lock(&self.room);
        let mut at = offset;
        for piece in bytes.chunks(PIECE_BYTES) {
            let aligned = room.get(piece.len());
            aligned.copy_from_slice(piece);
            match wait_sites::WRITE.time(|| self.direct.write_all_at(aligned, at)) {
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    return Ok(false);
                }
                result => result?,
            }
            at += piece.len() as u64;
        }
        Ok(true)
    }
}

impl DiskFile for DirectFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let may_go = offset.is_multiple_of(ALIGNMENT as u64) && !self.is_refused.load(Relaxed);
        let whole = match may_go {
            true => bytes.len() / ALIGNMENT * ALIGNMENT,
            false => 0,
        };
        let (aligned, rest) = bytes.split_at(whole);
        if !aligned.is_empty() && !self.write_directly(aligned, offset)? {
            self.is_refused.store(true, Relaxed);
            return self.file.write_all_at(bytes, offset);
        }
        match rest.is_empty() {
            true => Ok(()),
            false => self.file.write_all_at(rest, offset + whole as u64),
        }
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.file.allocate(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn written_end(&self) -> io::Result<u64> {
        self.file.written_end()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// Reads long pieces of a file directly.
pub struct DirectReader {
    direct: File,
}

impl DirectReader {
    /// A reader of a file that was opened for direct I/O.
    pub(super) fn new(direct: File) -> Self {
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
        let aligned_bytes = (before + bytes).next_multiple_of(ALIGNMENT);
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let aligned = start
            .checked_add(aligned_bytes)
            .and_then(|end| memory.get_mut(start..end))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let from = offset - before as u64;
        let read = wait_sites::READ.time(|| {
            rustix::io::retry_on_intr(|| rustix::io::pread(&self.direct, &mut *aligned, from))
        })?;
        // At the end of the file it gets less.
        match read >= before + bytes {
            true => Ok(start + before),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
