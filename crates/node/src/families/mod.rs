//! What a node tells of itself in numbers, as plain data: of its store, and of
//! its dealings with the other nodes.

mod cluster;
mod store;

use crate::metrics::Family;
use crate::node::Node;

/// What a node counts of its store, of the requests that it coordinates, of
/// its hints and of its peers.
#[must_use]
pub fn families(node: &Node) -> Vec<Family> {
    let mut families = store::families(node);
    families.extend(cluster::families(&node.metrics, node));
    families
}
