//! The block cache: the blocks, index blocks and filter pages of all tables.
//!
//! One bound on memory applies to all of them, so the blocks that are read most
//! stay, whether they are data or filters. The cache holds blocks as readers use
//! them: unpacked, and verified when they were read. Nobody asks for the blocks of
//! a removed table again, so they age out.
//!
//! Tables reserve a part of the bound for filters that they pin as long as they live
//! (see [`Table::open`](crate::table::Table::open)). A reservation lowers
//! the capacity for blocks, in large steps, and the capacity rises again only when the
//! store is opened anew. Each change of the capacity makes the cache forget some keys
//! of its list of recently evicted blocks.
//!
//! Every read of a table goes through the cache, so it also counts reads, bounds the
//! memory of long ones, and takes the reports of damaged blocks.

mod block;
mod counters;
mod damage_reports;

pub(crate) use block::{Block, LONG_BLOCK_BYTES};
#[cfg(test)]
pub(crate) use counters::ReadCounts;
pub(crate) use counters::{CountsStripe, ReadCounters};
pub(crate) use damage_reports::DamageReports;

use crate::locks::{lock, sites as wait_sites};
use crate::table_id::TableId;
use base::{Quota, Reservation};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex};

/// The memory of a cached block besides its payload, in bytes: the key, two
/// pointers, the links of the eviction queue, the slot of the hash table, the
/// counts of the shared allocation and its rounding.
const BLOCK_OVERHEAD_BYTES: usize = 112;

/// A block larger than the capacity divided by this, or than half a shard, is not kept,
/// because it would push out many blocks that are read more often. From 16 MiB on, half a
/// shard is the smaller one.
const CAPACITY_DIVISOR: usize = 8;

/// Reservations lower the capacity for blocks in steps of the whole capacity
/// divided by this.
const RESERVATION_STEPS: usize = 16;

/// The memory of a shard, which has its own lock, in bytes. With more shards readers
/// meet less often; larger shards have room for larger blocks.
const SHARD_BYTES: usize = 4 << 20;

/// With the number of cores that a node has, more shards than this gain nothing.
const SHARDS_MAX: usize = 64;

/// The size of a usual block, in bytes. The number of recently evicted blocks that the
/// cache remembers follows from it and from the capacity.
const BLOCK_BYTES_USUAL: usize = 4 << 10;

/// The memory that all reads of long blocks share, in bytes. A usual block takes little memory,
/// however many threads read one at a time. A long block holds a value of megabytes, and is in
/// memory twice while it is unpacked.
const LONG_READS_BYTES: usize = 8 << 20;

/// A bounded store of blocks, shared by all tables.
pub(crate) struct BlockCache {
    blocks: Cache<BlockId, Block, BlockWeight, BuildHasherDefault<BlockHasher>>,
    block_bytes_max: usize,
    /// The memory of blocks and reservations together, in bytes.
    capacity_bytes: usize,
    reserved: Mutex<Reserved>,
    counters: ReadCounters,
    /// The memory for long blocks that are being read.
    long_reads: Arc<Quota>,
    damage_reports: DamageReports,
}

/// Table and offset in its file.
type BlockId = (TableId, u64);

impl BlockCache {
    /// A cache of at most `capacity_bytes` bytes of memory. With 0 it keeps nothing.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        // The cache would round the number to a power of two anyway.
        let shards = 1 << (capacity_bytes / SHARD_BYTES).clamp(1, SHARDS_MAX).ilog2();
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity((capacity_bytes / BLOCK_BYTES_USUAL).max(1))
            .weight_capacity(capacity_bytes as u64)
            .build();
        let Ok(options) = options else {
            unreachable!("both capacities were given");
        };
        Self {
            blocks: Cache::with_options(
                options,
                BlockWeight,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            ),
            block_bytes_max: (capacity_bytes / CAPACITY_DIVISOR).min(capacity_bytes / shards / 2),
            capacity_bytes,
            reserved: Mutex::default(),
            counters: ReadCounters::default(),
            long_reads: Quota::new(LONG_READS_BYTES),
            damage_reports: DamageReports::default(),
        }
    }

    /// The block at `offset` in the table's file, if it was kept.
    pub(crate) fn get(&self, table: TableId, offset: u64) -> Option<Block> {
        self.blocks.get(&(table, offset))
    }

    /// Keeps a block for a while, unless it is too large.
    pub(crate) fn insert(&self, table: TableId, offset: u64, block: &Block) {
        if block.memory_bytes() <= self.block_bytes_max {
            self.blocks.insert((table, offset), block.clone());
        }
    }

    /// The memory of the cached blocks and the reservations, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.blocks.weight() + lock(&self.reserved).bytes as u64
    }

    /// Reserves memory for a table; `None` if all reservations together would exceed
    /// the capacity divided by `share`.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        share: usize,
    ) -> Option<CacheReservation> {
        let mut reserved = lock(&self.reserved);
        let sum = reserved.bytes.checked_add(bytes)?;
        if sum > self.capacity_bytes / share {
            return None;
        }
        reserved.bytes = sum;
        if sum > reserved.taken_bytes {
            let step = (self.capacity_bytes / RESERVATION_STEPS).max(1);
            let taken = sum.next_multiple_of(step).min(self.capacity_bytes);
            reserved.taken_bytes = taken;
            let left = self.capacity_bytes - taken;
            self.blocks.set_capacity(left as u64);
        }
        Some(CacheReservation {
            cache: Arc::clone(self),
            bytes,
        })
    }

    /// Waits for the memory to read a long block, first come, first served. One that takes more
    /// than all reads may is read alone. No read waits for anything else meanwhile, so every wait
    /// ends with the reads before it.
    pub(crate) fn reserve_long_read(&self, bytes: usize) -> Option<Reservation> {
        let reserved = self
            .long_reads
            .reserve_blocking(bytes, &wait_sites::LONG_READ);
        // Any number may wait, so none is refused.
        reserved.ok()
    }

    /// Where tables report damage.
    pub(crate) fn damage_reports(&self) -> &DamageReports {
        &self.damage_reports
    }

    /// The counters of reads.
    pub(crate) fn counters(&self) -> &ReadCounters {
        &self.counters
    }
}

