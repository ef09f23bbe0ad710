//! When this node drives a pass: at intervals, while a store has to be filled, while its
//! own store is damaged, and when an operator asks for one.

use super::driver::PassReport;
use super::participant::Participant;
use super::{PASS_IDLE_MAX, Sweeper};
use crate::forgetting::Heard;
use base::Backoff;
use cluster::sweep::PassKind;
use cluster::{NodeId, ReplicaState};
use profile::lock;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How often a node looks whether a pass is due.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long after a full pass the next one begins while a store has to be filled. The
/// time doubles with each further pass for the same stores: a node or a disk may be missing,
/// however often the others compare. Another store that is lost does not wait for that.
const REFILL_PERIOD: Duration = Duration::from_secs(5);
/// The longest such time.
const REFILL_PERIOD_MAX: Duration = Duration::from_secs(600);

/// How long after a full pass that did not find all nodes equal, as one of them was away,
/// or that could not raise the forget bound, the next one begins once all are up. The time
/// doubles with each such pass, up to the interval of full passes, and begins anew with each
/// node that returns.
const RETRY_PERIOD: Duration = Duration::from_secs(3600);

/// How often passes are forgotten that nobody asks about any more.
const FORGETTING_PERIOD: Duration = PASS_IDLE_MAX;

/// The passes that operators have asked this node to drive: one that runs, and one that
/// is next.
#[derive(Default)]
pub(super) struct Orders {
    state: Mutex<OrderState>,
    /// Wakes the driver.
    ordered: Notify,
}

#[derive(Default)]
struct OrderState {
    running: Option<Order>,
    next: Option<Order>,
}

/// A pass, and the requests that wait for its result.
struct Order {
    kind: PassKind,
    waiting: Vec<oneshot::Sender<PassReport>>,
}

/// The store of a node, by its id. A store that replaces a lost one has another id.
type StoreOfNode = (NodeId, Option<u64>);

/// How long after a full pass the next one begins that is to fill stores.
struct Refilling {
    backoff: Backoff,
    /// The stores for which a pass has begun, and that still had to be filled when this
    /// node last looked.
    tried: BTreeSet<StoreOfNode>,
}

/// How long after a full pass that is not done the next one begins.
struct Retry {
    /// The first wait is that after a pass that is done, too.
    backoff: Backoff,
    were_all_up: bool,
}

/// A pass that an operator has asked for.
#[derive(Debug)]
pub struct OrderedSweep {
    /// What it compares. A full pass compares what a recent one would, too.
    pub kind: PassKind,
    /// Whether this node was already driving it.
    pub has_begun: bool,
    /// How it ends; an error if the node stops before.
    pub report: oneshot::Receiver<PassReport>,
}

impl Orders {
    /// Has a pass driven as soon as the running one has ended. A running pass that
    /// compares as much is joined.
    pub(super) fn order(&self, kind: PassKind) -> OrderedSweep {
        let mut state = lock(&self.state);
        let (sender, report) = oneshot::channel();
        let compares_enough =
            |order: &&mut Order| order.kind == PassKind::Full || kind == PassKind::Recent;
        if let Some(order) = state.running.as_mut().filter(compares_enough) {
            order.wait(sender);
            return OrderedSweep {
                kind: order.kind,
                has_begun: true,
                report,
            };
        }
        let order = state.next.get_or_insert_with(|| Order {
            kind,
            waiting: Vec::new(),
        });
        if kind == PassKind::Full {
            order.kind = kind;
        }
        order.wait(sender);
        self.ordered.notify_one();
        OrderedSweep {
            kind: order.kind,
            has_begun: false,
            report,
        }
    }

