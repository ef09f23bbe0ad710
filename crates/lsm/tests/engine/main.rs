//! The engine as its owner sees it: most tests have a disk in memory, and a clock and an
//! executor that only the test moves. They are one program, because to link each file alone
//! takes longer than to run it.

#[cfg(test)]
mod blobs;
#[cfg(test)]
#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod compaction;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod first_use;
#[cfg(test)]
mod flush;
#[cfg(test)]
mod model;
#[cfg(test)]
mod open_files;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod set_aside;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod store_snapshot;
#[cfg(test)]
mod writes;
