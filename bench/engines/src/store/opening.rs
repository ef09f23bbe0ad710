//! Opening an engine's store by the engine's name.

use super::fjall::Fjall;
use super::kvorum::Kvorum;
use super::rocksdb::RocksDb;
use super::{Durability, EngineName, Failure, Store};
use std::path::Path;

/// Opens the engine's store in `folder`, or creates it there, on the common
/// [terms](crate::terms).
///
/// # Errors
/// Those of the engine.
pub fn open(
    name: EngineName,
    folder: &Path,
    durability: Durability,
    value_bytes: usize,
) -> Result<Box<dyn Store>, Failure> {
    std::fs::create_dir_all(folder)?;
    Ok(match name {
        EngineName::Kvorum => Box::new(Kvorum::open(folder, durability, value_bytes)?),
        EngineName::RocksDb => Box::new(RocksDb::open(folder, durability)?),
        EngineName::Fjall => Box::new(Fjall::open(folder, durability)?),
    })
}
