//! The metrics of a node for the page of metrics, as plain data: its store and the other nodes.

mod background;
mod cluster;
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
    families.extend(repair::families(node, &snapshot.repair));
    families.extend(tombstone_gc::families(node, &snapshot));
    families.extend(background::families(node));
    families
}
