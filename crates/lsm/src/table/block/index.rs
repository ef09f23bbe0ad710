//! What an index holds for each block, after the block's last key.
//!
//! ```text
//! handle: offset varint, length varint | greatest timestamp u64
//! ```
//!
//! An index block lists data blocks, and the top index block lists index blocks.
//! The greatest timestamp is the greatest of all records in or below the block.

use super::Body;
use super::frame::Handle;
use super::malformed::Malformed;
use base::{ByteReader, Timestamp};

/// A block as an index lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) struct IndexEntry {
    /// Where the block lies.
    pub(in crate::table) handle: Handle,
    /// The greatest timestamp of a record in or below the block.
    pub(in crate::table) greatest_timestamp: Timestamp,
}

impl IndexEntry {
    /// Appends the entry.
    pub(in crate::table) fn encode(self, buffer: &mut Vec<u8>) {
        self.handle.encode(buffer);
        buffer.extend_from_slice(&self.greatest_timestamp.as_u64().to_le_bytes());
    }

    /// Refuses a timestamp in or below the block that is greater than the index
    /// says. Readers skip tables by the greatest timestamp in the properties; this
    /// entry proves that timestamp when the table is opened and read.
    #[inline]
    pub(in crate::table) fn check(self, timestamp: Timestamp) -> Result<(), Malformed> {
        if timestamp <= self.greatest_timestamp {
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
            greatest_timestamp: Timestamp::from_u64(input.u64()?),
        })
    }
}
