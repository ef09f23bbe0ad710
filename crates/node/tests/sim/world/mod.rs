//! A world: hosts, network, clients and faults, all of one seed.
//!
//! It has two parts. In the first, clients ask and things break, and whatever
//! a client hears goes into the history. Then all is mended, and the cluster
//! has a bounded time to come to rest (`rest`): hints drain, what they cover lies
//! everywhere before anybody reads it (`stores`), every key can be read from
//! all its replicas, and afterwards all that should hold it hold the same. At
//! the end the checker judges the history, `versions` whether each version was
//! one thing everywhere, and `timeline` whether the others went on while one
//! host was away.

mod report;
mod rest;
mod stores;
mod timeline;
mod versions;

pub(crate) use report::Report;

use crate::clock::SimClock;
use crate::dice::Dice;
use crate::faults;
use crate::host::{Acceptance, Asked, Crash, Host};
use crate::log;
use crate::network::{HostNumber, Network};
use crate::panics;
use crate::trace::Trace;
use crate::value;
use crate::weather::{Season, Weather};
use crate::workload;
use base::Clock;
use checker::{Action, History, OperationId, Outcome, Request};
use cluster::Placement;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use timeline::Timeline;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};
use versions::Versions;

/// How long a client waits for an answer before it goes on without.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a client waits at most that goes away before its answer, in milliseconds.
const LEAVES_AFTER_MS_MAX: u64 = 100;

/// How many operations a client asks for at most: the checker compares each
/// with each.
const OPERATIONS_MAX: usize = 250;

/// How long a client waits at least after it was turned away.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// How long the nodes have to meet before anything is asked, where all of
/// them are to answer.
const MEETING: Duration = Duration::from_secs(3);

/// How often the stores are looked into while the world lives.
const LOOK: Duration = Duration::from_millis(700);

/// Where the worlds' nodes, clients and network live.
pub(crate) struct World {
    /// What is fixed for its life.
    pub(crate) weather: Weather,
    /// By number.
    pub(crate) hosts: Vec<Rc<Host>>,
    /// How far each wall clock is ahead, when no fault has set it, in milliseconds.
    pub(crate) skews_ms: Vec<i64>,
    /// What connects the hosts.
    pub(crate) network: Network,
    /// What happens.
    pub(crate) trace: Trace,
    /// The host whose folder was lost, replaced or damaged.
    pub(crate) lost: Cell<Option<HostNumber>>,
    /// When things were asked, and when hosts were away.
    pub(crate) timeline: RefCell<Timeline>,
    placement: Placement,
    history: RefCell<History>,
    versions: RefCell<Versions>,
    value_dice: Dice,
    /// What went wrong first, besides broken promises.
    failure: RefCell<Option<String>>,
}

/// Lets the world of a seed run from its beginning to its end.
pub(crate) fn run(seed: u64) -> Report {
    panics::forget();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let set = LocalSet::new();
    let world = set.block_on(&runtime, async move {
        let dice = Dice::new(seed);
        let world = World::new(seed, &dice);
        let _logging = log::into(&world.trace);
        world.live(&dice).await;
        world
    });
    // In the runtime's context, since what is dropped asks for the time.
    let _entered = runtime.enter();
    drop(set);
    report::of(&world, seed)
}

