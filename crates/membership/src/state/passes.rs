//! What repair sessions show about stores: that this node's own one is rebuilt, and up to where the
//! others are safe.

use super::{MembershipState, OwnStore};
use cluster::NodeId;
use cluster::sweep::{Incarnation, PassId};
use std::sync::Arc;

/// The passes that are remembered. More than one is rare, because it takes two drivers.
const PASSES_MAX: usize = 4;

/// What was known when a pass began.
pub(crate) struct BegunPass {
    pass: PassId,
    /// This node's store.
    incarnation: Incarnation,
    /// What each node had acknowledged, by its ID.
    acknowledged: Vec<u64>,
}

/// What kept a full pass from filling this node's store, by the IDs of the peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotFilled {
    /// It was not found equal with these.
    unequal: Vec<NodeId>,
    /// The timestamps that these have seen are not observed, because either clock is wrong.
    unheard: Vec<NodeId>,
}

impl NotFilled {
    pub(crate) fn text(&self, own: &OwnStore) -> String {
        let names = |nodes: &[NodeId]| {
            let names: Vec<&str> = nodes.iter().map(|node| own.members.name(*node)).collect();
            names.join(" and ")
        };
        if self.unequal.is_empty() {
            format!(
                "the last full repair has found it equal with all others, but its clock and that \
                 of {} are too far apart to tell which timestamps were issued before: correct the \
                 wrong one",
                names(&self.unheard)
            )
        } else {
            format!(
                "the last full repair did not find it equal with {}",
                names(&self.unequal)
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

    pub(crate) fn pass_began(&mut self, own: &OwnStore, pass: PassId, is_resumed: bool) {
        if is_resumed && self.passes.iter().any(|begun| begun.pass == pass) {
            return;
        }
        self.passes.retain(|begun| begun.pass != pass);
        if self.passes.len() == PASSES_MAX {
            self.passes.pop_front();
        }
        let count = |peer: &super::PeerRecord| {
            let known = peer.remembered.as_ref();
            known.map_or(0, |known| known.acknowledged)
        };
        self.passes.push_back(BegunPass {
            pass,
            incarnation: self.incarnation(own),
            // What they had acknowledged before a restart is not known.
            acknowledged: if is_resumed {
                Vec::new()
            } else {
                self.peers.iter().map(count).collect()
            },
        });
    }

    /// `durable` is the durable count of the engine.
    pub(crate) fn full_pass_ended(
        &mut self,
        own: &OwnStore,
        pass: PassId,
        (clean_with, single_copies): (&[NodeId], &[u64]),
        durable: u64,
    ) {
        let index = self.passes.iter().position(|begun| begun.pass == pass);
        let Some(begun) = index.and_then(|index| self.passes.remove(index)) else {
            return;
        };
        if begun.incarnation != self.incarnation(own) {
            return;
        }
        for peer in clean_with {
            let count = begun.acknowledged.get(peer.index()).copied();
            if let Some(known) = self.peers.get_mut(peer.index())
                && known.lost.is_none()
            {
                // A pass that went on after a restart of this node has no count. The one of an
                // earlier pass still says at most how much has been acknowledged since.
                known.at_full_pass = count.or(known.at_full_pass);
                known.single_copies = single_copies.get(peer.index()).copied();
                self.versions.change();
            }
        }
        let peers = || own.members.peers();
        // Without its timestamps this node could give one a second time.
        let is_heard = |peer: &NodeId| {
            let known = self.peers.get(peer.index());
            known.is_some_and(|known| known.is_observed)
        };
        let not_filled = NotFilled {
            unequal: peers().filter(|peer| !clean_with.contains(peer)).collect(),
            unheard: peers().filter(|peer| !is_heard(peer)).collect(),
        };
        let is_safe = not_filled.unequal.is_empty() && not_filled.unheard.is_empty();
        self.not_filled = (!is_safe).then_some(not_filled);
        if is_safe && self.confirmation.refilled() {
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
        for peer in own.members.peers() {
            let known = self.peers.get(peer.index());
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
