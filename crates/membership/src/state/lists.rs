//! The list of members, what this node has promised and accepted for the next one, and what the
//! members report.

use crate::cluster_file::StoredLists;
use cluster::layout::paxos::Acceptor;
use cluster::layout::{MemberList, MemberReport, Phase, Reports};
use cluster::{Epoch, NodeId, NodeSet, NodeTable};
use peer::ListReport;
use std::sync::Arc;

/// What is known of the list of members.
#[derive(Default)]
pub(crate) struct Lists {
    /// The list, the acceptor, and whether votes may be lost; as they will be in the file.
    pub(crate) next: StoredLists,
    /// The list in the durable file.
    pub(crate) durable: Option<Arc<MemberList>>,
    /// What each member has reported, this one too.
    pub(crate) reports: Reports,
    /// What this node reports.
    pub(crate) own: MemberReport,
    /// The number of its cluster and the epoch of its list, as each peer has said in this run.
    pub(crate) said: NodeTable<(u64, Epoch)>,
    /// A peer that has not reported this epoch is only handed lists.
    pub(crate) floor: Epoch,
    /// Whether a decided list does not have this node, or has it as dead.
    pub(crate) is_removed: bool,
    /// Whether it will soon be removed, because the change in which it leaves has ended.
    pub(crate) is_leaving: bool,
}

/// What became of a list that this node was handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handed {
    /// It is the list from now on, and durable in time.
    Taken,
    /// It is not later than the present one.
    Known,
    /// This node is not in it, or is dead.
    Removed,
    /// This node is not in it: the change in which it leaves has ended.
    Left,
    /// It is of another cluster, or has another node under the ID of this one.
    Foreign,
}

impl Lists {
    /// That of a start, as the file says.
    pub(crate) fn new(stored: StoredLists) -> Self {
        let durable = stored.list.clone();
        let mut lists = Self {
            next: stored,
            durable,
            ..Self::default()
        };
        // No request of an earlier run is left.
        let list = lists.next.list.clone();
        if let Some(list) = list {
            lists.own.epoch = list.epoch();
            // Sessions of an earlier run may have taken part in the change.
            if list.phase() != Phase::Stable {
                lists.floor = list.change();
            }
        }
        lists
    }

    /// The list in memory.
    pub(crate) fn list(&self) -> Option<&Arc<MemberList>> {
        self.next.list.as_ref()
    }

    /// The list in the file.
    pub(crate) fn durable(&self) -> Option<&Arc<MemberList>> {
        self.durable.as_ref()
    }

    /// The store of `own`, this node, may have lost what it has promised and accepted, and what it was
    /// made equal with.
    pub(crate) fn lose_votes(&mut self, own: NodeId) {
        self.next.lacks_votes = true;
        self.own.equal_with = NodeSet::default();
        self.reports.record(own, self.own);
    }

    /// What each member has reported.
    pub(crate) fn reports(&self) -> &Reports {
        &self.reports
    }

    /// What this node has promised and accepted for the next list.
    pub(crate) fn acceptor(&self) -> &Acceptor {
        &self.next.acceptor
    }

    /// Whether a decided list does not have this node, or has it as dead.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Whether the votes of this store may be lost.
    pub(crate) fn lacks_votes(&self) -> bool {
        self.next.lacks_votes
    }

    /// What this node says of the list.
    pub(crate) fn report(&self) -> ListReport {
        match &self.durable {
            None => ListReport::default(),
            Some(list) => ListReport {
                cluster: list.cluster().as_u64(),
                epoch: list.epoch(),
                member: self.own,
            },
        }
    }

    /// The epoch of a peer's list, as it has said in this run.
    pub(crate) fn epoch_of(&self, peer: NodeId) -> Option<Epoch> {
        self.said.get(peer).map(|(_, epoch)| *epoch)
    }

    /// Sets the floor for a list. Later phases of a change began only once all members had reported
    /// it. Where no change is under way, the lists that may be in force side by side share all
    /// members: who has not reported one yet has only heard late of a change that was undone.
    pub(crate) fn set_floor(&mut self, list: &MemberList) {
        self.floor = match list.phase() {
            Phase::Stable => Epoch::default(),
            Phase::Copying => self.floor,
            Phase::Settling | Phase::Aborting => self.floor.max(list.change()),
        };
    }

    pub(crate) fn is_barred(&self, peer: NodeId) -> bool {
        self.reports.of(peer).epoch < self.floor
    }

    /// Notes that the file with this content is durable. Returns whether it has another list.
    pub(crate) fn became_durable(&mut self, stored: &StoredLists) -> bool {
        let epoch = |list: &Option<Arc<MemberList>>| list.as_ref().map(|list| list.epoch());
        let is_new = epoch(&stored.list) != epoch(&self.durable);
        self.durable.clone_from(&stored.list);
        is_new
    }
}
