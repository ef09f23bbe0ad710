//! The resources that a node works with.

/// The resources of the process that a node may use. A process with several nodes
/// divides its resources between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// How many runtimes there are; each has a worker.
    pub runtimes: usize,
    /// How many requests may run at a time on all runtimes, each of which has an even
    /// share. The server enforces this before it starts a request.
    pub requests_max: usize,
    /// The memory.
    pub memory: MemoryParts,
}

/// The parts of the memory of a node, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryParts {
    /// The size at which a memtable is flushed. One is filled while up to
    /// [`MemoryParts::MEMTABLES_FROZEN_MAX`] wait for their flush.
    pub memtable_bytes: usize,
    /// Writes that wait for their group commit.
    pub write_queue_bytes: usize,
    /// The cache for data blocks, filters and index blocks.
    pub cache_bytes: usize,
    /// Requests of peers that are running; 0 for a node without peers.
    pub peer_bytes: usize,
    /// Values of more than 64 KiB that are sent to clients.
    pub answers_bytes: usize,
    /// Batches of scans that are read and sent to clients.
    pub scans_bytes: usize,
}

impl MemoryParts {
    /// How many frozen memtables may wait for their flush.
    pub const MEMTABLES_FROZEN_MAX: usize = 2;

    /// The memory of all memtables.
    #[must_use]
    pub const fn memtables_bytes(&self) -> usize {
        self.memtable_bytes * (1 + Self::MEMTABLES_FROZEN_MAX)
    }

    /// From how many bytes of keys and values on an ingest is committed. A session that is
    /// cut short loses that much work at most; and the more memory the node has, the
    /// more tables may be open before they are part of the store.
    #[must_use]
    pub const fn ingest_bytes_max(&self) -> usize {
        const INGEST_BYTES_MAX: usize = 256 << 20;
        match self.memtable_bytes.saturating_mul(16) {
            bytes if bytes < INGEST_BYTES_MAX => bytes,
            _ => INGEST_BYTES_MAX,
        }
    }

    /// The most bytes of keys and values that a range of a repair has. A session keeps two
    /// ranges of which it may have streamed twice as much, so it holds as much as two
    /// memtables at most, unless those are very small: a range of few keys does not pay
    /// for what it costs to compare it, and is not streamed. A node that streams to others, and is
    /// not streamed to, keeps about one range instead.
    #[must_use]
    pub fn repair_range_bytes_max(&self) -> usize {
        (self.memtable_bytes / 2).clamp(4 << 20, 16 << 20)
    }

    /// The sum of all parts.
    #[must_use]
    pub fn planned_bytes(&self) -> usize {
        [
            self.memtables_bytes(),
            self.write_queue_bytes,
            self.cache_bytes,
            self.peer_bytes,
            self.answers_bytes,
            self.scans_bytes,
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}
