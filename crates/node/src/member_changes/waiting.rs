//! The nodes that wait to join, as a member knows them: who they are, and whether they can be reached.

use super::order::ChangeRefusal;
use super::status::WaitingNode;
use cluster::layout::{Joiner, MemberList};
use peer::{JoinerDisk, KnownJoiner};
use std::collections::BTreeMap;
use std::time::Duration;

/// How many nodes may wait. Further ones are not known.
const WAITING_MAX: usize = 16;

/// For how long a node counts as waiting that is not heard any more.
const HEARD_MAX: Duration = Duration::from_secs(5);

/// The nodes that wait to join, by name.
#[derive(Default)]
pub(super) struct WaitingNodes(BTreeMap<String, Waiting>);

struct Waiting {
    joiner: Joiner,
    ahead_ms: i64,
    disk: JoinerDisk,
    /// When it was heard last, on the monotonic clock.
    heard: Duration,
    /// When it was reached last, or found out of reach.
    reached: Option<Duration>,
    /// Whether it is being dialled.
    is_dialled: bool,
}

impl WaitingNodes {
    /// Notes that a node waits, whose clock is ahead by so much and which has this disk. Returns
    /// whether it is to be dialled.
    pub(super) fn hear(
        &mut self,
        joiner: &Joiner,
        (ahead_ms, disk): (i64, JoinerDisk),
        now: Duration,
    ) -> bool {
        self.0.retain(|_, waiting| now < waiting.heard + HEARD_MAX);
        let name = joiner.member.name();
        if self.0.len() >= WAITING_MAX && !self.0.contains_key(name) {
            return false;
        }
        let waiting = self.0.entry(name.to_owned()).or_insert_with(|| Waiting {
            joiner: joiner.clone(),
            ahead_ms,
            disk,
            heard: now,
            reached: None,
            is_dialled: false,
        });
        if waiting.joiner.member != joiner.member {
            waiting.reached = None;
        }
        waiting.joiner = joiner.clone();
        (waiting.ahead_ms, waiting.disk, waiting.heard) = (ahead_ms, disk, now);
        !std::mem::replace(&mut waiting.is_dialled, true)
    }

    /// Notes whether a node that waits was reached.
    pub(super) fn dialled(&mut self, name: &str, is_reached: bool, now: Duration) {
        if let Some(waiting) = self.0.get_mut(name) {
            waiting.is_dialled = false;
            waiting.reached = is_reached.then_some(now);
        }
    }

    /// The nodes that wait.
    pub(super) fn list(&self, now: Duration) -> Vec<WaitingNode> {
        let waiting = self.0.values().filter(|it| now < it.heard + HEARD_MAX);
        let node = |waiting: &Waiting| WaitingNode {
            member: waiting.joiner.member.clone(),
            zone: waiting.joiner.zone.clone(),
            ahead_ms: waiting.ahead_ms,
            disk: waiting.disk,
            heard_ago: now.saturating_sub(waiting.heard),
        };
        waiting.map(node).collect()
    }

    /// Forgets those that are members by now: with another store they begin to wait anew.
    pub(super) fn forget_members(&mut self, list: &MemberList) {
        self.0.retain(|name, _| list.named(name).is_none());
    }

    /// What this node knows of the node with this name.
    pub(super) fn knows(&self, name: &str, now: Duration) -> KnownJoiner {
        let is_late = |at: Duration| now >= at + HEARD_MAX;
        let waiting = self.0.get(name).filter(|it| !is_late(it.heard));
        KnownJoiner {
            is_heard: waiting.is_some(),
            is_reached: waiting.is_some_and(|it| it.reached.is_some_and(|at| !is_late(at))),
        }
    }

    /// The node with this name, if it may join: it waits, and its clock is right.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn joiner(
        &self,
        name: &str,
        clock_drift_max: Duration,
        now: Duration,
    ) -> Result<Joiner, ChangeRefusal> {
        let name = || name.to_owned();
        let waiting = self.0.get(&name());
        let Some(waiting) = waiting.filter(|it| now < it.heard + HEARD_MAX) else {
            return Err(ChangeRefusal::NotWaiting { name: name() });
        };
        let ahead_ms = waiting.ahead_ms;
        if u128::from(ahead_ms.unsigned_abs()) > clock_drift_max.as_millis() {
            return Err(ChangeRefusal::Clock {
                name: name(),
                ahead_ms,
            });
        }
        Ok(waiting.joiner.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::layout::JoinedStore;

    #[test]
    fn only_a_node_that_was_heard_lately_and_has_the_time_joins() {
        let secs = Duration::from_secs;
        let drift = secs(60);
        let at = |ahead_ms| (ahead_ms, JoinerDisk::default());
        let joiner = Joiner {
            member: "d=http://d:1".parse().unwrap(),
            zone: None,
            store: JoinedStore {
                store_id: 1,
                start: 2,
            },
        };
        let mut nodes = WaitingNodes::default();
        let may_join = |nodes: &WaitingNodes, now| nodes.joiner("d", drift, now);
        let known = |is_heard, is_reached| KnownJoiner {
            is_heard,
            is_reached,
        };
        let name = || "d".to_owned();
        let not_waiting = ChangeRefusal::NotWaiting { name: name() };
        assert_eq!(may_join(&nodes, secs(0)), Err(not_waiting.clone()));
        assert_eq!(nodes.knows("d", secs(0)), known(false, false));
        assert!(nodes.hear(&joiner, at(0), secs(0)));
        assert_eq!(nodes.knows("d", secs(0)), known(true, false));
        assert!(
            !nodes.hear(&joiner, at(0), secs(1)),
            "it is dialled already"
        );
        nodes.dialled("d", true, secs(1));
        assert_eq!(may_join(&nodes, secs(1)), Ok(joiner.clone()));
        assert_eq!(nodes.knows("d", secs(1)), known(true, true));
        assert!(nodes.hear(&joiner, at(-61_000), secs(2)));
        let ahead_ms = -61_000;
        let clock = ChangeRefusal::Clock {
            name: name(),
            ahead_ms,
        };
        assert_eq!(may_join(&nodes, secs(2)), Err(clock));
        nodes.dialled("d", false, secs(2));
        assert_eq!(nodes.knows("d", secs(2)), known(true, false));
        assert_eq!(nodes.list(secs(6)).len(), 1);
        assert_eq!(may_join(&nodes, secs(7)), Err(not_waiting));
        assert_eq!(nodes.knows("d", secs(7)), known(false, false));
        assert_eq!(nodes.list(secs(7)), []);
    }
}
