//! Writes the blocks of a table's file, one after another.

use super::frame::{FramePacker, Handle, Role};
use crate::disk::DiskFile;
use crate::error::Error;
use crate::options::Compression;
use crate::wait_sites;
use std::path::Path;
use std::sync::Arc;

/// The size of a write, in bytes. Blocks wait until this many bytes are together.
const WRITE_BYTES: usize = 256 << 10;

/// The file is synced after this many bytes of writes. One sync of a whole table at
/// the end would delay the log's syncs behind it for too long.
const SYNC_BYTES: usize = 1 << 20;

/// The blocks of the file, one after another.
pub(super) struct BlockWriter {
    packer: FramePacker,
    end: FileEnd,
}

/// The end of the file. It gathers bytes into large writes and syncs regularly.
struct FileEnd {
    file: Arc<dyn DiskFile>,
    path: Arc<Path>,
    buffer: Vec<u8>,
    /// The bytes that were written to the file.
    written: u64,
    /// How many of these bytes were written after the last sync.
    unsynced: usize,
}

impl BlockWriter {
    pub(super) fn new(file: Arc<dyn DiskFile>, path: &Path, compression: Compression) -> Self {
        let end = FileEnd {
            file,
            path: path.into(),
            buffer: Vec::new(),
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
    pub(super) fn skip(&mut self, bytes: u64) {
        self.end.written += bytes;
    }

    /// Where the next byte goes in the file.
    pub(super) fn offset(&self) -> u64 {
        self.end.offset()
    }

    pub(super) fn write_block(&mut self, role: Role, payload: &[u8]) -> Result<Handle, Error> {
        let offset = self.offset();
        let Some(frame) = self.packer.pack(role, payload, offset) else {
            return Err(Error::Invalid(format!(
                "a block of {} bytes is too long for a table",
                payload.len()
            )));
        };
        let bytes = (frame.body.len() + frame.trailer.len()) as u32;
        self.end.append(frame.body)?;
        self.end.append(&frame.trailer)?;
        self.packer.shrink();
        Ok(Handle { offset, bytes })
    }

    pub(super) fn finish(&mut self, footer: &[u8]) -> Result<(), Error> {
        self.end.append(footer)?;
        self.end.flush()?;
        sync(&*self.end.file, &self.end.path)
    }
}

impl FileEnd {
    /// Where the next byte goes in the file.
    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds bytes. Long ones are written without being copied to the buffer.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() < WRITE_BYTES {
            self.buffer.extend_from_slice(bytes);
            if self.buffer.len() >= WRITE_BYTES {
                self.flush()?;
            }
            return Ok(());
        }
        self.flush()?;
        self.write(bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for chunk in bytes.chunks(WRITE_BYTES) {
            self.file
                .write_all_at(chunk, self.written)
                .map_err(|source| Error::io("write", &self.path, source))?;
            self.written += chunk.len() as u64;
            self.unsynced += chunk.len();
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