impl World {
    fn new(seed: u64, dice: &Dice) -> Rc<Self> {
        let weather = Weather::new(&dice.fork());
        let trace = Trace::new();
        trace.note(format_args!("seed {seed}: {weather:?}"));
        let network = Network::new(
            weather.nodes,
            &weather.delay_ms,
            weather.losses_per_million,
            dice.fork(),
            trace.clone(),
        );
        let began = Instant::now();
        let clock_dice = dice.fork();
        let skews_ms: Vec<i64> = (0..weather.nodes)
            .map(|_| {
                let ahead = clock_dice.within(&(0..=2 * weather.skew_ms_max)) as i64;
                ahead - weather.skew_ms_max as i64
            })
            .collect();
        let hosts = (0..weather.nodes).map(|number| {
            let clock = SimClock::new(began);
            clock.set_skew_ms(skews_ms[number]);
            let (network, trace) = (network.clone(), trace.clone());
            Host::new(number, &weather, clock, network, trace, dice.fork())
        });
        let names = crate::host::names(weather.nodes);
        Rc::new(Self {
            hosts: hosts.collect(),
            placement: Placement::new(names.iter().map(String::as_str)),
            timeline: RefCell::new(Timeline::new(began)),
            weather,
            skews_ms,
            network,
            trace,
            lost: Cell::new(None),
            history: RefCell::default(),
            versions: RefCell::default(),
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
        if self.weather.season != Season::Stormy {
            sleep(MEETING).await;
        }
        let end = Instant::now() + self.weather.span;
        let looking = tokio::task::spawn_local({
            let world = Rc::clone(self);
            async move { world.look_forever().await }
        });
        let clients: Vec<_> = (0..self.weather.clients)
            .map(|client| {
                let world = Rc::clone(self);
                let dice = dice.fork();
                tokio::task::spawn_local(async move { world.be_client(client, &dice, end).await })
            })
            .collect();
        let breaking = faults::break_things(Rc::clone(self), dice.fork(), end);
        for fault in breaking.await {
            self.join("a fault", fault).await;
        }
        for client in clients {
            self.join("a client", client).await;
        }
        looking.abort();
        self.trace.note(format_args!("all is mended"));
        self.mend_all();
        if let Err(what) = self.come_to_rest(&dice.fork()).await {
            self.fail(what);
        }
        self.look();
        for host in &self.hosts {
            host.crash(Crash::Kill);
        }
    }

    /// Starts the node of a host. One whose disk is sound must start.
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

    /// Asks one thing after another until `end`.
    async fn be_client(&self, client: usize, dice: &Dice, end: Instant) {
        for _ in 0..OPERATIONS_MAX {
            if Instant::now() >= end {
                return;
            }
            let request = workload::request(client, &self.weather, dice);
            let patience = match dice.percent(self.weather.cancel_percent) {
                true => Duration::from_millis(dice.below(LEAVES_AFTER_MS_MAX)),
                false => PATIENCE,
            };
            let outcome = self.ask(request, patience).await;
            let pause = Duration::from_millis(dice.within(&self.weather.pause_ms));
            // Where nobody is at work, an answer takes no time.
            let pause_min = match outcome {
                None | Some(Outcome::Refused) => REFUSED_PAUSE,
                Some(_) => Duration::from_millis(1),
            };
            sleep(pause.max(pause_min)).await;
        }
    }

    /// Asks a node and notes what it says; `None` when it cannot be reached.
    async fn ask(&self, request: Request, patience: Duration) -> Option<Outcome> {
        let host = &self.hosts[request.node];
        let id = OperationId(self.history.borrow().operations().len());
        let value = matches!(request.action, Action::Put { .. })
            .then(|| value::of(id, workload::value_bytes(&self.value_dice)));
        let Asked { answer, leave } = host.ask(request, value)?;
        self.history
            .borrow_mut()
            .invoke(request, host.clock.unix_ms());
        self.timeline.borrow_mut().invoked();
        self.trace.note(format_args!("ask  #{} {request}", id.0));
        let answer = timeout(patience, answer).await;
        if answer.is_err() {
            leave.abort();
        }
        // Silence, or the end of the connection: to the client it is the same.
        let outcome = answer.ok().and_then(Result::ok).unwrap_or(Outcome::Lost);
        self.history
            .borrow_mut()
            .complete(id, outcome, host.clock.unix_ms());
        self.timeline.borrow_mut().completed(id);
        self.trace.note(format_args!("tell #{} {outcome}", id.0));
        Some(outcome)
    }

    /// Looks into the stores now and then.
    async fn look_forever(&self) {
        loop {
            sleep(LOOK).await;
            self.look();
        }
    }

    /// Notes which versions lie where.
    fn look(&self) {
        let mut versions = self.versions.borrow_mut();
        for (number, host) in self.hosts.iter().enumerate() {
            for key in 0..self.weather.keys {
                // What cannot be read is found elsewhere.
                if let Ok(Some(entry)) = host.held(key) {
                    versions.note(&entry, format_args!("node {number}"));
                }
            }
            for hint in host.hints() {
                versions.note(&hint, format_args!("a hint of node {number}"));
            }
        }
    }

    /// Notes that something went wrong; the first such thing counts.
    fn fail(&self, what: String) {
        self.trace.note(format_args!("FAILURE {what}"));
        self.failure.borrow_mut().get_or_insert(what);
    }

    async fn join(&self, who: &str, task: tokio::task::JoinHandle<()>) {
        if let Err(error) = task.await {
            self.fail(format!("{who} ended: {error}"));
        }
    }
}
