//! How the list of members changes by what peers say, by votes, and by what this node has done. Pure,
//! as all of `state`.
//!
//! A node that forms a cluster has no list at first. Once the nodes have all met, the one with the
//! first name draws the number of the cluster, unless a peer has one. The others take it from whoever
//! has it, and each makes the list of the founders with it.

use crate::state::{Handed, MembershipState, OwnStore, draw_loss};
use base::Random;
use cluster::layout::paxos::{Acceptor, VoteAnswer, VoteRequest};
use cluster::layout::{ClusterId, ListedMember, MemberList, Phase};
use cluster::{Confirmation, Epoch, Member, NodeId, NodeSet};
use peer::ListReport;
use std::sync::Arc;

/// Whether the second list ends the change of the first one, or undoes it.
fn is_end_of(current: &MemberList, list: &MemberList) -> bool {
    let is_next = current.epoch().as_u64() + 1 == list.epoch().as_u64();
    is_next && current.phase() != Phase::Stable
}

impl MembershipState {
    /// Takes what a peer says of the list, in a hello of a start or with a heartbeat; `random` draws
    /// the number of the cluster.
    pub(crate) fn hear_list(
        &mut self,
        own: &OwnStore,
        peer: NodeId,
        report: ListReport,
        is_hello: bool,
        random: &dyn Random,
    ) {
        let said = (report.cluster, report.epoch);
        self.lists.said.insert(peer, said);
        if is_hello {
            // A start with another store may have forgotten what it had reported.
            self.lists.reports.forget(peer);
        }
        self.lists.reports.record(peer, report.member);
        let is_barred = self.lists.is_barred(peer);
        if let Some(known) = self.peers.get(peer) {
            known.bar(is_barred);
        }
        self.form_cluster(own, random);
    }

    /// Makes the list of the nodes that form the cluster, once its number is known or can be drawn.
    fn form_cluster(&mut self, own: &OwnStore, random: &dyn Random) {
        let layout = own.layout();
        let members = layout.members();
        if self.lists.next.list.is_some() || members.is_single_node() {
            return;
        }
        let said = |peer| self.lists.said.get(peer).copied();
        let numbers = members.peers().map(said);
        let Some(said) = numbers.collect::<Option<Vec<_>>>() else {
            return;
        };
        let known = said.iter().map(|(number, _)| *number).find(|it| *it != 0);
        let is_first = members.sorted_names().first() == Some(&members.own_name());
        let number = match known {
            // A list that has changed is handed over.
            Some(_) if said.iter().any(|(_, epoch)| *epoch > Epoch::default()) => return,
            Some(number) => number,
            None if is_first && own.restored_for != 0 => own.restored_for,
            None if is_first => random.next_u64().max(1),
            None => return,
        };
        let nodes: Vec<Member> = members.iter().map(|(_, node)| node.clone()).collect();
        let list = MemberList::founding(ClusterId::new(number), nodes, own.default_pair);
        if let Some(list) = list {
            self.lists.next.list = Some(Arc::new(list));
            self.versions.change();
        }
    }

    /// Makes the list of a cluster anew that has not changed since it was formed, with the names, the
    /// URLs and the pair that the node is started with now; the only node of a cluster makes its
    /// first one, with its zone. The number of the cluster stays.
    pub(crate) fn renew_founding(
        &mut self,
        own: &OwnStore,
        is_cluster_of_one: bool,
        random: &dyn Random,
    ) {
        let number = match self.lists.next.list.as_deref() {
            Some(list) if list.epoch() > Epoch::default() => return,
            Some(list) => list.cluster().as_u64(),
            None if !is_cluster_of_one => return,
            None if own.restored_for != 0 => own.restored_for,
            None => random.next_u64().max(1),
        };
        let layout = own.layout();
        let nodes = layout.members().iter().map(|(_, node)| node.clone());
        let list = MemberList::founding(ClusterId::new(number), nodes.collect(), own.default_pair);
        if let Some(list) = list {
            let list = list.in_zone(own.zone.as_deref());
            self.lists.next.list = Some(Arc::new(list));
            self.versions.change();
        }
    }

    /// Takes a decided list, if it is later than the present one: one of this cluster, or one that an
    /// operator has forced on members of it.
    pub(crate) fn take_list(&mut self, own: &OwnStore, list: &MemberList) -> Handed {
        let own_name = own.layout().members().own_name().to_owned();
        let current = self.lists.next.list.clone();
        if let Some(current) = &current {
            if list.cluster() != current.cluster() && list.forced_from() != Some(current.cluster())
            {
                return Handed::Foreign;
            }
            if list.epoch() <= current.epoch() {
                return Handed::Known;
            }
        }
        match list.get(own.id()) {
            Some(member) if member.member.name() != own_name => return Handed::Foreign,
            Some(member) if !member.is_dead => {}
            _ if current.is_none() => return Handed::Foreign,
            None if current.as_ref().is_some_and(|it| is_end_of(it, list)) => return Handed::Left,
            _ => {
                if !self.lists.is_removed {
                    tracing::error!(
                        epoch = list.epoch().as_u64(),
                        "this node was removed from the list of members, or is declared dead: it \
                         serves nothing any more. Stop it; to have it again, give it an empty data \
                         folder and start it with --join"
                    );
                }
                self.lists.is_removed = true;
                return Handed::Removed;
            }
        }
        self.lists.set_floor(list);
        self.bar_peers();
        self.lists.next.list = Some(Arc::new(list.clone()));
        self.lists.next.acceptor.adopted();
        self.versions.change();
        Handed::Taken
    }

