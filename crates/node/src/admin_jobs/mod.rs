//! What operators order of a node, and it does in the background.
//!
//! - `backups` makes backups of the cluster, and takes part in those of other nodes.
//! - `compactions` compacts the whole store.

pub(crate) mod backups;
pub(crate) mod compactions;
