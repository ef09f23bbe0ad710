//! The engine as its owner sees it: most tests have a disk in memory, and a clock and an
//! executor that only the test moves. They are one program, because to link each file alone
//! takes longer than to run it.

#[cfg(test)]
mod acknowledged;
#[cfg(test)]
mod backpressure;
#[cfg(test)]
mod close;
#[cfg(test)]
mod closed_timestamp;
#[cfg(test)]
mod commits;
#[cfg(test)]
#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod compaction;
#[cfg(test)]
mod crashes;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod damaged_tables;
#[cfg(test)]
mod drop_above;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod flush;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod gc_threshold;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod ingest_beside;
#[cfg(test)]
mod log_reuse;
#[cfg(test)]
mod lost_files;
#[cfg(test)]
mod lost_tables;
#[cfg(test)]
mod model;
#[cfg(test)]
mod newer_versions;
#[cfg(test)]
mod non_owned;
#[cfg(test)]
mod purge;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod stuck_compaction;
#[cfg(test)]
mod whole_compaction;
#[cfg(test)]
mod write_rate;
#[cfg(test)]
mod writeback;