    /// Begins the next pass: the one that was ordered, or else the one that is due.
    /// Gives its kind, and whether someone waits for it.
    fn begin(&self, due: impl FnOnce() -> Option<PassKind>) -> Option<(PassKind, bool)> {
        let ordered = lock(&self.state).next.take();
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

    /// Whether an operator has asked for a full pass after the one that runs.
    fn is_full_next(&self) -> bool {
        let state = lock(&self.state);
        let next = state.next.as_ref();
        next.is_some_and(|order| order.kind == PassKind::Full)
    }

    /// The running pass has ended.
    fn end(&self, report: PassReport) {
        let ended = lock(&self.state).running.take();
        for waiting in ended.into_iter().flat_map(|order| order.waiting) {
            // Fails where the request has ended.
            let _sent = waiting.send(report).is_ok();
        }
    }
}

impl Refilling {
    fn new() -> Self {
        Self {
            backoff: Backoff::new(REFILL_PERIOD, REFILL_PERIOD_MAX),
            tried: BTreeSet::new(),
        }
    }

    /// These stores have to be filled now. All others are filled, so a pass for one of them
    /// has succeeded.
    fn looked(&mut self, lacking: &BTreeSet<StoreOfNode>) {
        self.tried.retain(|store| lacking.contains(store));
    }

    /// How long after a full pass the next one begins, if these stores have to be filled.
    fn period_for(&self, lacking: &BTreeSet<StoreOfNode>) -> Duration {
        if lacking.is_subset(&self.tried) {
            self.backoff.wait()
        } else {
            REFILL_PERIOD
        }
    }

    /// A full pass begins for these stores. It counts as a failure only once another one has
    /// to begin for the same stores: that a store is filled is heard of after its pass.
    fn began(&mut self, lacking: BTreeSet<StoreOfNode>) {
        if lacking.is_empty() || !lacking.is_subset(&self.tried) {
            self.backoff.reset();
        }
        self.backoff.fail();
        self.tried = lacking;
    }
}

impl Retry {
    fn new() -> Self {
        let mut backoff = Backoff::new(RETRY_PERIOD, Duration::MAX);
        backoff.fail();
        Self {
            backoff,
            were_all_up: false,
        }
    }

    /// A node has returned, if all are up now and were not before: it may have been what the
    /// passes lacked.
    fn looked(&mut self, are_all_up: bool) {
        if are_all_up && !self.were_all_up {
            self.backoff.count_at_most(1);
        }
        self.were_all_up = are_all_up;
    }

    /// A full pass has ended.
    fn ended(&mut self, is_done: bool) {
        if is_done {
            self.backoff.count_at_most(1);
        } else {
            self.backoff.fail();
        }
    }
}

impl Order {
    /// Someone waits for the end of the pass.
    fn wait(&mut self, report: oneshot::Sender<PassReport>) {
        // Those whose request has ended do not wait any more.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(report);
    }
}

impl Sweeper {
    /// Drives a pass whenever an operator asks for one, or one is due and this node is
    /// the first of those that are up. Runs for as long as its runtime.
    pub async fn drive_forever(self: Rc<Self>) {
        if self.sweeps.environment.members.is_single_node() {
            return;
        }
        let orders = &self.sweeps.orders;
        let (mut refilling, mut retry) = (Refilling::new(), Retry::new());
        let clock = &self.sweeps.environment.clock;
        let mut last_forgetting = clock.monotonic();
        loop {
            // Either way there may be something to do.
            let _woken = tokio::time::timeout(LOOK_PERIOD, orders.ordered.notified()).await;
            self.hear_replica_state();
            let are_all_up = self.are_all_up();
            retry.looked(are_all_up);
            if are_all_up {
                refilling.looked(&self.stores_to_fill());
            }
            if clock.monotonic().saturating_sub(last_forgetting) >= FORGETTING_PERIOD {
                last_forgetting = clock.monotonic();
                // It may delete files.
                self.spawn_in_background(Participant::forget_idle);
            }
            let begun = orders.begin(|| self.due_here(&refilling, retry.backoff.wait()));
            let Some((kind, is_ordered)) = begun else {
                continue;
            };
            if kind == PassKind::Full {
                refilling.began(self.stores_to_fill());
            }
            let due = || self.due_here(&refilling, retry.backoff.wait());
            let is_full_due = || orders.is_full_next() || due() == Some(PassKind::Full);
            // Whoever has ordered a pass waits for it.
            let settles: Option<&dyn Fn() -> bool> =
                if is_ordered { None } else { Some(&is_full_due) };
            let report = self.drive(kind, settles).await;
            tracing::info!(
                kind = kind.word(),
                ranges = report.ranges,
                differing = report.differing,
                clean_pairs = report.clean_pairs,
                pairs = report.pairs,
                forget_bound_held_back = report.is_held_back,
                "a repair has ended"
            );
            // One that could not raise the forget bound is tried again, too.
            let is_done = report.is_clean() && !report.is_held_back;
            if kind == PassKind::Full {
                retry.ended(is_done);
            }
            // This node's own part may have failed.
            self.sweeps.record.drive_ended(kind, is_done);
            self.sweeps.store_journal();
            orders.end(report);
        }
    }