    /// This node has left, and nobody counts on it any more. Returns whether that is new.
    pub(crate) fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.lists.is_removed, true)
    }

    /// Notes that this node is about to leave. Returns whether that is new.
    pub(crate) fn begin_to_leave(&mut self) -> bool {
        !std::mem::replace(&mut self.lists.is_leaving, true)
    }

    /// Takes a decided list that has this node, which waits to join: from its next start on it is a
    /// member. The store with which it joins is a voter, because it has acknowledged nothing that it
    /// could lack. Any other takes the place of a store that was lost, and is a learner.
    pub(crate) fn join(
        &mut self,
        own: &OwnStore,
        list: &MemberList,
        random: &dyn Random,
    ) -> Handed {
        if self.lists.next.list.is_some() {
            return Handed::Known;
        }
        let layout = own.layout();
        let members = layout.members();
        let listed = list.named(members.own_name());
        let is_this = |it: &&ListedMember| it.member.url() == members.own_url() && !it.is_dead;
        let Some(listed) = listed.filter(is_this) else {
            return Handed::Foreign;
        };
        if list.epoch() == Epoch::default() {
            return Handed::Foreign;
        }
        if listed.store.map(|store| store.store_id) == Some(own.store_id) {
            tracing::info!(
                epoch = list.epoch().as_u64(),
                "this node is a member of the cluster"
            );
        } else {
            tracing::warn!(
                epoch = list.epoch().as_u64(),
                "this node is a member of the cluster, which knows another store of it: the \
                 store's reads and acks do not count until a full repair has rebuilt it"
            );
            self.confirmation = Confirmation::Learner { is_outdated: false };
            self.last_loss = draw_loss(random);
            self.lists.lose_votes(own.id());
        }
        self.lists.next.list = Some(Arc::new(list.clone()));
        self.versions.change();
        Handed::Taken
    }

    /// Votes on the next list. The answer holds once the version of the file that is returned with it
    /// is durable.
    pub(crate) fn vote(&mut self, own: &OwnStore, request: VoteRequest) -> (VoteAnswer, u64) {
        let may_vote = self.replica_state().is_voter() && !self.lists.lacks_votes();
        if let VoteRequest::Prepare { on, .. } = &request {
            self.take_list(own, on);
            self.take_founding(on);
        }
        let answer = match self.lists.next.list.clone() {
            Some(list) if may_vote => {
                let before = self.lists.next.acceptor.clone();
                let answer = self.lists.next.acceptor.receive(&list, request);
                if self.lists.next.acceptor != before {
                    self.versions.change();
                }
                answer
            }
            _ => VoteAnswer::Missed,
        };
        (answer, self.versions.latest())
    }

    /// Before the first change each node makes the list by itself, with the URLs and the pair that it
    /// was started with. The voters take those of the proposer.
    fn take_founding(&mut self, on: &MemberList) {
        let Some(list) = &self.lists.next.list else {
            return;
        };
        let is_founding = |list: &MemberList| list.epoch() == Epoch::default();
        let names = |list: &MemberList| -> Vec<(NodeId, String)> {
            let named = |it: &ListedMember| (it.id, it.member.name().to_owned());
            list.members().iter().map(named).collect()
        };
        let is_same = is_founding(list)
            && is_founding(on)
            && list.cluster() == on.cluster()
            && names(list) == names(on);
        if is_same && **list != *on {
            self.lists.next.list = Some(Arc::new(on.clone()));
            self.versions.change();
        }
    }

    /// Takes over the votes of all others, for a store that may have lost its own: what they have
    /// promised and accepted for the list after the one of this epoch.
    pub(crate) fn take_over_votes(&mut self, epoch: Epoch, others: &[Acceptor]) {
        let is_present = self.lists.list().is_some_and(|list| list.epoch() == epoch);
        if is_present && self.lists.next.lacks_votes && self.replica_state().is_voter() {
            for other in others {
                self.lists.next.acceptor.take_over(other);
            }
            self.lists.next.lacks_votes = false;
            self.versions.change();
        }
    }

    /// This node has reported an epoch.
    pub(crate) fn report_epoch(&mut self, own: &OwnStore, epoch: Epoch) {
        let lists = &mut self.lists;
        lists.own.epoch = lists.own.epoch.max(epoch);
        lists.reports.record(own.id(), lists.own);
    }

    /// A full repair session of this change has made the present store equal with these.
    pub(crate) fn set_facts(&mut self, own: &OwnStore, change: Epoch, equal_with: NodeSet) {
        let lists = &mut self.lists;
        (lists.own.change, lists.own.equal_with) = (change, equal_with);
        lists.reports.record(own.id(), lists.own);
    }

    /// Whether this node may take part in a session of a change that copies: it has reported the
    /// change. From then on it serves no peer that has not, and answers it nothing.
    pub(crate) fn raise_floor(&mut self) -> bool {
        let lists = &mut self.lists;
        let Some(list) = lists.durable.clone() else {
            return true;
        };
        if list.phase() != Phase::Copying || lists.floor >= list.change() {
            return true;
        }
        if lists.own.epoch < list.change() {
            return false;
        }
        lists.floor = list.change();
        self.bar_peers();
        true
    }

    /// Bars the peers that have not reported the floor, and no others.
    fn bar_peers(&self) {
        for (peer, known) in self.peers.iter() {
            known.bar(self.lists.is_barred(peer));
        }
    }
}
