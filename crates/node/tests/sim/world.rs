//! A world: hosts, network, clients and faults, all of one seed.
//!
//! It has two parts. In the first, clients ask and things break, and whatever
//! a client hears goes into the history. Then all is mended, and the cluster
//! has a bounded time to come to rest: hints drain, every key can be read from
//! all its replicas, and afterwards all that should hold it hold the same. At
//! the end the checker judges the history.

use crate::checker;
use crate::clock::SimClock;
use crate::dice::Dice;
use crate::faults;
use crate::history::{Action, History, Number, Outcome, Question};
use crate::host::{self, Crash, Host};
use crate::log;
use crate::network::Network;
use crate::panics;
use crate::trace::Trace;
use crate::value;
use crate::weather::{FaultKind, Weather};
use crate::workload;
use cluster::Placement;
use lsm::{Clock, Entry};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep, timeout};

/// How long a client waits for an answer before it goes on without.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many operations a client asks for at most: the checker compares each
/// with each.
const OPERATIONS_MAX: usize = 250;

/// How long a client waits at least after it was turned away.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);

/// How long the cluster has, once all is mended, until connections stand again.
const SETTLING: Duration = Duration::from_secs(6);

/// How long it has until no hint waits any more.
const DRAINING: Duration = Duration::from_secs(120);

/// How long repairs in the background have.
const REPAIRING: Duration = Duration::from_secs(2);

/// How far all wall clocks are set forward, once all is mended, where one was
/// wrong beyond the bound, in milliseconds.
const FAR_SKEW_PASSED_MS: i64 = 6 * 60 * 60 * 1000;

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
    history: RefCell<History>,
    value_dice: Dice,
    /// What went wrong first, besides broken promises.
    failure: RefCell<Option<String>>,
}

