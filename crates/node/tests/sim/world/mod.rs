//! A world: hosts, network, clients and faults, all determined by one seed.
//!
//! A world has two phases. First clients send requests while faults happen, and all
//! requests and answers go into the history. Then all faults are healed, and the cluster
//! must reach quiescence within a bounded time (`quiescence`, `stores`). At the end the
//! crate `checker` checks the history, `versions` checks that each version has one content
//! everywhere, and `timeline` checks that requests succeeded while one host was
//! unavailable. `report` collects what they found.

mod batches;
mod counters;
mod members;
mod quiescence;
mod report;
mod scans;
#[cfg(test)]
mod staged;
mod stores;
mod timeline;
mod tombstone_gc;
mod versions;

pub(crate) use report::Report;

use crate::clock::SimClock;
use crate::dice::Dice;
use crate::faults;
use crate::host::{Acceptance, Crash, Host, KEY_PREFIX, SentRequest};
use crate::network::{HostNumber, Network};
use crate::scenario::{Scenario, ScenarioKind};
use crate::trace::{Trace, log, panics};
use crate::value;
use crate::workload;
use base::{Clock, Entry, Timestamp};
use checker::{History, OperationId, Outcome, Request};
use counters::Increments;
use members::Membership;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use timeline::Timeline;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};
use versions::Versions;

/// How long a client waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// How long a client waits that abandons its request, at most, in milliseconds.
const LEAVES_AFTER_MS_MAX: u64 = 100;

/// How many operations a client may send, because the checker compares all pairs of
/// operations.
const OPERATIONS_MAX: usize = 250;

/// How long a client waits after it was refused, at least.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// How long nodes have to connect before the first request, in worlds in which all of
/// them must answer.
const MEETING: Duration = Duration::from_secs(3);

/// How often the stores are inspected while clients run.
const INSPECTION_PERIOD: Duration = Duration::from_millis(700);

/// A world with its hosts, clients and network.
pub(crate) struct World {
    /// The parameters of the world.
    pub(crate) scenario: Scenario,
    /// The hosts, by number.
    pub(crate) hosts: Vec<Rc<Host>>,
    /// How far each wall clock is ahead while no fault has set it, in milliseconds.
    pub(crate) skews_ms: Vec<i64>,
    /// What connects the hosts.
    pub(crate) network: Network,
    /// The trace of everything that happens.
    pub(crate) trace: Trace,
    /// The host whose folder was lost, replaced or damaged.
    pub(crate) lost: Cell<Option<HostNumber>>,
    /// When the first copy was taken of folders that were all replaced by their copies, and
    /// when they were replaced.
    restored: Cell<Option<(Instant, Instant)>>,
    /// The greatest GC threshold that any node has had, and how often it has risen.
    gc_threshold: Cell<(Timestamp, usize)>,
    /// How many non-owned copies the stores had dropped at the end.
    non_owned_dropped: Cell<u64>,
    /// When operations ran, and when hosts were unavailable.
    pub(crate) timeline: RefCell<Timeline>,
    members: RefCell<Membership>,
    history: RefCell<History>,
    versions: RefCell<Versions>,
    increments: Increments,
    value_dice: Dice,
    /// The first failure besides broken promises.
    failure: RefCell<Option<String>>,
}

/// Runs the world of a seed from its beginning to its end.
pub(crate) fn run(seed: u64) -> Report {
    panics::reset();
    let world = simulate(async move {
        let dice = Dice::new(seed);
        let world = World::new(seed, &dice);
        let _logging = log::into(&world.trace);
        world.live(&dice).await;
        world
    });
    report::of(&world, seed)
}

/// Runs something on one thread, in a time that moves only when all tasks are idle. Ends
/// the tasks that are left.
fn simulate<F: Future>(simulated: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let set = LocalSet::new();
    let output = set.block_on(&runtime, simulated);
    // In the context of the runtime, because dropping tasks reads the time.
    let _entered = runtime.enter();
    drop(set);
    output
}

impl World {
    /// The world of a seed.
    fn new(seed: u64, dice: &Dice) -> Rc<Self> {
        let world = Self::of(Scenario::new(&dice.fork()), dice);
        let scenario = &world.scenario;
        world.trace.note(format_args!("seed {seed}: {scenario:?}"));
        world
    }