/// The memory of the cache that is not for blocks.
#[derive(Default)]
struct Reserved {
    /// The sum of all reservations, in bytes.
    bytes: usize,
    /// By how much the capacity for blocks was lowered, in bytes: at least `bytes`.
    taken_bytes: usize,
}

/// Memory of the cache that a table uses. Dropping it ends the reservation.
pub(crate) struct CacheReservation {
    cache: Arc<BlockCache>,
    bytes: usize,
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        lock(&self.cache.reserved).bytes -= self.bytes;
    }
}

#[derive(Clone)]
struct BlockWeight;

impl Weighter<BlockId, Block> for BlockWeight {
    fn weight(&self, _id: &BlockId, block: &Block) -> u64 {
        (block.memory_bytes() + BLOCK_OVERHEAD_BYTES) as u64
    }
}

/// Hashes a block's table and offset, in every run to the same hash.
#[derive(Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Only the high bits of the product depend on all of the input. Folding the
        // halves brings them down to the low bits.
        let product = u128::from(self.0 ^ number ^ 0x2d35_8dcc_aa6c_78a5) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> Block {
        Block::from(&*vec![7; bytes])
    }

    #[test]
    fn a_block_is_found_by_table_and_offset() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(TableId(1), 0, &Block::from(&b"one"[..]));
        cache.insert(TableId(2), 0, &Block::from(&b"two"[..]));
        cache.insert(TableId(1), 9, &Block::from(&b"nine"[..]));
        let get = |table, offset| {
            cache
                .get(TableId(table), offset)
                .map(|block| block.payload().to_vec())
        };
        assert_eq!(get(1, 0).as_deref(), Some(&b"one"[..]));
        assert_eq!(get(2, 0).as_deref(), Some(&b"two"[..]));
        assert_eq!(get(1, 9).as_deref(), Some(&b"nine"[..]));
        assert_eq!(get(2, 9), None);
    }

    #[test]
    fn memory_stays_below_the_capacity() {
        for capacity in [0, 1, 5000, 1 << 20, 32 << 20] {
            let cache = BlockCache::new(capacity);
            for offset in 0..20_000 {
                cache.insert(TableId(1), offset * 4096, &block(4096));
            }
            assert!(cache.used_bytes() <= capacity as u64, "{capacity}");
        }
    }

    #[test]
    fn a_full_cache_is_used_and_not_only_its_fullest_shard() {
        let capacity = 32 << 20;
        let cache = BlockCache::new(capacity);
        for offset in 0..20_000 {
            cache.insert(TableId(offset % 40), offset * 4096, &block(4096));
        }
        assert!(cache.used_bytes() >= capacity as u64 * 9 / 10);
    }

    #[test]
    fn tiny_blocks_are_charged_for_what_they_take() {
        let cache = BlockCache::new(1 << 20);
        for offset in 0..100_000 {
            cache.insert(TableId(1), offset, &block(1));
        }
        let kept = (0..100_000)
            .filter(|&offset| cache.get(TableId(1), offset).is_some())
            .count();
        assert!(kept <= (1 << 20) / BLOCK_OVERHEAD_BYTES, "{kept} blocks");
    }

    #[test]
    fn a_block_that_would_push_many_others_out_is_not_kept() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(TableId(1), 0, &block(1 << 17));
        cache.insert(TableId(1), 1, &block((1 << 17) + 1));
        assert!(cache.get(TableId(1), 0).is_some());
        assert!(cache.get(TableId(1), 1).is_none());
    }

    #[test]
    fn reservations_lower_the_capacity_for_blocks_in_steps() {
        let capacity = 8 << 20;
        let cache = Arc::new(BlockCache::new(capacity));
        let fill = || {
            for offset in 0..20_000 {
                cache.insert(TableId(1), offset * 4096, &block(4096));
            }
        };
        fill();
        assert!(
            cache.reserve((2 << 20) + 1, 4).is_none(),
            "more than a quarter"
        );
        let held = cache.reserve(1 << 20, 4).unwrap();
        assert!(cache.reserve(1, 8).is_none(), "more than an eighth");
        let more = cache.reserve(1 << 20, 4).unwrap();
        assert!(cache.reserve(1, 4).is_none());
        for _ in 0..2 {
            assert!(cache.used_bytes() <= capacity as u64);
            assert!(cache.blocks.weight() <= 6 << 20);
            fill();
        }
        drop((held, more));
        // The capacity does not change again, however often tables come and go.
        for _ in 0..100 {
            assert!(cache.reserve(2 << 20, 4).is_some());
        }
        assert_eq!(cache.blocks.capacity(), 6 << 20);
        let small = Arc::new(BlockCache::new(capacity));
        let _held = small.reserve(1, 4).unwrap();
        assert_eq!(small.blocks.capacity(), (8 << 20) / 16 * 15, "by steps");
    }
}
