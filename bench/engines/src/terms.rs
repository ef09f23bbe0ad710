//! The terms that are equal for all engines, as far as each engine has an option.

/// The cache for blocks, filters and indexes, in bytes. It is smaller than the data, so
/// most random reads miss it. The system's page cache holds all data.
pub const CACHE_BYTES: usize = 16 << 20;

/// The size at which a memtable is frozen, in bytes.
pub const MEMTABLE_BYTES: usize = 8 << 20;

/// The largest number of memtables: the active one and those that wait for their flush.
/// fjall has no such option: it stops writers when four memtables wait.
pub const MEMTABLES_MAX: usize = 3;

/// The size of a data block before compression, in bytes.
pub const BLOCK_BYTES: usize = 4 << 10;

/// The size at which compaction begins the next table, in bytes.
pub const TABLE_BYTES: usize = 8 << 20;

/// The number of level-0 tables that starts a compaction.
pub const LEVEL_0_TABLES: usize = 4;

/// The size of the first level below level 0, in bytes.
pub const LEVEL_1_BYTES: usize = LEVEL_0_TABLES * MEMTABLE_BYTES;

/// Bits of a Bloom filter for each key.
pub const FILTER_BITS_PER_KEY: f32 = 10.0;

/// The share of absent keys that such a filter lets through.
pub const FILTER_FALSE_POSITIVE_RATE: f64 = 0.01;

/// Threads for flush and compaction together.
pub const BACKGROUND_THREADS: usize = 2;
