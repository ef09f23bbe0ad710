//! What a start reads from the file `CLUSTER`, and when it refuses the folder.

use super::cluster_file::{ClusterFile, Run};
use super::state::{Opening, draw_loss};
use base::{BootId, Random};
use cluster::{Confirmation, Epoch, Members, NodeId, NodeUrl, ReplicaState, STARTS_MAX};
use lsm::Error;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
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
        "the data folder belongs to a cluster of {was}, and the list is now {is}: start this node \
         with the list that it had. Nodes join by --join, and leave by 'kvorum admin members' (a \
         node may change its URL, but not its name)"
    )]
    OtherNodes {
        /// The names in the folder.
        was: String,
        /// The names that were given.
        is: String,
    },
    /// The folder is of a release that took the URLs of nodes for their names.
    #[error(
        "the data folder names the nodes of the cluster by their URLs, as earlier releases did. \
         The names place the keys, so keep them: --cluster {list}"
    )]
    UrlsAreNames {
        /// The list that keeps the names.
        list: String,
    },
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] Error),
}

/// How a store is opened now that has `store_id` and has acknowledged so many writes, as
/// far as the file says. With `accept_data_loss`, an operator accepts it as it is.
pub(super) fn opening(
    loaded: Option<&ClusterFile>,
    members: &Members,
    run: Run,
    (store_id, acknowledged, now_unix_ms): (u64, u64, u64),
    accept_data_loss: bool,
    random: &dyn Random,
) -> Opening {
    let starts = starts_with_another(loaded, store_id, random);
    let same_store = loaded.filter(|loaded| loaded.store_id == store_id);
    let mut confirmation = initial_confirmation(loaded, members, store_id, run.boot_id);
    let was_learner =
        same_store.is_some_and(|loaded| loaded.replica_state == ReplicaState::Learner);
    let is_learner = confirmation.replica_state() == ReplicaState::Learner;
    // What an operator accepts may be a copy, which lacks what its sessions have brought since.
    let last_loss = if is_learner && !was_learner || accept_data_loss {
        draw_loss(random)
    } else {
        same_store.map_or(0, |loaded| loaded.last_loss)
    };
    if accept_data_loss && !members.is_single_node() {
        tracing::warn!("the store is accepted as it is, although it may have lost data");
        confirmation = Confirmation::accepted(members.peers().collect());
    }
    Opening {
        confirmation,
        starts,
        last_loss,
        taken_over: same_store.map_or(0, |loaded| loaded.taken_over),
        created_unix_ms: match same_store {
            Some(loaded) => loaded.created_unix_ms,
            None => Some(now_unix_ms),
        },
        acknowledged,
        lacks_votes: is_learner || accept_data_loss && !members.is_single_node(),
    }
}

/// Logs how a store stands when it is opened.
pub(super) fn log_replica_state(confirmation: &Confirmation) {
    match confirmation.replica_state() {
        ReplicaState::Voter | ReplicaState::ForcedVoter => {}
        ReplicaState::Starting => tracing::info!(
            "the store's reads and acks count once its peers have said what they remember of it"
        ),
        ReplicaState::Learner if confirmation.is_outdated() => tracing::error!(
            "the store is older than what the peers remember, or a copy: its reads and acks do \
             not count, and this node accepts no writes of its own, until a full repair has \
             rebuilt the store; it starts on its own once all nodes are up"
        ),
        ReplicaState::Learner => tracing::error!(
            "the store lost data that it had acknowledged: its reads and acks do not count until \
             a full repair has rebuilt it; that starts on its own once all nodes are up"
        ),
    }
}

/// Whether a power cut may have ended a run and taken the last of its writes, which were
/// acknowledged. Where the boot cannot be told, it may, unless the store was closed.
fn may_have_lost_power(run: Run, now: Option<BootId>) -> bool {
    let is_same_boot = run.boot_id.is_some() && run.boot_id == now;
    !run.is_closed && !run.syncs_commits && !is_same_boot
}

fn initial_confirmation(
    loaded: Option<&ClusterFile>,
    members: &Members,
    store_id: u64,
    boot_id: Option<BootId>,
) -> Confirmation {
    let nodes = members.count();
    let Some(loaded) = loaded.filter(|_| !members.is_single_node()) else {
        return Confirmation::new(nodes);
    };
    if loaded.store_id != store_id {
        return Confirmation::Learner { is_outdated: false };
    }
    // A store that never counted has acknowledged nothing that could be lost.
    let has_counted = matches!(
        loaded.replica_state,
        ReplicaState::Voter | ReplicaState::ForcedVoter
    );
    if has_counted && may_have_lost_power(loaded.run, boot_id) {
        tracing::error!(
            before = ?loaded.run.boot_id,
            now = ?boot_id,
            "the node was not stopped cleanly, and the machine may have restarted since: with \
             this --durability a power cut may have taken the last writes that this store \
             acknowledged"
        );
        return Confirmation::Learner { is_outdated: false };
    }
    let is_unaware = |peer: &NodeId| {
        let node = loaded.nodes.get(members.name(*peer));
        node.is_some_and(|node| node.is_unaware)
    };
    match loaded.replica_state {
        ReplicaState::Starting => Confirmation::new(nodes),
        ReplicaState::Voter => Confirmation::returning(nodes),
        ReplicaState::ForcedVoter => {
            Confirmation::accepted(members.peers().filter(is_unaware).collect())
        }
        ReplicaState::Learner => Confirmation::Learner {
            is_outdated: loaded.is_outdated,
        },
    }
}

/// The starts of the store, with a new one at the end that no start before had.
fn starts_with_another(
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

/// Whether the list of members has changed since the cluster was formed: then the file says who the
/// members are, and not how the node is started.
fn has_changed(loaded: &ClusterFile) -> bool {
    let list = loaded.lists.list.as_ref();
    list.is_some_and(|list| list.epoch() > Epoch::default())
}

/// Checks that the folder belongs to this node in this cluster. A node that was
/// the only one and still is may change its name, because no key is placed by it.
pub(super) fn check_unchanged(
    loaded: &ClusterFile,
    members: &Members,
) -> Result<(), MembershipError> {
    if members.is_single_node() && loaded.nodes.len() == 1 || has_changed(loaded) {
        return Ok(());
    }
    let names = members.sorted_names();
    let was: Vec<&str> = loaded.nodes.keys().map(String::as_str).collect();
    if was != names {
        let urls: Vec<&NodeUrl> = members.iter().map(|(_, node)| node.url()).collect();
        let earlier = |url: &NodeUrl| format!("http://{}", url.authority());
        let has_earlier = |url: &&NodeUrl| loaded.nodes.contains_key(&earlier(url));
        if was.len() == names.len() && urls.iter().all(has_earlier) {
            let named = urls.iter().map(|url| format!("{}={url}", earlier(url)));
            return Err(MembershipError::UrlsAreNames {
                list: named.collect::<Vec<_>>().join(","),
            });
        }
        return Err(MembershipError::OtherNodes {
            was: was.join(", "),
            is: names.join(", "),
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
