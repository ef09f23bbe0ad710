//! What repair sessions show about stores: that this node's own one is rebuilt, and up to where the
//! others are safe.

use super::{MembershipState, OwnStore};
use cluster::comparison::Incarnation;
use cluster::repair::Token;
use cluster::{NodeId, NodeTable};
use std::sync::Arc;

/// What was known when a full session began.
pub(crate) struct BegunSession {
    session: u64,
    /// This node's store.
    incarnation: Incarnation,
    /// What each node had acknowledged.
    acknowledged: NodeTable<u64>,
}

/// What kept a full session from rebuilding this node's store, by the IDs of the peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotRebuilt {
    /// It may lack something that these have.
    lacking: Vec<NodeId>,
    /// The timestamps that these have seen are not observed, because either clock is wrong.
    unheard: Vec<NodeId>,
}

impl NotRebuilt {
    pub(crate) fn text(&self, own: &OwnStore) -> String {
        let names = |nodes: &[NodeId]| {
            let layout = own.layout();
            let members = layout.members();
            let names: Vec<&str> = nodes.iter().map(|node| members.name(*node)).collect();
            names.join(" and ")
        };
        if self.lacking.is_empty() {
            format!(
                "the last full repair has brought it all that the others have, but its clock and that \
                 of {} are too far apart to tell which timestamps were issued before: correct the \
                 wrong one",
                names(&self.unheard)
            )
        } else {
            format!(
                "the last full repair could not bring it everything from {}",
                names(&self.lacking)
            )
        }
    }
}

impl MembershipState {
    pub(crate) fn incarnation(&self, own: &OwnStore) -> Incarnation {
        Incarnation {
            store_id: own.store_id,
            last_loss: self.last_loss,
        }
    }

    pub(crate) fn session_began(&mut self, own: &OwnStore, token: Token) {
        let mut sessions = self.session.iter();
        if token.is_resumed() && sessions.any(|begun| begun.session == token.session) {
            return;
        }
        let count = |(node, peer): (NodeId, &super::PeerRecord)| {
            let known = peer.remembered.as_ref();
            (node, known.map_or(0, |known| known.acknowledged))
        };
        self.session = Some(BegunSession {
            session: token.session,
            incarnation: self.incarnation(own),
            // What they had acknowledged before a restart is not known.
            acknowledged: if token.is_resumed() {
                NodeTable::default()
            } else {
                self.peers.iter().map(count).collect()
            },
        });
    }

    /// `durable` is the durable count of the engine.
    pub(crate) fn session_ended(
        &mut self,
        own: &OwnStore,
        token: Token,
        (has_all_of, single_copies): (&[NodeId], &[u64]),
        durable: u64,
    ) {
        let is_it = |begun: &mut BegunSession| begun.session == token.session;
        let Some(begun) = self.session.take_if(is_it) else {
            return;
        };
        if begun.incarnation != self.incarnation(own) {
            return;
        }
        for peer in has_all_of {
            let count = begun.acknowledged.get(*peer).copied();
            if let Some(known) = self.peers.get_mut(*peer)
                && known.lost.is_none()
            {
                // A session that went on after a restart of this node has no count. The one of an
                // earlier one still says at most how much has been acknowledged since.
                known.at_full_session = count.or(known.at_full_session);
                known.single_copies = single_copies.get(peer.index()).copied();
                self.versions.change();
            }
        }
        let layout = own.layout();
        let peers = || layout.members().peers();
        // Without its timestamps this node could give one a second time.
        let is_heard = |peer: &NodeId| {
            let known = self.peers.get(*peer);
            known.is_some_and(|known| known.is_observed)
        };
        let not_rebuilt = NotRebuilt {
            lacking: peers().filter(|peer| !has_all_of.contains(peer)).collect(),
            unheard: peers().filter(|peer| !is_heard(peer)).collect(),
        };
        let is_safe = not_rebuilt.lacking.is_empty() && not_rebuilt.unheard.is_empty();
        self.not_rebuilt = (!is_safe).then_some(not_rebuilt);
        if is_safe && self.confirmation.rebuilt() {
            self.take_over(own, durable);
            self.versions.change();
            self.note_losses(own);
            tracing::info!("the store is rebuilt: it has everything that its peers have");
        }
    }

    /// Takes over what the peers remember of lost states of this store, because it
    /// includes what is left of them.
    fn take_over(&mut self, own: &OwnStore, durable: u64) {
        let mut starts = self.starts.to_vec();
        let present = starts.pop();
        let mut most = 0;
        for peer in own.layout().members().peers() {
            let known = self.peers.get(peer);
            let Some(said) = known.and_then(|known| known.says) else {
                continue;
            };
            most = most.max(said.acknowledged);
            let heard_of = known.map(|known| Arc::clone(&known.says_starts));
            let heard_of = heard_of.unwrap_or_default();
            // A release that remembers only the last start names no others.
            for start in heard_of.iter().copied().chain([said.start]) {
                if !starts.contains(&start) && present != Some(start) {
                    starts.push(start);
                }
            }
        }
        starts.extend(present);
        starts.drain(..starts.len().saturating_sub(cluster::STARTS_MAX));
        self.starts = starts.into();
        self.acknowledged = self.acknowledged.max(most);
        let told = self.taken_over.saturating_add(durable);
        self.taken_over += most.saturating_sub(told);
    }
}
