//! Writes the blocks of a table's file, one after another.

use super::frame::{FramePacker, Handle, Role};
use crate::disk::{DIRECT_ALIGNMENT, DiskFile};
use crate::error::Error;
use crate::locks::sites as wait_sites;
use crate::options::Compression;
use crate::table::BUFFER_BYTES_KEPT;
use std::path::Path;
use std::sync::Arc;

/// The size of a write, in bytes. Blocks wait until this many bytes are together.
const WRITE_BYTES: usize = 512 << 10;

/// The file is synced after this many bytes of writes. One sync of a whole table at
/// the end would delay the log's syncs behind it for too long.
const SYNC_BYTES: usize = 1 << 20;

/// The blocks of the file, one after another.
pub(in crate::table) struct BlockWriter {
    packer: FramePacker,
    end: FileEnd,
}

/// The end of the file. It gathers bytes into large writes and syncs regularly.
struct FileEnd {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    /// What was not written yet, from `begin` on. While a block is built, its builder has it.
    buffer: Vec<u8>,
    /// Where that begins in the buffer: where direct I/O can take it from, as long as the buffer
    /// does not grow.
    begin: usize,
    /// Where the next block goes in the file.
    offset: u64,
    /// The bytes that were written to the file.
    written: u64,
    /// How many of these bytes were written after the last sync.
    unsynced: usize,
}

impl BlockWriter {
    pub(in crate::table) fn new(
        file: Arc<dyn DiskFile>,
        path: &Path,
        compression: Compression,
    ) -> Self {
        let end = FileEnd {
            file,
            path: path.into(),
            buffer: Vec::new(),
            begin: 0,
            offset: 0,
            written: 0,
            unsynced: 0,
        };
        Self {
            packer: FramePacker::new(compression),
            end,
        }
    }

    /// Leaves a hole of `bytes` bytes, as if they had been written.
    #[cfg(test)]
    pub(in crate::table) fn skip(&mut self, bytes: u64) {
        self.end.written += bytes;
        self.end.offset += bytes;
    }

    /// Where the next byte goes in the file.
    pub(in crate::table) fn offset(&self) -> u64 {
        self.end.offset
    }

    /// Writes a block.
    pub(in crate::table) fn write_block(
        &mut self,
        role: Role,
        payload: &[u8],
    ) -> Result<Handle, Error> {
        let mut buffer = self.take_buffer();
        let start = buffer.len();
        buffer.extend_from_slice(payload);
        self.write_in_place(role, buffer, start)
    }

    /// The buffer of the file's end, to build the next block behind what is in it. It must
    /// come back by [`Self::write_in_place`] before anything else is written.
    pub(in crate::table) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.end.buffer)
    }

    /// Writes the block whose payload is the end of the buffer, from `start` on.
    pub(in crate::table) fn write_in_place(
        &mut self,
        role: Role,
        mut buffer: Vec<u8>,
        start: usize,
    ) -> Result<Handle, Error> {
        let offset = self.offset();
        let payload = &buffer[start..];
        let Some(frame) = self.packer.pack(role, payload, offset) else {
            return Err(Error::Invalid(format!(
                "a block of {} bytes is too long for a table",
                payload.len()
            )));
        };
        if let Some(packed) = frame.packed {
            buffer.truncate(start);
            buffer.extend_from_slice(packed);
        }
        buffer.extend_from_slice(&frame.trailer);
        let bytes = (buffer.len() - start) as u32;
        self.packer.shrink();
        self.end.buffer = buffer;
        self.end.offset += u64::from(bytes);
        self.end.write_pieces()?;
        Ok(Handle { offset, bytes })
    }

    /// Whether a data block with this value had better be written by [`Self::write_around`]:
    /// the value is long, and does not shrink.
    pub(in crate::table) fn goes_around(&mut self, value: &[u8]) -> bool {
        value.len() >= WRITE_BYTES && !self.packer.may_shrink(value)
    }

    /// Writes a data block with a long value, of which no copy is made. The rest of its
    /// payload is the end of the buffer, from `start` on; the value belongs before the last
    /// `tail_bytes` bytes.
    pub(in crate::table) fn write_around(
        &mut self,
        mut buffer: Vec<u8>,
        start: usize,
        value: &[u8],
        tail_bytes: usize,
    ) -> Result<Handle, Error> {
        let offset = self.offset();
        let tail = buffer.split_off(buffer.len() - tail_bytes);
        let parts = [&buffer[start..], value, &tail];
        let Some(trailer) = FramePacker::trailer_of_parts(&parts, offset) else {
            return Err(Error::Invalid(format!(
                "a value of {} bytes is too long for a table",
                value.len()
            )));
        };
        let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = (payload_bytes + trailer.len()) as u32;
        self.end.buffer = buffer;
        self.end.append(value)?;
        self.end.buffer.extend_from_slice(&tail);
        self.end.buffer.extend_from_slice(&trailer);
        self.end.offset += u64::from(bytes);
        self.end.write_pieces()?;
        Ok(Handle { offset, bytes })
    }

    pub(in crate::table) fn finish(&mut self, footer: &[u8]) -> Result<(), Error> {
        self.end.buffer.extend_from_slice(footer);
        self.end.write(self.end.waiting())?;
        sync(&*self.end.file, &self.end.path)
    }
}

impl FileEnd {
    /// How many bytes were not written yet.
    fn waiting(&self) -> usize {
        self.buffer.len() - self.begin
    }

    /// Writes what the buffer has of whole pieces. The rest waits, so that each write begins
    /// where a piece does: the system then takes it in few large parts, and no page is written
    /// twice.
    fn write_pieces(&mut self) -> Result<(), Error> {
        match self.waiting() / WRITE_BYTES {
            0 => Ok(()),
            pieces => self.write(pieces * WRITE_BYTES),
        }
    }

    /// Appends bytes without a copy of their whole pieces.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write_pieces()?;
        let room = WRITE_BYTES - self.waiting();
        let (front, rest) = bytes.split_at(room.min(bytes.len()));
        self.buffer.extend_from_slice(front);
        self.write_pieces()?;
        let (pieces, rest) = rest.split_at(rest.len() / WRITE_BYTES * WRITE_BYTES);
        self.write_out(pieces)?;
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    /// Writes so many bytes of the buffer, and frees the memory of a huge block.
    fn write(&mut self, bytes: usize) -> Result<(), Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let end = self.begin + bytes;
        self.write_out(&buffer[self.begin..end])?;
        buffer.drain(..end);
        buffer.shrink_to(BUFFER_BYTES_KEPT);
        // Zeros before the rest, so that the next pieces need not be copied to be aligned.
        self.begin = buffer.as_ptr().align_offset(DIRECT_ALIGNMENT);
        buffer.splice(..0, std::iter::repeat_n(0, self.begin));
        self.buffer = buffer;
        Ok(())
    }

    /// Writes these bytes to the file, before those in the buffer.
    fn write_out(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.chunks(WRITE_BYTES) {
            self.file
                .write_all_at(piece, self.written)
                .map_err(|source| Error::io("write", &self.path, source))?;
            self.written += piece.len() as u64;
            self.unsynced += piece.len();
            if self.unsynced >= SYNC_BYTES {
                sync(&*self.file, &self.path)?;
                self.unsynced = 0;
            }
        }
        Ok(())
    }
}

fn sync(file: &dyn DiskFile, path: &Path) -> Result<(), Error> {
    wait_sites::TABLE_SYNC
        .time(|| file.sync())
        .map_err(|source| Error::sync(path, source))
}