    /// The kind of the pass that this node is to drive, if one is due.
    fn due_here(&self, refilling: &Refilling, retry_period: Duration) -> Option<PassKind> {
        if self.is_first_up() {
            self.due(refilling, retry_period)
        } else {
            // No other node knows of the damage of its store.
            self.is_refill_due(refilling).then_some(PassKind::Full)
        }
    }

    /// The kind of the pass that is due, if one is. A full pass that was not clean makes one
    /// due after `retry_period`.
    fn due(&self, refilling: &Refilling, retry_period: Duration) -> Option<PassKind> {
        let (environment, record) = (&self.sweeps.environment, &self.sweeps.record);
        let is_due = |kind, interval: Option<Duration>| {
            interval.is_some_and(|interval| record.is_due(kind, interval))
        };
        let now_unix_ms = environment.clock.unix_ms();
        let journal = &self.sweeps.journal;
        if journal.is_interrupted(now_unix_ms)
            || journal.has_lost_a_node(now_unix_ms) && self.are_all_up()
        {
            return Some(PassKind::Full);
        }
        let must_retry = environment.full_interval.is_some_and(|interval| {
            self.are_all_up() && record.is_retry_due(retry_period.min(interval))
        });
        if must_retry
            || self.is_refill_due(refilling)
            || is_due(PassKind::Full, environment.full_interval)
        {
            return Some(PassKind::Full);
        }
        is_due(PassKind::Recent, environment.interval).then_some(PassKind::Recent)
    }

    /// Whether stores have to be filled, and a full pass is due that this node drives for them.
    fn is_refill_due(&self, refilling: &Refilling) -> bool {
        let lacking = self.stores_to_fill();
        !lacking.is_empty() && self.is_full_due(refilling.period_for(&lacking))
    }

    /// The stores that a full pass of this node is to fill: its own if it is damaged, and those
    /// of other nodes only if this node is the first that is up. None while a node is missing:
    /// that takes a comparison with all.
    fn stores_to_fill(&self) -> BTreeSet<StoreOfNode> {
        let environment = &self.sweeps.environment;
        let own = environment.members.own();
        let mut lacking: BTreeSet<NodeId> = BTreeSet::new();
        if self.is_damaged() {
            lacking.insert(own);
        }
        if self.is_first_up() {
            lacking.extend(self.learner());
        }
        let store_of = |node| (node, environment.membership.store_of(node));
        lacking.into_iter().map(store_of).collect()
    }

    /// Whether the last full pass has ended so long ago, and none is under way. One that
    /// another node drives finds most damage, by its reading; a pass beside it would have a
    /// later fence, so that all would give the first one up, and then walk both.
    fn is_full_due(&self, refill_period: Duration) -> bool {
        let record = &self.sweeps.record;
        record.is_due(PassKind::Full, refill_period) && !record.is_full_running()
    }

