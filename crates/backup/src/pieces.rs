//! Reads something a piece at a time, and hashes it.

use crate::layout::Hash;
use sha2::{Digest, Sha256};

/// How much is read at once, in bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// What was read of something with a known length.
pub(crate) struct Pieces {
    bytes: u64,
    offset: u64,
    hasher: Box<Sha256>,
    buffer: Vec<u8>,
}

impl Pieces {
    /// Begins to read so many bytes.
    pub(crate) fn of(bytes: u64) -> Self {
        Self {
            bytes,
            offset: 0,
            hasher: Box::default(),
            buffer: Vec::new(),
        }
    }

    /// How many bytes were read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether all was read.
    pub(crate) fn is_over(&self) -> bool {
        self.offset == self.bytes
    }

    /// Reads the next piece by `read`, which fills a buffer from an offset on. The piece is empty at the
    /// end. After an error the same piece is read again.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn next<E>(
        &mut self,
        read: impl FnOnce(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let bytes = (self.bytes - self.offset).min(PIECE_BYTES);
        self.buffer.resize(bytes as usize, 0);
        if bytes > 0 {
            read(self.offset, &mut self.buffer)?;
            self.hasher.update(&self.buffer);
            self.offset += bytes;
        }
        Ok(&self.buffer)
    }

    /// The SHA-256 of what was read.
    pub(crate) fn hash(self) -> Hash {
        (*self.hasher).finalize().into()
    }
}
