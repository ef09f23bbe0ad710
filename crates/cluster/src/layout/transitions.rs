//! Which list of members may follow which, and what a change waits for.
//!
//! ```text
//!                 an operator                all have reported,
//!                 begins a change            gaining nodes have the data
//!   Stable(O) ---------------------> Copying(O, N) ---------> Settling(O, N)
//!     ^   ^                             |                       |       |
//!     |   '---- an operator aborts -----'     an operator aborts|       | all have reported
//!     |                                                         v       v
//!     '------------- all have reported ----------------- Aborting(O, N) Stable(N)
//! ```
//!
//! | phase | a write needs | its first timestamp is judged by | a read needs | scans ask |
//! |---|---|---|---|---|
//! | Stable(O) | `ack` of O | O | `ack` of O | O |
//! | Copying(O, N), Aborting | `ack` of O and of N | O | of each `ack` with the newest version | O |
//! | Settling(O, N) | the same | N | the same | N |
//!
//! Nodes adopt a list at different moments. The rule behind the picture: two lists may be in force
//! side by side **if they share members of whom both need full quorums, and by whom both judge, or
//! if both read from both**. Stable(O) and each Copying(O, ·) share O; Copying(O, N), Settling(O, N)
//! and Aborting(O, N) read from both; Settling(·, N), Stable(N) and each Copying(N, ·) share N. So
//! only three steps wait until all members have **reported** the list before:
//!
//! - *Copying to Settling*, because a Stable(O) and a Settling(O, N) share nothing. It also waits for
//!   the **facts** that each gaining node has found itself equal with each old member, or was made
//!   so, in a repair session that began after both had reported this change. So before anybody judges
//!   by N, its replicas have what was acknowledged or read by O alone.
//! - *Settling to Stable(N)*, because a Copying(O, N) and a Stable(N) share nothing.
//! - *Aborting to Stable(O)*, because a Settling(O, N) and a Stable(O) share nothing.
//!
//! A member that an operator has declared **dead** is waited for nowhere. It stays dead until it has
//! left the list: it may not know of the change, or have been found equal with nobody.

use super::{Epoch, ListedMember, Lists, MemberList, Phase, WhichList};
use crate::members::NodeTable;
use crate::members::{NodeId, NodeSet};

/// What the members have reported of a change, as far as a node has heard. It only grows.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    reports: NodeTable<MemberReport>,
}

/// What a member reports with its heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberReport {
    /// The last epoch whose list is durable at the member and in force in all of it, and whose
    /// predecessors no request of it still goes by.
    pub epoch: Epoch,
    /// The change that `equal_with` is about.
    pub change: Epoch,
    /// The facts: with whom a full repair session of the change has made its present store equal.
    pub equal_with: NodeSet,
}

/// What is to be done about a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeProgress {
    /// No change is under way.
    Stable,
    /// This list is to be decided next.
    Ready(Box<MemberList>),
    /// The change waits.
    Waits(WaitsFor),
}

/// What a change waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitsFor {
    /// The members that have not reported the list.
    pub reports: Vec<NodeId>,
    /// The facts that are missing: a gaining node, and the old member of which it may not have all.
    pub facts: Vec<(NodeId, NodeId)>,
}

impl Reports {
    /// Takes note of a member's report.
    pub fn record(&mut self, node: NodeId, report: MemberReport) {
        let known = self.reports.get_or_insert_with(node, MemberReport::default);
        known.epoch = known.epoch.max(report.epoch);
        // A report replaces the facts: a store that has lost something has lost them.
        known.change = report.change;
        known.equal_with = report.equal_with;
    }

    /// Forgets what a member has reported: it has been started again.
    pub fn forget(&mut self, node: NodeId) {
        self.reports.remove(node);
    }

    /// What a member has reported.
    #[must_use]
    pub fn of(&self, node: NodeId) -> MemberReport {
        self.reports.get(node).copied().unwrap_or_default()
    }

    fn has_fact(&self, change: Epoch, gaining: NodeId, old: NodeId) -> bool {
        let report = self.of(gaining);
        report.change == change && report.equal_with.contains(old)
    }
}

impl MemberList {
    /// Who gains keys in the change: those that join, and if anybody leaves, all new members. None
    /// that is dead.
    #[must_use]
    pub fn gaining(&self) -> NodeSet {
        let leaves = self.members.iter().any(|member| member.lists == Lists::Old);
        let gains = |member: &&ListedMember| {
            !member.is_dead && (member.lists == Lists::New || leaves && member.lists == Lists::Both)
        };
        self.members
            .iter()
            .filter(gains)
            .map(|member| member.id)
            .collect()
    }

    /// The facts that `Settling` needs: each gaining node with each old member that is not dead.
    fn facts_needed(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let old: Vec<NodeId> = self
            .members_of(WhichList::Old)
            .filter(|member| !member.is_dead)
            .map(|member| member.id)
            .collect();
        self.gaining().iter().flat_map(move |gaining| {
            let others = old.clone().into_iter().filter(move |it| *it != gaining);
            others.map(move |old| (gaining, old))
        })
    }