    /// Has forgetting hear how the store stands by now: what it may forget depends on that.
    fn hear_replica_state(&self) {
        let environment = &self.sweeps.environment;
        let replica_state = environment.membership.replica_state();
        // Whatever the store takes over was named by a peer, whose handshake has waited.
        let _fenced = environment.forgetting.hear(Heard::default(), replica_state);
    }

    /// Whether all nodes are up and this node's store has to be compared with all others,
    /// although its reads and acks count: it has damage that was not, or an operator has
    /// accepted it, and it may hold what the others have forgotten.
    fn is_damaged(&self) -> bool {
        let environment = &self.sweeps.environment;
        let replica_state = environment.membership.replica_state();
        // The others know of a store that is a learner.
        let is_accepted =
            replica_state.is_voter() && environment.forgetting.is_receiver(replica_state);
        let must_compare = environment.engine.has_uncompared_damage() || is_accepted;
        must_compare && self.are_all_up()
    }

    fn are_all_up(&self) -> bool {
        let mut nodes = self.sweeps.environment.members.ids();
        nodes.all(|node| self.is_up(node))
    }

    /// The nodes whose stores have to be filled. None unless all nodes are up and all replica states
    /// are known: that takes a comparison with all the others.
    fn learner(&self) -> Vec<NodeId> {
        // A peer that is suspected keeps its replica state.
        if !self.are_all_up() {
            return Vec::new();
        }
        let members = &self.sweeps.environment.members;
        let replica_states: Option<Vec<(NodeId, ReplicaState)>> = members
            .ids()
            .map(|node| Some((node, self.replica_state_of(node)?)))
            .collect();
        let learner = replica_states.unwrap_or_default().into_iter();
        let learner = learner.filter(|(_, replica_state)| *replica_state == ReplicaState::Learner);
        learner.map(|(node, _)| node).collect()
    }

    /// Whether the stores of all nodes are known to count.
    pub(super) fn are_all_voters(&self) -> bool {
        let mut nodes = self.sweeps.environment.members.ids();
        nodes.all(|node| {
            self.replica_state_of(node)
                .is_some_and(ReplicaState::is_voter)
        })
    }

    /// How the store of a node stands, if that is known.
    pub(super) fn replica_state_of(&self, node: NodeId) -> Option<ReplicaState> {
        if self.peers.is_own(node) {
            Some(self.sweeps.environment.membership.replica_state())
        } else {
            self.peers
                .status(node)
                .and_then(|status| status.replica_state)
        }
    }

