//! What may be lost with the stores that are learners at the same time, in words for the operator.

use super::{Lost, MembershipState, OwnStore};
use cluster::{LostStore, Members, NodeId, PossibleLoss, ReplicaState};
use std::collections::BTreeSet;
use std::fmt;

/// What was found to be lost last.
#[derive(Default)]
pub(crate) struct Losses {
    /// The nodes whose stores are learners now.
    lost: BTreeSet<NodeId>,
    pub(crate) report: Option<LossReport>,
}

/// What may be lost with stores that were learners at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossReport {
    /// The names of their nodes.
    pub nodes: Vec<String>,
    /// How much that may be, as far as this node knows.
    pub loss: PossibleLoss,
    /// Whether all of them have been rebuilt since.
    pub is_over: bool,
}

impl fmt::Display for LossReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PossibleLoss {
            single_copies,
            since_full_session,
            has_unknown,
        } = self.loss;
        let is_single = self.nodes.len() == 1;
        match (self.loss.writes_max(), has_unknown) {
            (0, false) if is_single => {
                formatter.write_str("no write that a second store acknowledged is lost")?;
            }
            (0, false) => formatter.write_str("no acknowledged write is lost")?,
            (0, true) => formatter.write_str("acknowledged writes may be lost")?,
            (1, _) => formatter.write_str("one acknowledged write may be lost")?,
            (writes, _) => write!(formatter, "up to {writes} acknowledged writes may be lost")?,
        }
        write!(
            formatter,
            ": {} came back without everything that {} had acknowledged",
            self.nodes.join(", "),
            if is_single { "it" } else { "they" },
        )?;
        if self.loss.writes_max() == 0 && has_unknown {
            return formatter.write_str(
                ". How many is not known: of at least one of them this node remembers no count, or no \
                 full repair",
            );
        }
        write!(
            formatter,
            ". At the last full repair {single_copies} of {} versions had no second copy",
            if is_single { "its" } else { "their" },
        )?;
        if is_single {
            // A store that is left counts what it has acknowledged, not what others have.
            formatter.write_str(
                ". Writes since then that only this store had (from=1 or ack=1) are not counted",
            )?;
        } else {
            write!(
                formatter,
                ", and {since_full_session} were acknowledged since"
            )?;
        }
        if has_unknown {
            formatter.write_str(
                ". There may be more: of at least one of them this node remembers no count, or no \
                 full repair",
            )
        } else {
            Ok(())
        }
    }
}

impl MembershipState {
    /// Whether this node's store is a voter, and no other one is known to lack something.
    pub(crate) fn are_all_whole(&self) -> bool {
        self.replica_state().is_voter() && self.possible_loss.lost.is_empty()
    }

    /// Notes which stores are learners now. If there is another one, what may be lost is
    /// logged anew.
    pub(crate) fn note_losses(&mut self, own: &OwnStore) {
        let is_own_lost = self.confirmation.replica_state() == ReplicaState::Learner;
        let is_lost = |node: &NodeId| {
            if *node == own.id() {
                is_own_lost
            } else {
                self.peers
                    .get(*node)
                    .is_some_and(|peer| peer.lost.is_some())
            }
        };
        let layout = own.layout();
        let members = layout.members();
        let lost: BTreeSet<NodeId> = members.ids().filter(is_lost).collect();
        // A store that lost something does not know how much; the stores that are left do.
        let can_say = !is_own_lost || lost.len() == usize::from(members.count());
        if can_say && !lost.is_subset(&self.possible_loss.lost) {
            let stores: Vec<LostStore> = lost
                .iter()
                .map(|node| self.lost_store(*node, is_own_lost))
                .collect();
            let report = LossReport {
                nodes: lost
                    .iter()
                    .map(|node| members.name(*node).to_owned())
                    .collect(),
                loss: PossibleLoss::of(&stores),
                is_over: false,
            };
            tracing::warn!("{report}");
            self.possible_loss.report = Some(report);
        }
        if let Some(report) = &mut self.possible_loss.report {
            report.is_over = lost.is_empty();
        }
        self.possible_loss.lost = lost;
    }

    /// A store of a node that has left concerns nobody any more, whatever it lacks.
    pub(crate) fn forget_losses_of_left(&mut self, members: &Members) {
        let lost = &mut self.possible_loss.lost;
        lost.retain(|node| members.contains(*node));
        if let Some(report) = &mut self.possible_loss.report {
            report.is_over = lost.is_empty();
        }
    }

    fn lost_store(&self, node: NodeId, is_own_lost: bool) -> LostStore {
        let known = self.peers.get(node);
        let known = known.filter(|known| known.lost == Some(Lost::State));
        let acknowledged = known.and_then(|known| known.remembered);
        let since = acknowledged.zip(known.and_then(|known| known.at_full_session));
        LostStore {
            single_copies: known.and_then(|known| known.single_copies),
            // What this node has is no measure if its own store lost something, too.
            since_full_session: since
                .filter(|_| !is_own_lost)
                .map(|(last, at_session)| last.acknowledged.saturating_sub(at_session)),
        }
    }
}