    /// What is to be done about the change. The list that it returns is the same on all nodes that
    /// have heard enough, so it does not matter which of them proposes it.
    #[must_use]
    pub fn progress(&self, reports: &Reports) -> ChangeProgress {
        if self.phase == Phase::Stable {
            return match self.without_dead() {
                Some(next) => ChangeProgress::Ready(Box::new(next)),
                None => ChangeProgress::Stable,
            };
        }
        let live = self.live().iter();
        let mut waits_for = WaitsFor {
            reports: live
                .filter(|node| reports.of(*node).epoch < self.epoch)
                .collect(),
            facts: Vec::new(),
        };
        if self.phase == Phase::Copying {
            let is_missing =
                |(gaining, old): &(NodeId, NodeId)| !reports.has_fact(self.change, *gaining, *old);
            waits_for.facts = self.facts_needed().filter(is_missing).collect();
        }
        if waits_for != WaitsFor::default() {
            return ChangeProgress::Waits(waits_for);
        }
        let next = match self.phase {
            Phase::Copying => self.in_phase(Phase::Settling),
            Phase::Settling => self.stable(WhichList::New),
            Phase::Aborting | Phase::Stable => self.stable(WhichList::Old),
        };
        ChangeProgress::Ready(Box::new(next))
    }

    /// The next list, with the same members in another phase of the change.
    pub(super) fn in_phase(&self, phase: Phase) -> Self {
        Self {
            epoch: self.epoch.next(),
            phase,
            ..self.clone()
        }
    }

    /// The next list, without a change: the members of one of the lists.
    pub(super) fn stable(&self, which: WhichList) -> Self {
        let mut next = self.in_phase(Phase::Stable);
        next.members.retain(|member| member.lists.contain(which));
        for member in &mut next.members {
            member.lists = Lists::Both;
        }
        next
    }

    /// The next list, in which the members of a stable one stay or leave as `lists` says.
    pub(super) fn copying(&self, lists: impl Fn(&ListedMember) -> Lists) -> Self {
        let mut next = self.in_phase(Phase::Copying);
        next.change = next.epoch;
        for member in &mut next.members {
            member.lists = lists(member);
        }
        next
    }

    /// The change in which the dead members of a stable list leave it, if there are any, and if
    /// enough others are left.
    fn without_dead(&self) -> Option<Self> {
        if self.dead().is_empty() {
            return None;
        }
        self.copying(|member| {
            if member.is_dead {
                Lists::Old
            } else {
                Lists::Both
            }
        })
        .checked()
    }

    /// Whether this list may be decided as the one after `before`. That says nothing of reports and
    /// facts.
    #[must_use]
    pub fn may_follow(&self, before: &Self) -> bool {
        self.cluster == before.cluster
            && self.forced_from == before.forced_from
            && self.epoch == before.epoch.next()
            && self.greatest_id >= before.greatest_id
            && self.keeps_dead(before)
            && match (before.phase, self.phase) {
                (Phase::Stable, Phase::Stable) => {
                    self.change == before.change && self.has_members_of(before, |_| true)
                }
                (Phase::Stable, Phase::Copying) => {
                    let stays = |it: &ListedMember| it.lists != Lists::New;
                    self.change == self.epoch
                        && self.members.iter().filter(|it| stays(it)).count()
                            == before.members.len()
                        && before.members.iter().all(|it| {
                            let listed = self.get(it.id);
                            listed.is_some_and(|listed| stays(listed) && is_same_node(listed, it))
                        })
                        && self
                            .members
                            .iter()
                            .all(|it| stays(it) || it.store.is_some())
                }
                (Phase::Copying, Phase::Copying | Phase::Settling)
                | (Phase::Settling, Phase::Settling | Phase::Aborting)
                | (Phase::Aborting, Phase::Aborting) => {
                    self.change == before.change
                        && self.has_members_of(before, |_| true)
                        && before.members.iter().all(|it| {
                            self.get(it.id)
                                .is_some_and(|listed| listed.lists == it.lists)
                        })
                }
                (Phase::Copying | Phase::Aborting, Phase::Stable) => {
                    self.change == before.change
                        && self.has_members_of(before, |lists| lists != Lists::New)
                }
                (Phase::Settling, Phase::Stable) => {
                    self.change == before.change
                        && self.has_members_of(before, |lists| lists != Lists::Old)
                }
                _ => false,
            }
    }

    /// Whether the members are those of `before` that are in such lists.
    fn has_members_of(&self, before: &Self, are: impl Fn(Lists) -> bool) -> bool {
        let kept = before.members.iter().filter(|member| are(member.lists));
        self.members.len() == kept.clone().count()
            && kept
                .zip(&self.members)
                .all(|(before, member)| is_same_node(before, member))
    }

    /// Whether who was dead and is still a member is dead.
    fn keeps_dead(&self, before: &Self) -> bool {
        let mut dead = before.dead().iter();
        dead.all(|node| self.get(node).is_none_or(|member| member.is_dead))
    }
}

/// Whether both are one node, perhaps with another URL or another store.
fn is_same_node(one: &ListedMember, other: &ListedMember) -> bool {
    one.id == other.id && one.member.name() == other.member.name() && one.zone == other.zone
}