    fn of(scenario: Scenario, dice: &Dice) -> Rc<Self> {
        let trace = Trace::new();
        let network = Network::new(
            scenario.nodes,
            &scenario.delay_ms,
            scenario.losses_per_million,
            dice.fork(),
            trace.clone(),
        );
        let began = Instant::now();
        let clock_dice = dice.fork();
        let skews_ms: Vec<i64> = (0..scenario.nodes)
            .map(|_| {
                let ahead = clock_dice.within(&(0..=2 * scenario.skew_ms_max)) as i64;
                ahead - scenario.skew_ms_max as i64
            })
            .collect();
        let hosts = (0..scenario.nodes).map(|number| {
            let clock = SimClock::new(began);
            clock.set_skew_ms(skews_ms[number]);
            let (network, trace) = (network.clone(), trace.clone());
            Host::new(number, &scenario, clock, network, trace, dice.fork())
        });
        Rc::new(Self {
            hosts: hosts.collect(),
            members: RefCell::new(Membership::founding(scenario.founders())),
            timeline: RefCell::new(Timeline::new(began)),
            scenario,
            skews_ms,
            network,
            trace,
            lost: Cell::new(None),
            restored: Cell::new(None),
            gc_threshold: Cell::default(),
            non_owned_dropped: Cell::default(),
            history: RefCell::default(),
            versions: RefCell::default(),
            increments: Increments::default(),
            value_dice: dice.fork(),
            failure: RefCell::default(),
        })
    }

    async fn live(self: &Rc<Self>, dice: &Dice) {
        tokio::task::spawn_local(self.network.clone().run());
        for (number, host) in self.hosts.iter().enumerate() {
            tokio::task::spawn_local(Rc::clone(host).drive());
            self.start(number);
        }
        if self.scenario.kind != ScenarioKind::AnyFault {
            sleep(MEETING).await;
        }
        let starting = tokio::task::spawn_local(Rc::clone(self).start_joined_forever());
        let emptying = tokio::task::spawn_local(Rc::clone(self).empty_removed_forever());
        let end = Instant::now() + self.scenario.span;
        let inspecting = tokio::task::spawn_local({
            let world = Rc::clone(self);
            async move { world.inspect_stores_forever().await }
        });
        let clients: Vec<_> = (0..self.scenario.clients)
            .map(|client| {
                let world = Rc::clone(self);
                let dice = dice.fork();
                tokio::task::spawn_local(async move { world.run_client(client, &dice, end).await })
            })
            .collect();
        let counting = self.count(end);
        let breaking = faults::break_things(Rc::clone(self), dice.fork(), end);
        for fault in breaking.await {
            self.join("a fault", fault).await;
        }
        for client in clients.into_iter().chain(counting) {
            self.join("a client", client).await;
        }
        inspecting.abort();
        self.trace.note(format_args!("all is repaired"));
        self.heal_all();
        if let Err(what) = self.reach_quiescence(&dice.fork()).await {
            self.fail(what);
        } else if let Err(what) = self.check_counters(&dice.fork()).await {
            self.fail(what);
        }
        starting.abort();
        emptying.abort();
        self.inspect_stores();
        let dropped = self.hosts.iter().map(|host| host.non_owned_dropped());
        self.non_owned_dropped.set(dropped.sum());
        for host in &self.hosts {
            host.crash(Crash::Kill);
        }
    }

    /// Starts the node of a host. If its disk is sound, the node must start.
    pub(crate) fn start(&self, number: HostNumber) {
        self.start_accepting(number, Acceptance::Nothing);
    }

    fn start_accepting(&self, number: HostNumber, acceptance: Acceptance) {
        let host = &self.hosts[number];
        if let Err(error) = host.start(acceptance) {
            self.trace
                .note(format_args!("host {number} does not start: {error}"));
            if host.is_disk_sound() {
                self.fail(format!("node {number} does not start: {error}"));
            }
        }
    }

    /// Sends one request after another until `end`.
    async fn run_client(self: &Rc<Self>, client: usize, dice: &Dice, end: Instant) {
        let (scans, batches) = (
            self.scenario.scan_permille(),
            self.scenario.batch_permille(),
        );
        let mut asked = 0;
        while asked < OPERATIONS_MAX {
            if Instant::now() >= end {
                return;
            }
            let lot = dice.below(1000);
            if lot >= scans && lot < scans + batches {
                asked += self.ask_batch(client, dice).await;
                continue;
            }
            asked += 1;
            if lot < scans {
                self.ask_scan(client, dice).await;
                continue;
            }
            let request = workload::request(client, &self.scenario, dice);
            let patience = if dice.percent(self.scenario.cancel_percent) {
                Duration::from_millis(dice.below(LEAVES_AFTER_MS_MAX))
            } else {
                PATIENCE
            };
            let outcome = self.ask(request, patience).await;
            let pause = Duration::from_millis(dice.within(&self.scenario.pause_ms));
            // A node that does no work answers without any time passing.
            let pause_min = match outcome {
                None | Some(Outcome::Refused) => REFUSED_PAUSE,
                Some(_) => Duration::from_millis(1),
            };
            sleep(pause.max(pause_min)).await;
        }
    }