/// What a world came to.
pub(crate) struct Report {
    /// Of the trace, results included.
    pub(crate) trace_hash: u64,
    /// How many lines the trace has.
    pub(crate) trace_lines: u64,
    /// How many operations were acknowledged or answered.
    pub(crate) answered: usize,
    /// How many had too few replicas.
    pub(crate) not_enough: usize,
    /// What went wrong, with all that helps to find out why.
    pub(crate) failure: Option<String>,
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
    world.report(seed)
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
        Rc::new(Self {
            hosts: hosts.collect(),
            weather,
            skews_ms,
            network,
            trace,
            history: RefCell::default(),
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
        let end = Instant::now() + self.weather.span;
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
        self.trace.note(format_args!("all is mended"));
        self.mend_all();
        if let Err(what) = self.come_to_rest(&dice.fork()).await {
            self.fail(what);
        }
        for host in &self.hosts {
            host.crash(Crash::Kill);
        }
    }

    /// Starts the node of a host. One whose disk is sound must start.
    pub(crate) fn start(&self, number: usize) {
        let host = &self.hosts[number];
        if let Err(error) = host.start() {
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
            let question = workload::question(client, &self.weather, dice);
            let outcome = self.ask(question).await.map(|(_, outcome)| outcome);
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
    async fn ask(&self, question: Question) -> Option<(Number, Outcome)> {
        let host = &self.hosts[question.node];
        let number = Number(self.history.borrow().operations().len());
        let value = matches!(question.action, Action::Put { .. })
            .then(|| value::of(number, workload::value_bytes(&self.value_dice)));
        let answer = host.ask(question, value)?;
        self.history
            .borrow_mut()
            .ask(question, host.clock.unix_ms());
        self.trace
            .note(format_args!("ask  #{} {question}", number.0));
        let answer = timeout(PATIENCE, answer).await;
        // Silence, or the end of the connection: to the client it is the same.
        let outcome = answer.ok().and_then(Result::ok).unwrap_or(Outcome::Lost);
        self.history
            .borrow_mut()
            .tell(number, outcome, host.clock.unix_ms());
        self.trace
            .note(format_args!("tell #{} {outcome}", number.0));
        Some((number, outcome))
    }

    /// Ends whatever is still broken.
    fn mend_all(&self) {
        self.network.stop_losses();
        // What a clock stamped beyond the bound is refused until its time has come.
        let passed_ms = match self.weather.faults.contains(&FaultKind::FarSkew) {
            true => FAR_SKEW_PASSED_MS,
            false => 0,
        };
        for (number, host) in self.hosts.iter().enumerate() {
            host.clock.set_skew_ms(self.skews_ms[number] + passed_ms);
            self.start(number);
        }
    }

    /// Gives the cluster time to come to rest, and says why it has not.
    async fn come_to_rest(&self, dice: &Dice) -> Result<(), String> {
        sleep(SETTLING).await;
        let began = Instant::now();
        loop {
            let waiting = self.hosts.iter().map(|host| host.hints_waiting());
            let waiting: Vec<Option<u64>> = waiting.collect();
            if waiting.iter().all(|waiting| *waiting == Some(0)) {
                break;
            }
            if began.elapsed() > DRAINING {
                return Err(format!("hints still wait: {waiting:?}"));
            }
            sleep(Duration::from_millis(200)).await;
        }
        self.trace.note(format_args!("hints have drained"));
        let all = self.weather.nodes as u8;
        for key in 0..self.weather.keys {
            let question = Question {
                client: self.weather.clients,
                node: dice.place(self.weather.nodes),
                key,
                action: Action::Get,
                ack: all,
                from: all,
            };
            match self.ask(question).await {
                Some((_, Outcome::Found { .. })) => {}
                Some((_, outcome)) => {
                    return Err(format!("all is mended, yet {question}: {outcome}"));
                }
                None => return Err(format!("node {} does not run", question.node)),
            }
        }
        sleep(REPAIRING).await;
        self.agree()
    }

    /// Says where replicas differ that must not.
    fn agree(&self) -> Result<(), String> {
        let names = host::names(self.weather.nodes);
        let placement = Placement::new(names.iter().map(String::as_str));
        for key in 0..self.weather.keys {
            let ranking = placement.ranking(&host::key_bytes(key), self.weather.nodes as u8);
            let mut held = Vec::new();
            for node in &ranking {
                let host = &self.hosts[node.index()];
                held.push(host.held(key).map_err(|error| {
                    format!("node {} cannot read key {key}: {error}", node.index())
                })?);
            }
            let newest = held
                .iter()
                .flatten()
                .max_by(|one, other| one.rank().cmp(&other.rank()));
            let Some(newest) = newest else { continue };
            let copies = usize::from(newest.copies());
            if held
                .iter()
                .take(copies)
                .any(|held| held.as_ref() != Some(newest))
            {
                let lines = ranking.iter().zip(&held);
                let lines: Vec<String> = lines
                    .map(|(node, held)| format!("  node {}: {}", node.index(), describe(held)))
                    .collect();
                return Err(format!(
                    "the replicas of key {key} differ, {copies} of which must agree:\n{}",
                    lines.join("\n")
                ));
            }
        }
        Ok(())
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

    fn report(&self, seed: u64) -> Report {
        let history = self.history.borrow();
        let mut failures: Vec<String> = checker::check(&history)
            .iter()
            .map(|violation| violation.describe(&history))
            .collect();
        failures.extend(self.failure.borrow_mut().take());
        failures.extend(panics::take());
        let count = |wanted: fn(Outcome) -> bool| {
            let outcomes = history.operations().iter();
            outcomes
                .filter_map(|operation| operation.outcome())
                .filter(|outcome| wanted(*outcome))
                .count()
        };
        Report {
            trace_hash: self.trace.hash(),
            trace_lines: self.trace.count(),
            answered: count(|outcome| {
                matches!(outcome, Outcome::Written { .. } | Outcome::Found { .. })
            }),
            not_enough: count(|outcome| matches!(outcome, Outcome::NotEnough { .. })),
            failure: (!failures.is_empty())
                .then(|| failure_text(seed, &self.weather, &failures, &self.trace)),
        }
    }
}

/// How many violations are told in full.
const FAILURES_TOLD: usize = 5;

fn failure_text(seed: u64, weather: &Weather, failures: &[String], trace: &Trace) -> String {
    let mut text = format!("seed {seed} fails\n{weather:#?}\n");
    for line in trace.tail() {
        text.push_str(&line);
        text.push('\n');
    }
    for failure in failures.iter().take(FAILURES_TOLD) {
        text.push_str(failure);
        text.push('\n');
    }
    if failures.len() > FAILURES_TOLD {
        text.push_str(&format!("and {} more\n", failures.len() - FAILURES_TOLD));
    }
    text.push_str(&format!("again: KVORUM_SEED={seed} cargo test --test sim"));
    text
}

fn describe(held: &Option<Entry>) -> String {
    match held {
        None => "nothing".to_owned(),
        Some(entry) => format!(
            "{:?} at {}, {} copies, {:?}",
            entry.kind(),
            entry.timestamp(),
            entry.copies(),
            value::read(entry.value_bytes())
        ),
    }
}
