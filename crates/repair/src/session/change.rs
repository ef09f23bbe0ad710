//! What repair does for a change of the members: full sessions bring the data to the nodes that
//! gain keys, and show the facts that the change waits for ([`cluster::repair::Facts`]).

use super::worker::{RepairSessions, RepairWorker};
use cluster::layout::{Phase, WaitsFor};
use cluster::repair::{Facts, facts_to_make};
use cluster::{Epoch, NodeId, NodeSet};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a node that is asked to take part in a session waits until it has reported the change.
const FLOOR_MAX: Duration = Duration::from_secs(5);
/// How often it looks.
const FLOOR_LOOK: Duration = Duration::from_millis(50);

/// A change of the members, as this node takes part in it.
pub struct ChangeView {
    /// What the change waits for.
    pub waits_for: Box<dyn Fn() -> WaitsFor + Send + Sync>,
    /// Has this node answer no request of an earlier list any more. Returns whether that is so.
    pub raise_floor: Box<dyn Fn() -> bool + Send + Sync>,
    /// Has this node report its facts of the change that began with this epoch.
    pub set_facts: Box<dyn Fn(Epoch, NodeSet) + Send + Sync>,
}

impl ChangeView {
    /// That of a node whose list of members does not change.
    #[must_use]
    pub fn none() -> Self {
        Self {
            waits_for: Box::new(WaitsFor::default),
            raise_floor: Box::new(|| true),
            set_facts: Box::new(|_, _| {}),
        }
    }
}

impl RepairSessions {
    /// The facts that hold for the store of this node, if a full session of a change has shown any.
    pub fn facts(&self) -> Option<Facts> {
        let incarnation = self.environment.membership.incarnation();
        self.record.facts(incarnation)
    }

    /// Has the facts reported that hold now.
    pub(super) fn report_facts(&self) {
        let change = self.environment.layouts.peek().change();
        let facts = self.facts().filter(|facts| facts.change == change);
        let equal_with = facts.map_or_else(NodeSet::default, |facts| facts.equal_with);
        (self.environment.change.set_facts)(change, equal_with);
    }
}

impl RepairWorker {
    /// Whether this node can take part in a full session now: in a change it answers no request of
    /// the list before any more, so that nothing is acknowledged by old members alone behind the
    /// comparison.
    pub(super) async fn is_ready_for_full(&self) -> bool {
        let environment = &self.sessions.environment;
        let is_in_change = || environment.layouts.peek().phase() != Phase::Stable;
        let mut left = FLOOR_MAX;
        while is_in_change() && !(environment.change.raise_floor)() {
            if left.is_zero() {
                return false;
            }
            tokio::time::sleep(FLOOR_LOOK).await;
            left = left.saturating_sub(FLOOR_LOOK);
        }
        true
    }

    /// As many of these bytes as count as moved: all that sessions bring in a change.
    pub(super) fn moved_bytes(&self, bytes: usize) -> u64 {
        let layouts = &self.sessions.environment.layouts;
        if layouts.peek().phase() == Phase::Stable {
            0
        } else {
            bytes as u64
        }
    }

    /// The facts that a session can show now, and for which this node is the first that is up. None
    /// while a member that is up has not reported the change: it takes part in no session yet.
    pub(super) fn facts_to_make(&self) -> BTreeSet<(NodeId, NodeId)> {
        let environment = &self.sessions.environment;
        if environment.layouts.peek().phase() != Phase::Copying || !self.is_first_up() {
            return BTreeSet::new();
        }
        let WaitsFor { reports, facts } = (environment.change.waits_for)();
        if reports.iter().any(|node| self.is_up(*node)) {
            return BTreeSet::new();
        }
        facts_to_make(&facts, |node| self.is_up(node)).collect()
    }
}