    /// Sends a request to a node and records the answer. `None` if the node does not run.
    pub(crate) async fn ask(&self, request: Request, patience: Duration) -> Option<Outcome> {
        let host = &self.hosts[request.node];
        let id = OperationId(self.history.borrow().operations().len());
        let value = request
            .action
            .is_put()
            .then(|| value::of(id, workload::value_bytes(&self.value_dice)));
        let SentRequest { answer, leave } = host.ask(request, value)?;
        self.history
            .borrow_mut()
            .invoke(request, host.clock.unix_ms());
        self.timeline.borrow_mut().invoked();
        self.trace.note(format_args!("ask  #{} {request}", id.0));
        let answer = timeout(patience, answer).await;
        if answer.is_err() {
            leave.abort();
        }
        // To the client silence and a broken connection are the same.
        let outcome = answer.ok().and_then(Result::ok).unwrap_or(Outcome::Lost);
        self.complete(id, request.node, outcome);
        self.trace.note(format_args!("tell #{} {outcome}", id.0));
        Some(outcome)
    }

    /// Records the answer of a node to an operation, and below which bound what is dead may be
    /// absent from it.
    fn complete(&self, id: OperationId, node: HostNumber, outcome: Outcome) {
        let unix_ms = self.hosts[node].clock.unix_ms();
        let gc_threshold = self.gc_threshold();
        let mut history = self.history.borrow_mut();
        history.complete(id, outcome, unix_ms);
        history.ended_below(id, gc_threshold);
        drop(history);
        self.timeline.borrow_mut().completed(id);
    }

    /// Sets how far the wall clock of a host is ahead, in milliseconds. The operations that it
    /// runs may go by the time before and by the time after.
    pub(crate) fn set_clock(&self, host: HostNumber, skew_ms: i64) {
        let clock = &self.hosts[host].clock;
        let mut history = self.history.borrow_mut();
        history.clock_shows(host, clock.unix_ms());
        clock.set_skew_ms(skew_ms);
        history.clock_shows(host, clock.unix_ms());
        drop(history);
        self.trace
            .note(format_args!("clock of {host} is {skew_ms} ms ahead"));
    }

    /// The greatest GC threshold that any node has had so far.
    fn gc_threshold(&self) -> Timestamp {
        let known = self.hosts.iter().filter_map(|host| host.gc_status());
        let greatest = known.map(|known| known.greatest).max();
        let (before, rises) = self.gc_threshold.get();
        if let Some(greatest) = greatest.filter(|greatest| *greatest > before) {
            self.trace
                .note(format_args!("the GC threshold is {greatest}"));
            self.gc_threshold.set((greatest, rises + 1));
        }
        self.gc_threshold.get().0
    }

    /// Inspects the stores now and then.
    async fn inspect_stores_forever(&self) {
        loop {
            sleep(INSPECTION_PERIOD).await;
            self.inspect_stores();
        }
    }

    /// Records the versions in all stores and hints.
    fn inspect_stores(&self) {
        let mut versions = self.versions.borrow_mut();
        for (number, host) in self.hosts.iter().enumerate() {
            for key in 0..self.scenario.keys {
                // Other checks find what cannot be read.
                if let Ok(Some(entry)) = host.held(key) {
                    versions.note(&entry, number, format_args!("node {number}"));
                }
            }
            // Those of counters are checked with them.
            let is_checked = |hint: &Entry| hint.key().starts_with(KEY_PREFIX);
            for hint in host.hints().into_iter().filter(is_checked) {
                versions.note(&hint, number, format_args!("a hint of node {number}"));
            }
        }
    }

    /// All folders were replaced by copies, the first of which was taken at `copied`. What
    /// was written since may be gone, and its versions may be issued again.
    pub(crate) fn all_were_restored(&self, copied: Instant) {
        self.restored.set(Some((copied, Instant::now())));
        *self.versions.borrow_mut() = Versions::default();
    }

    /// Whether nothing may be left of a write: its coordinator has lost its folder since,
    /// and with it what it had given a timestamp, and no replica has acknowledged the write to a
    /// client. Peers know a timestamp that they have seen, and nobody has seen this one.
    fn may_be_unseen(&self, history: &History, id: OperationId) -> bool {
        let operation = history.get(id);
        operation.is_some_and(|operation| {
            let asked = self.timeline.borrow().invoked_at(id);
            let is_acknowledged = matches!(operation.outcome(), Some(Outcome::Written { .. }));
            !is_acknowledged && self.hosts[operation.request.node].was_replaced_since(asked)
        })
    }

    /// Whether an operation ended after the first of the copies was taken with which all
    /// hosts came back.
    fn is_after_copies(&self, id: OperationId) -> bool {
        let told = self.timeline.borrow().completed_at(id);
        let restored = self.restored.get();
        restored.is_some_and(|(copied, replaced)| {
            told.is_some_and(|told| copied <= told && told <= replaced)
        })
    }

    /// Records a failure; the first one counts.
    pub(crate) fn fail(&self, what: String) {
        self.trace.note(format_args!("FAILURE {what}"));
        self.failure.borrow_mut().get_or_insert(what);
    }

    async fn join(&self, who: &str, task: tokio::task::JoinHandle<()>) {
        if let Err(error) = task.await {
            self.fail(format!("{who} ended: {error}"));
        }
    }
}
