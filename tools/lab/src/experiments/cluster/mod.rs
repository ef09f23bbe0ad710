//! What more nodes and copies cost.

pub(super) mod placement;
pub(super) mod replication;
pub(super) mod sharding;
