//! What a start takes from the file `CLUSTER`, and when it refuses the folder.

use super::cluster_file::ClusterFile;
use base::Random;
use cluster::{Confirmation, Members, NodeNumber, STARTS_MAX, Standing};
use lsm::Error;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MembershipError {
    /// The folder is another node's.
    #[error(
        "the data folder belongs to node {was}, and this node is {is}: start it as {was}, or \
         give it another --data"
    )]
    OtherNode {
        /// The name in the folder.
        was: String,
        /// The name that was given.
        is: String,
    },
    /// The folder belongs to a cluster of other nodes.
    #[error(
        "the data folder belongs to a cluster of {was}, and the list is now {is}: nodes cannot \
         join or leave yet, so start this node with the list that it had, or with an empty \
         --data folder (a node may change its URL, but not its name)"
    )]
    OtherNodes {
        /// The names in the folder.
        was: String,
        /// The names that were given.
        is: String,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] Error),
}

/// How the store stands at a start, as far as the file says.
pub(super) fn initial_confirmation(
    loaded: Option<&ClusterFile>,
    members: &Members,
    store_id: u64,
) -> Confirmation {
    let nodes = members.count();
    let Some(loaded) = loaded.filter(|_| !members.is_single_node()) else {
        return Confirmation::new(nodes);
    };
    if loaded.store_id != store_id {
        return Confirmation::Unfilled { is_outdated: false };
    }
    let is_unaware = |peer: &NodeNumber| {
        let node = loaded.nodes.get(members.name(*peer));
        node.is_some_and(|node| node.is_unaware)
    };
    match loaded.standing {
        Standing::Unconfirmed => Confirmation::new(nodes),
        Standing::Witness => Confirmation::returning(nodes),
        Standing::Accepted => Confirmation::accepted(members.peers().filter(is_unaware).collect()),
        Standing::Unfilled => Confirmation::Unfilled {
            is_outdated: loaded.is_outdated,
        },
    }
}

/// The starts of the store, with a new one at the end that no start before had.
pub(super) fn starts_with_another(
    loaded: Option<&ClusterFile>,
    store_id: u64,
    random: &dyn Random,
) -> Vec<u64> {
    let loaded = loaded.filter(|loaded| loaded.store_id == store_id);
    let mut starts = loaded.map_or_else(Vec::new, |loaded| loaded.starts.clone());
    let mut start = random.next_u64();
    while starts.contains(&start) {
        start = start.wrapping_add(1);
    }
    starts.push(start);
    starts.drain(..starts.len().saturating_sub(STARTS_MAX));
    starts
}

/// Checks that the folder belongs to this node in this cluster. A node that was
/// the only one and still is may change its name, because no key is placed by it.
pub(super) fn check_unchanged(
    loaded: &ClusterFile,
    members: &Members,
) -> Result<(), MembershipError> {
    if members.is_single_node() && loaded.nodes.len() == 1 {
        return Ok(());
    }
    if !loaded.nodes.keys().map(String::as_str).eq(members.names()) {
        let was: Vec<&str> = loaded.nodes.keys().map(String::as_str).collect();
        let is: Vec<&str> = members.names().collect();
        return Err(MembershipError::OtherNodes {
            was: was.join(", "),
            is: is.join(", "),
        });
    }
    if loaded.own_name != members.own_name() {
        return Err(MembershipError::OtherNode {
            was: loaded.own_name.clone(),
            is: members.own_name().to_owned(),
        });
    }
    Ok(())
}