    /// Whether this node is the first by name of those that are up.
    fn is_first_up(&self) -> bool {
        let members = &self.sweeps.environment.members;
        let first = members.ids().find(|node| self.is_up(*node));
        first == Some(members.own())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: PassReport = PassReport {
        ranges: 1,
        differing: 0,
        surplus: 0,
        resumed: 0,
        clean_pairs: 3,
        pairs: 3,
        is_conclusive: false,
        is_held_back: false,
    };

    fn nothing_due() -> Option<PassKind> {
        None
    }

    fn stores<const N: usize>(stores: [(u8, u64); N]) -> BTreeSet<StoreOfNode> {
        let of = |(node, store)| (NodeId::new(node), Some(store));
        stores.map(of).into()
    }

    #[test]
    fn passes_that_have_filled_a_store_make_the_next_store_wait_no_longer() {
        let mut refilling = Refilling::new();
        for store in 0..10 {
            // Now one disk is lost, now another, and the node may not look in between.
            let lost = stores([((store % 2) as u8, store)]);
            refilling.looked(&lost);
            assert_eq!(refilling.period_for(&lost), REFILL_PERIOD);
            refilling.began(lost.clone());
            // That it is filled has not been heard of yet.
            refilling.looked(&lost);
            assert_eq!(refilling.period_for(&lost), REFILL_PERIOD);
        }
        // One that is filled, and lost again.
        let lost = stores([(1, 9)]);
        refilling.looked(&BTreeSet::new());
        refilling.began(lost.clone());
        assert_eq!(refilling.period_for(&lost), REFILL_PERIOD);
    }

    #[test]
    fn a_store_that_passes_do_not_fill_is_tried_less_and_less_often() {
        let mut refilling = Refilling::new();
        let lost = stores([(1, 7)]);
        for doublings in 0..20 {
            refilling.began(lost.clone());
            refilling.looked(&lost);
            let period = REFILL_PERIOD.saturating_mul(1 << doublings);
            assert_eq!(refilling.period_for(&lost), period.min(REFILL_PERIOD_MAX));
        }
        // Another one does not wait so long for its first pass.
        let both = stores([(1, 7), (2, 8)]);
        assert_eq!(refilling.period_for(&both), REFILL_PERIOD);
        refilling.began(both.clone());
        refilling.began(both.clone());
        assert_eq!(refilling.period_for(&both), 2 * REFILL_PERIOD);
        refilling.looked(&lost);
        assert_eq!(refilling.period_for(&lost), 2 * REFILL_PERIOD);
    }

    #[test]
    fn a_full_pass_is_tried_again_soon_once_a_node_has_returned() {
        let mut retry = Retry::new();
        retry.looked(true);
        retry.ended(false);
        assert_eq!(retry.backoff.wait(), 2 * RETRY_PERIOD);
        retry.looked(true);
        retry.looked(false);
        for _ in 0..100 {
            retry.ended(false);
        }
        retry.looked(false);
        assert!(retry.backoff.wait() > 100 * RETRY_PERIOD);
        retry.looked(true);
        assert_eq!(retry.backoff.wait(), RETRY_PERIOD);
        retry.ended(false);
        retry.ended(true);
        assert_eq!(retry.backoff.wait(), RETRY_PERIOD);
    }

    #[test]
    fn what_is_ordered_comes_before_what_is_due() {
        let orders = Orders::default();
        assert_eq!(orders.begin(nothing_due), None);
        let mut ordered = orders.order(PassKind::Recent);
        assert!(!ordered.has_begun);
        let full_due = || Some(PassKind::Full);
        assert_eq!(orders.begin(full_due), Some((PassKind::Recent, true)));
        orders.end(REPORT);
        assert_eq!(ordered.report.try_recv(), Ok(REPORT));
        assert_eq!(orders.begin(full_due), Some((PassKind::Full, false)));
    }

    #[test]
    fn an_order_joins_a_running_pass_that_compares_as_much() {
        for (running, ordered, joins) in [
            (PassKind::Recent, PassKind::Recent, true),
            (PassKind::Full, PassKind::Recent, true),
            (PassKind::Full, PassKind::Full, true),
            (PassKind::Recent, PassKind::Full, false),
        ] {
            let orders = Orders::default();
            orders.begin(|| Some(running));
            let mut order = orders.order(ordered);
            assert_eq!(order.has_begun, joins, "{running:?} {ordered:?}");
            orders.end(REPORT);
            assert_eq!(order.report.try_recv().is_ok(), joins);
            let next = (!joins).then_some((ordered, true));
            assert_eq!(orders.begin(nothing_due), next);
        }
    }

    #[test]
    fn orders_that_wait_become_one_pass() {
        let orders = Orders::default();
        let mut recent = orders.order(PassKind::Recent);
        let mut full = orders.order(PassKind::Full);
        assert_eq!(full.kind, PassKind::Full);
        assert_eq!(orders.begin(nothing_due), Some((PassKind::Full, true)));
        orders.end(REPORT);
        assert_eq!(recent.report.try_recv(), Ok(REPORT));
        assert_eq!(full.report.try_recv(), Ok(REPORT));
        assert_eq!(orders.begin(nothing_due), None);
    }
}
