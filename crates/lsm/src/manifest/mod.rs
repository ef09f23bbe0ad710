//! The manifest: which tables are live, and what else must survive a restart.
//!
//! It is a log, as RocksDB's: a snapshot, and the edits since, each in a frame with a checksum
//! ([`frame`]). Once the edits outweigh the snapshot, the file is replaced as a
//! whole ([`replace_file`](crate::disk::replace_file)) by a new one ([`log`]). The
//! snapshot was durable before the file got its name, and so was each edit before the next one:
//! a crash tears the last edit at most, which was never acknowledged, and anything else that does
//! not fit is corruption.
//!
//! The format of the file, with integers in little endian:
//!
//! ```text
//! file:     | magic | version | snapshot | edits | zeros |
//!           |   8   |   u32   |  frame   | frames|       |
//!
//! snapshot: | store id | progress | tables | damaged ranges | parts set aside |
//!           |   u128   |          |  list  |      list      |      list       |
//!
//! edit:     | progress | removed tables | tables | has damaged ranges | those | has parts | those |
//!           |          |  list of u64   |  list  |         u8         | list  |    u8     | list  |
//!
//! progress: | next table | least log | log claim | greatest timestamp | records before |
//!           |    u64     |    u64    |  2 * u64  |        u64         |      u64       |
//!
//! list:     | count u32 | that many |
//!
//! table:    | level | table id | file bytes | first key  | last key   |
//!           |  u8   |   u64    |    u64     | u16, bytes | u16, bytes |
//!
//! damaged range:  | table id | from byte | to byte | is set aside | first key  | last key   |
//!                 |   u64    |    u64    |   u64   |      u8      | u16, bytes | u16, bytes |
//!
//! part set aside: | table id | file bytes | versions | below | is kept | first key  | last key   |
//!                 |   u64    |    u64     |   u64    |  u64  |   u8    | u16, bytes | u16, bytes |
//! ```
//!
//! A level of 7 says that a table is a blob table, in which long values of others lie. Version 6 is
//! written only while there is one, and version 5 otherwise.
//!
//! Tables and removed tables of a list come by their numbers. The keys of a table are bounds
//! ([`KeyBounds`]). A last key of `u16::MAX` bytes, which no key has, is the end of the key space.
//!
//! In every later version the magic, the version and the frame of the snapshot have the same
//! places, and the checksum of that frame covers the three, so that a reader can distinguish a
//! damaged file from one of a newer version. Versions before 5, which no release wrote, end with
//! a checksum of all before, and are refused.

mod damaged;
mod edit;
mod encoding;
mod file;
mod frame;
mod fuzz;
mod log;
mod progress;
mod set_aside;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use damaged::DamagedRange;
pub(crate) use edit::ManifestEdit;
pub use file::MANIFEST_VERSIONS;
pub use fuzz::fuzz_manifest;
pub use log::holds_store;
pub(crate) use log::{EditError, ManifestLog, ReadManifest};
pub(crate) use progress::{LogClaim, Progress};
pub(crate) use set_aside::{SetAsidePart, kept_tables};
pub(crate) use snapshot::Manifest;
pub(crate) use table::{BLOB_LEVEL, KeyBounds, LEVELS, LiveTable};
