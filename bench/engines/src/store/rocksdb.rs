//! RocksDB on the common terms, with the settings of its `db_bench` for point workloads.

use super::{Durability, Failure, Store};
use crate::data::Key;
use crate::terms;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, WaitForCompactOptions, WriteBatch,
    WriteOptions,
};
use std::path::Path;

/// An open RocksDB.
pub struct RocksDb {
    database: DB,
    write_options: WriteOptions,
}

impl RocksDb {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self, Failure> {
        let mut table = BlockBasedOptions::default();
        // With 0 RocksDB estimates the size of an entry itself, which it recommends.
        table.set_block_cache(&Cache::new_hyper_clock_cache(terms::CACHE_BYTES, 0));
        table.set_block_size(terms::BLOCK_BYTES);
        table.set_bloom_filter(f64::from(terms::FILTER_BITS_PER_KEY), false);
        // The other engines bound the memory of filters and indexes too.
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_format_version(6);

        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_write_buffer_size(terms::MEMTABLE_BYTES);
        options.set_max_write_buffer_number(terms::MEMTABLES_MAX as i32);
        options.set_level_zero_file_num_compaction_trigger(terms::LEVEL_0_TABLES as i32);
        options.set_max_bytes_for_level_base(terms::LEVEL_1_BYTES as u64);
        options.set_target_file_size_base(terms::TABLE_BYTES as u64);
        options.set_max_background_jobs(terms::BACKGROUND_THREADS as i32);

        let mut write_options = WriteOptions::default();
        write_options.set_sync(durability == Durability::Sync);
        Ok(Self {
            database: DB::open(&options, folder)?,
            write_options,
        })
    }
}

impl Store for RocksDb {
    fn put(&self, key: &Key, value: &[u8]) -> Result<(), Failure> {
        Ok(self.database.put_opt(key, value, &self.write_options)?)
    }

    fn put_batch(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = WriteBatch::default();
        for (key, value) in pairs {
            batch.put(key, value);
        }
        Ok(self.database.write_opt(batch, &self.write_options)?)
    }

    fn get(&self, key: &Key, seen: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(value) = self.database.get_pinned(key)? {
            seen(&value);
        }
        Ok(())
    }

    fn scan(
        &self,
        start: &[u8],
        count_max: usize,
        seen: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Failure> {
        let mut iterator = self.database.raw_iterator();
        iterator.seek(start);
        let mut count = 0;
        while count < count_max
            && let Some((key, value)) = iterator.item()
        {
            seen(key, value);
            iterator.next();
            count += 1;
        }
        Ok(iterator.status()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.database.wait_for_compact(&options)?)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}
