//! A block as the cache and its readers share it.

use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// A block of at least this many bytes holds one long value and little else.
pub(crate) const LONG_BLOCK_BYTES: usize = 64 << 10;

/// The unpacked payload of a frame, shared by the cache and its readers.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The memory that holds the payload. If the frame was not compressed, this is what
    /// the frame was read into: the trailer follows the payload, and a walk that has read
    /// ahead has the frames before and behind it there, too.
    bytes: Arc<[u8]>,
    /// Where the payload begins.
    start: usize,
    payload_bytes: usize,
}

impl Block {
    /// The block whose payload is `payload` of `bytes`, which must lie within them.
    pub(crate) fn new(bytes: Arc<[u8]>, payload: Range<usize>) -> Self {
        debug_assert!(payload.start <= payload.end && payload.end <= bytes.len());
        Self {
            bytes,
            start: payload.start,
            payload_bytes: payload.len(),
        }
    }

    /// The payload.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload_range()]
    }

    /// Where the payload lies in [`Block::memory`].
    #[inline]
    pub(crate) fn payload_range(&self) -> Range<usize> {
        self.start..self.start + self.payload_bytes
    }

    /// The memory that holds the payload.
    #[inline]
    pub(crate) fn memory(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the block is so long that it should not be copied.
    pub(crate) fn is_long(&self) -> bool {
        self.payload_bytes >= LONG_BLOCK_BYTES
    }

    /// The memory of the block, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Joins two ranges of the payload; the first must end before the second begins.
    /// If nobody else holds the block, the result takes its memory over and only the
    /// first range is copied. Otherwise both ranges are copied.
    pub(crate) fn join(mut self, first: Range<usize>, second: Range<usize>) -> Bytes {
        debug_assert!(first.start <= first.end && first.end <= second.start);
        let shifted = |range: Range<usize>| range.start + self.start..range.end + self.start;
        let (first, second) = (shifted(first), shifted(second));
        match Arc::get_mut(&mut self.bytes) {
            Some(bytes) => {
                let start = second.start - first.len();
                bytes.copy_within(first, start);
                Bytes::from_owner(self.bytes).slice(start..second.end)
            }
            None => Bytes::from([&self.bytes[first], &self.bytes[second]].concat()),
        }
    }
}

impl From<&[u8]> for Block {
    fn from(payload: &[u8]) -> Self {
        Self {
            bytes: payload.into(),
            start: 0,
            payload_bytes: payload.len(),
        }
    }
}
