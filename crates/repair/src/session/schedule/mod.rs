//! When this node coordinates a session: at intervals, while a store has to be rebuilt, while a
//! change of the members waits for facts, while its own store is damaged, and when an operator asks
//! for one.

mod pacing;

use super::coordinator::{Ended, LOOK_PERIOD};
use super::orders::SessionReport;
use super::part::Participant;
use super::worker::RepairWorker;
use cluster::comparison::RepairKind;
use cluster::repair::{SESSION_IDLE_MAX, SessionId};
use cluster::{NodeId, ReplicaState};
use pacing::{Lacking, Retry, StoreOfNode};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// How often sessions are left that nobody asks about any more.
const LEAVING_PERIOD: Duration = SESSION_IDLE_MAX;

/// How long a coordinator that was restarted has to go on with its session: it looks for that every
/// [`LOOK_PERIOD`].
const GOING_ON_MAX: Duration = Duration::from_secs(10);

/// Whether a session is over, in which nobody has asked for anything for so long, and with whose
/// coordinator this node has been connected for so long.
fn is_abandoned(silent_for: Duration, connected_for: Duration) -> bool {
    connected_for >= GOING_ON_MAX && silent_for > connected_for
}

/// What full sessions are due for, and how long after the last one.
struct FullSessions {
    rebuilding: Lacking<StoreOfNode>,
    facts: Lacking<(NodeId, NodeId)>,
    retry: Retry,
}

impl RepairWorker {
    /// Coordinates a session whenever an operator asks for one, or one is due and this node is
    /// the first of those that are up. Runs for as long as its runtime.
    pub async fn coordinate_forever(self: Rc<Self>) {
        let environment = &self.sessions.environment;
        if self.peers.is_single_node() {
            return;
        }
        let orders = &self.sessions.orders;
        let mut full = FullSessions {
            rebuilding: Lacking::new(),
            facts: Lacking::new(),
            retry: Retry::new(),
        };
        let clock = &environment.clock;
        let mut last_leaving = clock.monotonic();
        loop {
            // Either way there may be something to do.
            let _woken = tokio::time::timeout(LOOK_PERIOD, orders.ordered.notified()).await;
            self.tell_untold().await;
            // The store may have lost something, or another change may have begun.
            self.sessions.report_facts();
            let are_all_up = self.are_all_up();
            full.retry.looked(are_all_up);
            if are_all_up {
                full.rebuilding.looked(&self.stores_to_rebuild());
            }
            full.facts.looked(&self.facts_to_make());
            if clock.monotonic().saturating_sub(last_leaving) >= LEAVING_PERIOD {
                last_leaving = clock.monotonic();
                // It may delete files.
                self.spawn_in_background(Participant::forget_idle);
            }
            self.leave_abandoned();
            let may_begin_full = !self.sessions.record.is_other_full_running();
            let due = || self.due_here(may_begin_full, &full);
            let Some((kind, is_ordered)) = orders.begin(may_begin_full, due) else {
                continue;
            };
            if kind == RepairKind::Full {
                full.rebuilding.began(self.stores_to_rebuild());
                full.facts.began(self.facts_to_make());
            }
            let is_full_due = || {
                let may_begin_full = !self.sessions.record.is_other_full_running();
                let due = || self.due_here(may_begin_full, &full);
                may_begin_full && (orders.is_full_next() || due() == Some(RepairKind::Full))
            };
            // Whoever has ordered a session waits for it.
            let settles: Option<&dyn Fn() -> bool> =
                if is_ordered { None } else { Some(&is_full_due) };
            let ended = match kind {
                RepairKind::Full => self.coordinate_full().await,
                RepairKind::Incremental => Ended::With(self.coordinate_incremental(settles).await),
            };
            match ended {
                Ended::With(report) => self.ended(kind, report, &mut full.retry),
                Ended::Preempted { by } => {
                    tracing::info!(%by, "another repair session is running: this one waits for its end");
                    self.sessions.record.preempted();
                    orders.put_off();
                }
            }
        }
    }

    /// Leaves the full session that this node takes part in if its coordinator was restarted since
    /// it asked for something, and has not gone on, or if it has left the cluster: so another one
    /// need not wait until it is silent for long.
    fn leave_abandoned(&self) {
        let record = &self.sessions.record;
        let Some((token, silent_for)) = record.running_full() else {
            return;
        };
        let coordinator = self.peers.status(token.coordinator());
        let connected_for = coordinator.and_then(|link| link.up_for);
        let layout = self.sessions.environment.layouts.peek();
        let has_left = !layout.members().contains(token.coordinator());
        if has_left
            || connected_for.is_some_and(|connected_for| is_abandoned(silent_for, connected_for))
        {
            tracing::info!(%token, "the coordinator of a repair session does not go on with it");
            record.left(SessionId::Full(token));
            self.sessions.environment.store_side.abandoned(token);
        }
    }

