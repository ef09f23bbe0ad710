//! Backups of a cluster: where they lie, what they hold, and how a store is made of one.
//!
//! A backup holds what all stores held at one moment ([`cluster::backup`]): of each store the files
//! of its tables, as they are. Tables never change, so a table that an earlier backup has stored
//! is not stored again.
//!
//! ```text
//! cluster.json           whose target this is: the stores of its cluster
//! tables/3f9a….sst       a table, named by its SHA-256
//! running/ID.json        a backup under way, or a pruning
//! nodes/ID-….json        what the store of a node holds: its tables
//! backups/ID.json        written last: without it there is no backup
//! ```
//!
//! - `target` is where backups lie: a folder that all nodes share. Objects get their names only
//!   once they are complete and durable.
//! - `layout` names the objects, `contents` are those that are no tables.
//! - `upload` stores the tables of one store, a step at a time. `snapshot` is what it reads.
//! - `catalog` begins and completes backups, lists them, verifies them, and prunes them.
//! - `restore` makes the store of one node of a new cluster.
//!
//! # Invariants
//!
//! - **Manifest last.** `backups/ID.json` is written once all that it names is durable and was found
//!   at the target. So a backup that was cut off anywhere is none, and no backup changes an
//!   earlier one.
//! - **One place.** Each node finds at the target what the coordinator has written there before it
//!   stores anything. So a folder that is not shared is noticed at once.
//! - **Nothing that is needed goes.** While a backup runs, no table is removed, and no backup
//!   begins while tables are removed: each of the two notes itself first, and then looks for the
//!   other. Whoever was taken for dead completes nothing and removes nothing more. No wall clock
//!   is asked: neither for who is dead nor for which backups are the newest.
//! - **One cluster.** A target belongs to the cluster whose stores `cluster.json` names. Nobody else
//!   backs up or prunes there.
//! - **Nothing is believed.** A restore and a verification compare all that they read with its
//!   SHA-256.

mod catalog;
mod contents;
mod error;
mod layout;
mod pieces;
mod restore;
mod snapshot;
mod target;
mod upload;

#[cfg(test)]
mod tests;

pub use catalog::{
    Catalog, Listed, Listing, NoteWatch, Prune, Pruned, Running, Unreadable, Verified, Verify,
};
pub use contents::{BackupContents, NodeSummary, Owner, User};
pub use error::BackupError;
pub use layout::{BackupId, FORMAT};
pub use restore::{RESTORING_FILE, Restore, Restored, RestoredFolder, restored_folder};
pub use snapshot::SharedSnapshot;
pub use target::{FolderTarget, ObjectInfo, ObjectReader, ObjectWriter, Target, TargetPlace};
pub use upload::{TableHashes, Upload, UploadOrder, UploadProgress};
