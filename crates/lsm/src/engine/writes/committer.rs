//! The committer: what only the holder of the commit lock uses.

use super::newer_versions::NewerVersionChecks;
use super::promises::Promises;
use crate::error::Error;
use crate::manifest::LogClaim;
use crate::wal::SegmentWriter;
use base::{Entry, Hold};

/// Where the log ends: its segment, its bytes and what of them is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct LogPosition {
    pub(in crate::engine) segment: u64,
    pub(in crate::engine) bytes: u64,
    pub(in crate::engine) claim: LogClaim,
}

/// What only the holder of the commit lock uses.
pub(in crate::engine) struct Committer {
    pub(in crate::engine) writer: SegmentWriter,
    /// The sequence number of the next record.
    pub(in crate::engine) next_sequence: u64,
    /// Whether a job to sync the log beside the commits is scheduled.
    pub(in crate::engine) sync_scheduled: bool,
    /// Whether that job syncs the log now.
    pub(in crate::engine) is_syncing_aside: bool,
    /// Whether a job to claim the log is scheduled.
    pub(in crate::engine) claim_scheduled: bool,
    /// The newer-version checks of recent writes, which may be asked for again.
    pub(in crate::engine) newer_versions: NewerVersionChecks,
    /// The promises that the store keeps.
    pub(in crate::engine) promises: Promises,
    /// Holds the commits off.
    pub(in crate::engine) hold: Hold,
}

impl Committer {
    /// The sequence number of the next record.
    pub(in crate::engine) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Issues the sequence number of a record that is committed.
    pub(in crate::engine) fn issue_sequence(&mut self) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        sequence
    }

    /// Appends a group to the log. Returns how many bytes that wrote.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(in crate::engine) fn append<'a, Entries>(&mut self, entries: Entries) -> Result<u64, Error>
    where
        Entries: IntoIterator<Item = &'a Entry, IntoIter: Clone>,
    {
        self.writer.append(entries)
    }

    /// Appends promises to the log. Returns how many bytes that wrote.
    ///
    /// # Errors
    /// As [`Committer::append`].
    pub(in crate::engine) fn append_promises(&mut self, promises: &[Entry]) -> Result<u64, Error> {
        self.writer.append_promises(promises)
    }

    /// Syncs the log.
    ///
    /// # Errors
    /// [`Error::Sync`].
    pub(in crate::engine) fn sync(&mut self) -> Result<(), Error> {
        self.writer.sync()
    }

    /// Whether entries that take `bytes` bytes of memory can be appended by a
    /// write to the system's memory and nothing else.
    pub(in crate::engine) fn is_append_brief(&self, bytes: usize) -> bool {
        // An append during a background sync may block in the file system. `bytes`
        // is enough room, because an entry takes less in the log than in memory.
        !self.is_syncing_aside && self.writer.has_room(bytes)
    }

    /// Where the log ends.
    pub(in crate::engine) fn position(&self) -> LogPosition {
        LogPosition {
            segment: self.writer.segment(),
            bytes: self.writer.position(),
            claim: self.writer.claim(),
        }
    }
}
