//! The metrics of a node for the page of metrics, as plain data: its store and the other nodes.
//!
//! Each file has the metrics of what it is named after; `cluster` has those of coordinated
//! requests, hints, the clock and the peers.

mod background;
mod backups;
mod cluster;
mod members;
mod repair;
mod store;
mod tombstone_gc;

use crate::metrics::Family;
use crate::node::Node;

/// The metrics about the store, the coordinated requests, the hints, the peers, the
/// repair and the background work of a node. `disk_free_bytes` is what
/// [`Node::disk_free_bytes`] says.
#[must_use]
pub fn metric_families(node: &Node, disk_free_bytes: Option<u64>) -> Vec<Family> {
    let snapshot = node.snapshot();
    let mut families = store::families(node, &snapshot.store, disk_free_bytes);
    families.extend(cluster::families(node, &snapshot));
    families.extend(members::families(node, &snapshot.repair));
    families.extend(repair::families(node, &snapshot.repair));
    families.extend(tombstone_gc::families(node, &snapshot));
    families.extend(background::families(node));
    families.extend(backups::families(node));
    families
}
