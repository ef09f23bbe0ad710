//! What an index says of each block that it names, after the block's last key.
//!
//! ```text
//! handle: offset varint, length varint | greatest timestamp u64
//! ```
//!
//! An index block names data blocks, the top index block names index blocks;
//! the greatest timestamp is that of all records in or below the block.

use super::block::Body;
use super::frame::Handle;
use super::malformed::Malformed;
use base::{ByteReader, Timestamp};

/// A block as an index names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    /// Where it lies.
    pub(super) handle: Handle,
    /// The greatest timestamp of a record in it.
    pub(super) timestamp_greatest: Timestamp,
}

impl IndexEntry {
    /// Appends the entry.
    pub(super) fn encode(self, buffer: &mut Vec<u8>) {
        self.handle.encode(buffer);
        buffer.extend_from_slice(&self.timestamp_greatest.as_u64().to_le_bytes());
    }

    /// Holds a timestamp found in or below the block against what the index
    /// says: who passes blocks over by it must be able to rely on it.
    #[inline]
    pub(super) fn check(self, timestamp: Timestamp) -> Result<(), Malformed> {
        if timestamp <= self.timestamp_greatest {
            Ok(())
        } else {
            Err(Malformed(
                "the block has a later timestamp than its index says",
            ))
        }
    }
}

impl Body<'_> for IndexEntry {
    #[inline]
    fn decode(input: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            handle: Handle::decode(input)?,
            timestamp_greatest: Timestamp::from_u64(input.u64()?),
        })
    }
}
