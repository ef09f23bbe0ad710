//! The sessions that operators have asked this node to coordinate, and what each of them came to.

use cluster::comparison::RepairKind;
use profile::lock;
use std::sync::Mutex;
use tokio::sync::{Notify, oneshot};

/// The result of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// The ranges that were compared.
    pub ranges: u64,
    /// The ranges of pairs that differed.
    pub differing: u64,
    /// The non-owned copies that a full session has found, or an incremental one among what it
    /// read.
    pub non_owned: u64,
    /// How often the session went on from a checkpoint.
    pub resumed: u32,
    /// The pairs that are equal.
    pub equal_pairs: u64,
    /// The pairs of all nodes of the cluster.
    pub pairs: u64,
    /// Whether a full session was to raise the GC threshold, and could not.
    pub is_held_back: bool,
}

impl SessionReport {
    /// Whether all nodes took part, and all pairs of them are equal.
    pub(super) fn are_all_equal(&self) -> bool {
        self.equal_pairs == self.pairs
    }
}

/// The sessions that operators have asked this node to coordinate: one that runs, and one that
/// is next.
#[derive(Default)]
pub(super) struct Orders {
    state: Mutex<OrderState>,
    /// Wakes those that coordinate.
    pub(super) ordered: Notify,
}

#[derive(Default)]
struct OrderState {
    running: Option<Order>,
    next: Option<Order>,
}

/// A session, and the requests that wait for its result.
struct Order {
    kind: RepairKind,
    waiting: Vec<oneshot::Sender<SessionReport>>,
}

/// A session that an operator has asked for.
#[derive(Debug)]
pub struct OrderedRepair {
    /// What it compares. A full session compares what an incremental one would, too.
    pub kind: RepairKind,
    /// Whether this node was already coordinating it.
    pub has_begun: bool,
    /// How it ends; an error if the node stops before.
    pub report: oneshot::Receiver<SessionReport>,
}

impl Orders {
    /// Has a session begin as soon as the running one has ended. A running session that
    /// compares as much is joined.
    pub(super) fn order(&self, kind: RepairKind) -> OrderedRepair {
        let mut state = lock(&self.state);
        let (sender, report) = oneshot::channel();
        let compares_enough =
            |order: &&mut Order| order.kind == RepairKind::Full || kind == RepairKind::Incremental;
        if let Some(order) = state.running.as_mut().filter(compares_enough) {
            order.wait(sender);
            return OrderedRepair {
                kind: order.kind,
                has_begun: true,
                report,
            };
        }
        let order = state.next.get_or_insert_with(|| Order {
            kind,
            waiting: Vec::new(),
        });
        if kind == RepairKind::Full {
            order.kind = kind;
        }
        order.wait(sender);
        self.ordered.notify_one();
        OrderedRepair {
            kind: order.kind,
            has_begun: false,
            report,
        }
    }

    /// Begins the next session: the one that was ordered, unless it is a full one and none may
    /// begin now, or else the one that is due. Gives its kind, and whether someone waits for it.
    pub(super) fn begin(
        &self,
        may_begin_full: bool,
        due: impl FnOnce() -> Option<RepairKind>,
    ) -> Option<(RepairKind, bool)> {
        let may_begin = |order: &mut Order| may_begin_full || order.kind != RepairKind::Full;
        let ordered = lock(&self.state).next.take_if(may_begin);
        let is_ordered = ordered.is_some();
        let order = ordered.or_else(|| {
            let kind = due()?;
            let waiting = Vec::new();
            Some(Order { kind, waiting })
        })?;
        let kind = order.kind;
        lock(&self.state).running = Some(order);
        Some((kind, is_ordered))
    }

    /// Whether an operator has asked for a full session after the one that runs.
    pub(super) fn is_full_next(&self) -> bool {
        let state = lock(&self.state);
        let next = state.next.as_ref();
        next.is_some_and(|order| order.kind == RepairKind::Full)
    }

    /// The running session has ended.
    pub(super) fn end(&self, report: SessionReport) {
        let ended = lock(&self.state).running.take();
        for waiting in ended.into_iter().flat_map(|order| order.waiting) {
            // Fails where the request has ended.
            let _sent = waiting.send(report).is_ok();
        }
    }

