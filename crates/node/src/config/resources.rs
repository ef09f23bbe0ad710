//! What a node is given to work with.

/// What the process gives a node to work with. Whoever runs several things in
/// one process divides what it has between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// The runtimes, each of which has a worker.
    pub runtimes: usize,
    /// The most requests that are coordinated at a time, over all runtimes,
    /// each of which has an even share. Whoever lets them in sees to it.
    pub requests_max: usize,
    /// The memory.
    pub memory: MemoryParts,
}

/// The parts of the memory that a node works with, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryParts {
    /// The size at which a memtable is flushed. One is filled while up to
    /// [`MemoryParts::MEMTABLES_FROZEN_MAX`] wait for their flush.
    pub memtable_bytes: usize,
    /// Writes that wait for their group commit.
    pub write_queue_bytes: usize,
    /// The cache for data blocks, filters and index blocks.
    pub cache_bytes: usize,
    /// Requests of peers being worked on; 0 for a node without peers.
    pub peer_bytes: usize,
    /// Values of more than 64 KiB being answered.
    pub answers_bytes: usize,
    /// Batches of ranges being read and answered.
    pub ranges_bytes: usize,
}

impl MemoryParts {
    /// Frozen memtables that may wait for their flush.
    pub const MEMTABLES_FROZEN_MAX: usize = 2;

    /// What all memtables may take.
    #[must_use]
    pub const fn memtables_bytes(&self) -> usize {
        self.memtable_bytes * (1 + Self::MEMTABLES_FROZEN_MAX)
    }

    /// All of it.
    #[must_use]
    pub fn planned_bytes(&self) -> usize {
        [
            self.memtables_bytes(),
            self.write_queue_bytes,
            self.cache_bytes,
            self.peer_bytes,
            self.answers_bytes,
            self.ranges_bytes,
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}
