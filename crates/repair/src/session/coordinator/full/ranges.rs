//! How a full session goes through the ranges.

use super::FullSession;
use super::answers::events_of;
use super::checkpoints::AWAY_MAX;
use cluster::NodeId;
use cluster::comparison::Pair;
use cluster::repair::{
    Compared, Next, SESSION_IDLE_MAX, Session, SessionAnswer, SessionEvent, SessionId,
};
use std::collections::BTreeMap;
use std::rc::Rc;

impl FullSession {
    /// Has nodes scan the next range.
    pub(super) async fn open(&mut self, nodes: Vec<NodeId>) -> Vec<SessionEvent> {
        let session = SessionId::Full(self.token);
        let start = self.attempt.next.clone().unwrap_or_default();
        let number = self.attempt.number;
        self.attempt.number += 1;
        let opened = self.worker.open_range(session, number, nodes, start);
        let (range, lost) = opened.await;
        for (node, versions) in &range.single_copies {
            *self.attempt.single_copies.entry(*node).or_default() += versions;
        }
        self.report.ranges += 1;
        self.report.non_owned += range.non_owned;
        let done = range.digests.iter().map(|digests| SessionEvent::Answered {
            node: digests.node,
            answer: SessionAnswer::Done,
        });
        let mut events: Vec<SessionEvent> = done.collect();
        events.extend(events_of(lost));
        self.attempt.range = Some((range, false));
        events
    }

    /// Has pairs compare the range. What they compare once more is all that they have by then.
    pub(super) async fn compare(
        &mut self,
        machine: &Session,
        pairs: Vec<Pair>,
    ) -> Vec<SessionEvent> {
        let Some((mut range, was_compared)) = self.attempt.range.take() else {
            let missing = pairs.into_iter().map(|pair| SessionEvent::Compared {
                pair,
                outcome: Compared::UNKNOWN,
            });
            return missing.collect();
        };
        let session = SessionId::Full(self.token);
        let worker = Rc::clone(&self.worker);
        let announced = if was_compared {
            None
        } else {
            let announcing = range.announcing();
            let taking_part = self.taking_part(machine);
            let announced = worker.have_announced(session, range.number, announcing, &taking_part);
            Some(announced.await)
        };
        let (mut outcomes, mut lost) = (BTreeMap::new(), Vec::new());
        for pair in range.in_turn(pairs) {
            let outcome = if !was_compared && range.is_same(pair) {
                Compared::Equal
            } else {
                worker.have_reconciled(session, &range, pair).await
            };
            let differs = !was_compared && !range.is_same(pair) || outcome != Compared::Equal;
            self.report.differing += u64::from(differs && range.differs(pair));
            outcomes.insert(pair, outcome);
            if self.now().saturating_sub(self.all_asked) > SESSION_IDLE_MAX / 4 {
                // Lest those that have nothing to exchange leave the session. They scan on.
                self.all_asked = self.now();
                let nodes = self.taking_part(machine);
                lost.extend(worker.scan_on(session, nodes, &range.start).await.1);
            }
        }
        let announced = match announced {
            Some(announced) => announced,
            // The non-owned copies may be other ones by now.
            None => {
                let nodes = self.taking_part(machine);
                worker
                    .have_announced(session, range.number, nodes.clone(), &nodes)
                    .await
            }
        };
        for pair in announced.not_told {
            outcomes.insert(pair, Compared::UNKNOWN);
        }
        // Of which pair does not matter.
        if announced.has_moved
            && let Some(outcome) = outcomes.values_mut().next()
        {
            *outcome = outcome.moved();
        }
        self.attempt.range = Some((range, true));
        let mut events = events_of(lost);
        let compared = outcomes.into_iter();
        events.extend(compared.map(|(pair, outcome)| SessionEvent::Compared { pair, outcome }));
        events
    }

    /// The range is over, if one was compared.
    pub(super) fn leave_range(&mut self) {
        if let Some((range, _)) = self.attempt.range.take() {
            self.ranges_since += 1;
            self.attempt.next = range.end;
        }
    }

    /// What comes next, between two ranges.
    pub(super) fn next(&self, machine: &Session, was_stored: bool) -> Next {
        if self.attempt.next.is_none()
            || self.attempt.number == u32::MAX
            || self.taking_part(machine).len() < 2
        {
            return Next::Finish;
        }
        let sizes = self.worker.sessions.environment.sizes;
        let since = self.now().saturating_sub(self.checkpoint_time);
        let is_due =
            self.ranges_since >= sizes.checkpoint_ranges || since >= sizes.checkpoint_period;
        let waits = self.lost(machine).next().is_some() && since < AWAY_MAX;
        if is_due && !waits && !was_stored {
            Next::Checkpoint
        } else {
            Next::Range
        }
    }
}