    fn ended(&self, kind: RepairKind, report: SessionReport, retry: &mut Retry) {
        tracing::info!(
            kind = kind.word(),
            ranges = report.ranges,
            differing = report.differing,
            equal_pairs = report.equal_pairs,
            pairs = report.pairs,
            gc_threshold_held_back = report.is_held_back,
            "a repair has ended"
        );
        // One that could not raise the GC threshold is tried again, too.
        let is_done = report.are_all_equal() && !report.is_held_back;
        if kind == RepairKind::Full {
            retry.ended(is_done);
        }
        // This node's own part may have failed.
        self.sessions.record.coordinated(kind, is_done);
        self.sessions.store_file();
        self.sessions.orders.end(report);
    }

    /// The kind of the session that this node is to coordinate, if one is due.
    fn due_here(&self, may_begin_full: bool, full: &FullSessions) -> Option<RepairKind> {
        if self.sessions.environment.membership.is_removed() {
            return None;
        }
        let is_first = self.is_first_up();
        // No other node knows of the damage of its store.
        let is_full_due = self.is_rebuild_due(&full.rebuilding)
            || self.are_facts_due(&full.facts)
            || self.is_interrupted()
            || is_first && self.is_full_due(full.retry.period());
        if may_begin_full && is_full_due {
            return Some(RepairKind::Full);
        }
        let environment = &self.sessions.environment;
        let is_due = |interval| {
            self.sessions
                .record
                .is_due(RepairKind::Incremental, interval)
        };
        let is_incremental_due = is_first && environment.interval.is_some_and(is_due);
        is_incremental_due.then_some(RepairKind::Incremental)
    }

    /// Whether a restart has cut a full session short that this node coordinates: no other one can
    /// begin as long as its stores wait for it.
    fn is_interrupted(&self) -> bool {
        let now_unix_ms = self.sessions.environment.clock.unix_ms();
        self.sessions.checkpoints.is_interrupted(now_unix_ms)
    }

    /// Whether a full session is due: at its interval, and `retry_period` after one that did not do
    /// everything.
    fn is_full_due(&self, retry_period: Duration) -> bool {
        let record = &self.sessions.record;
        let interval = self.sessions.environment.full_interval;
        interval.is_some_and(|interval| {
            record.is_due(RepairKind::Full, interval)
                || self.are_all_up() && record.is_retry_due(retry_period.min(interval))
        })
    }

    /// Whether stores have to be rebuilt, and a full session is due that this node coordinates for
    /// them.
    fn is_rebuild_due(&self, rebuilding: &Lacking<StoreOfNode>) -> bool {
        let lacking = self.stores_to_rebuild();
        let period = rebuilding.period_for(&lacking);
        !lacking.is_empty() && self.sessions.record.is_due(RepairKind::Full, period)
    }

    /// Whether a change of the members waits for facts that nodes which are up can show, and a full
    /// session is due that this node coordinates for them.
    fn are_facts_due(&self, facts: &Lacking<(NodeId, NodeId)>) -> bool {
        let lacking = self.facts_to_make();
        let period = facts.period_for(&lacking);
        !lacking.is_empty() && self.sessions.record.is_due(RepairKind::Full, period)
    }

    /// The stores that a full session of this node is to rebuild: its own if it is damaged, and
    /// those of other nodes only if this node is the first that is up. None while a node is
    /// missing: that takes a comparison with all.
    fn stores_to_rebuild(&self) -> BTreeSet<StoreOfNode> {
        let environment = &self.sessions.environment;
        let mut lacking: BTreeSet<NodeId> = BTreeSet::new();
        if self.are_all_up() {
            // The others know of a store that is a learner.
            if environment.engine.has_uncompared_damage() {
                lacking.insert(self.peers.own());
            }
            if self.is_first_up() {
                lacking.extend(self.learners());
            }
        }
        let store_of = |node| (node, environment.membership.store_of(node));
        lacking.into_iter().map(store_of).collect()
    }

    /// The nodes whose stores have to be rebuilt. None unless all replica states are known.
    fn learners(&self) -> Vec<NodeId> {
        let layout = self.peers.layout();
        let members = layout.members();
        let replica_states: Option<Vec<(NodeId, ReplicaState)>> = members
            .ids()
            .map(|node| Some((node, self.replica_state_of(node)?)))
            .collect();
        let learners = replica_states.unwrap_or_default().into_iter();
        let learners = learners.filter(|(_, state)| *state == ReplicaState::Learner);
        learners.map(|(node, _)| node).collect()
    }

    /// Whether this node is the first by ID of those that are up.
    pub(super) fn is_first_up(&self) -> bool {
        let layout = self.peers.layout();
        let members = layout.members();
        let first = members.ids().find(|node| self.is_up(*node));
        first == Some(members.own())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_over_if_its_coordinator_connects_again_and_does_not_go_on() {
        let seconds = Duration::from_secs;
        for (silent_for, connected_for, expected) in [
            // It takes long, by a connection that it had before.
            (100, 1_000, false),
            (11, 11, false),
            // It may go on yet.
            (100, 9, false),
            (11, 10, true),
        ] {
            let is_over = is_abandoned(seconds(silent_for), seconds(connected_for));
            assert_eq!(is_over, expected, "{silent_for} s, {connected_for} s");
        }
    }
}