    /// Another session has begun instead of the running one, which begins again after that if
    /// someone waits for it.
    pub(super) fn put_off(&self) {
        let mut state = lock(&self.state);
        let Some(mut order) = state.running.take() else {
            return;
        };
        order.waiting.retain(|waiting| !waiting.is_closed());
        match &mut state.next {
            Some(next) => {
                next.waiting.append(&mut order.waiting);
                if order.kind == RepairKind::Full {
                    next.kind = order.kind;
                }
            }
            None if order.waiting.is_empty() => {}
            next => *next = Some(order),
        }
    }
}

impl Order {
    /// Someone waits for the end of the session.
    fn wait(&mut self, report: oneshot::Sender<SessionReport>) {
        // Those whose request has ended do not wait any more.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: SessionReport = SessionReport {
        ranges: 1,
        differing: 0,
        non_owned: 0,
        resumed: 0,
        equal_pairs: 3,
        pairs: 3,
        is_held_back: false,
    };

    fn nothing_due() -> Option<RepairKind> {
        None
    }

    #[test]
    fn what_is_ordered_comes_before_what_is_due() {
        let orders = Orders::default();
        assert_eq!(orders.begin(true, nothing_due), None);
        let mut ordered = orders.order(RepairKind::Incremental);
        assert!(!ordered.has_begun);
        let full_due = || Some(RepairKind::Full);
        assert_eq!(
            orders.begin(true, full_due),
            Some((RepairKind::Incremental, true))
        );
        orders.end(REPORT);
        assert_eq!(ordered.report.try_recv(), Ok(REPORT));
        assert_eq!(
            orders.begin(true, full_due),
            Some((RepairKind::Full, false))
        );
    }

    #[test]
    fn an_order_joins_a_running_session_that_compares_as_much() {
        for (running, ordered, joins) in [
            (RepairKind::Incremental, RepairKind::Incremental, true),
            (RepairKind::Full, RepairKind::Incremental, true),
            (RepairKind::Full, RepairKind::Full, true),
            (RepairKind::Incremental, RepairKind::Full, false),
        ] {
            let orders = Orders::default();
            orders.begin(true, || Some(running));
            let mut order = orders.order(ordered);
            assert_eq!(order.has_begun, joins, "{running:?} {ordered:?}");
            orders.end(REPORT);
            assert_eq!(order.report.try_recv().is_ok(), joins);
            let next = (!joins).then_some((ordered, true));
            assert_eq!(orders.begin(true, nothing_due), next);
        }
    }

    #[test]
    fn orders_that_wait_become_one_session() {
        let orders = Orders::default();
        let mut incremental = orders.order(RepairKind::Incremental);
        let mut full = orders.order(RepairKind::Full);
        assert_eq!(full.kind, RepairKind::Full);
        assert_eq!(
            orders.begin(true, nothing_due),
            Some((RepairKind::Full, true))
        );
        orders.end(REPORT);
        assert_eq!(incremental.report.try_recv(), Ok(REPORT));
        assert_eq!(full.report.try_recv(), Ok(REPORT));
        assert_eq!(orders.begin(true, nothing_due), None);
    }

    #[test]
    fn a_full_session_that_may_not_begin_waits_and_an_incremental_one_does_not() {
        let orders = Orders::default();
        let mut full = orders.order(RepairKind::Full);
        assert_eq!(orders.begin(false, nothing_due), None);
        let incremental_due = || Some(RepairKind::Incremental);
        let begun = orders.begin(false, incremental_due);
        assert_eq!(begun, Some((RepairKind::Incremental, false)));
        orders.end(REPORT);
        assert!(full.report.try_recv().is_err());
        // Another node's session has come before it.
        let begun = orders.begin(true, nothing_due);
        assert_eq!(begun, Some((RepairKind::Full, true)));
        orders.put_off();
        assert_eq!(orders.begin(false, nothing_due), None);
        assert!(orders.is_full_next());
        orders.begin(true, nothing_due);
        orders.end(REPORT);
        assert_eq!(full.report.try_recv(), Ok(REPORT));
        // Nobody waits for one that was only due.
        orders.begin(true, || Some(RepairKind::Full));
        orders.put_off();
        assert_eq!(orders.begin(true, nothing_due), None);
    }
}
