//! A host: a disk and a clock that stay, and a process that comes and goes.
//!
//! The process is the real node without HTTP. All its tasks, its background
//! jobs among them, live in a task set of their own, and [`Host::drive`] polls
//! that: a frozen process is a set that is not polled, a crash drops it.

use crate::clock::SimClock;
use crate::dice::Dice;
use crate::executor::SimExecutor;
use crate::history::{Action, Content, Outcome, Question};
use crate::log;
use crate::network::{HostNumber, Network, SimStream};
use crate::trace::Trace;
use crate::value;
use crate::weather::Weather;
use bytes::Bytes;
use cluster::{Member, Members, NodeUrl, Replicas};
use lsm::disk::{Fault, FaultyDisk};
use lsm::{Clock, Disk, Entry, Executor, MemoryDisk, SeededRandom};
use node::simulation::{Refusal, SimulatedNode};
use node::{Dialing, NodeConfig, Seams, StartError, Stream, Transport};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// How far clocks may be apart.
pub(crate) const CLOCK_DRIFT_MAX: Duration = Duration::from_secs(60 * 60);

/// The port of all nodes; their hosts differ.
const PORT: u16 = 8080;

/// Small, so that a short run flushes and compacts.
const MEMTABLE_BYTES: usize = 64 << 10;

/// The room that a node keeps for deletes and compaction, in bytes.
const DISK_RESERVE_BYTES: u64 = 1 << 20;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Alone: its host lives on, and its disk has all that was written.
    Kill,
    /// With its host: the disk has what was synced, and some of the rest.
    PowerCut,
}

/// A host of a world.
pub(crate) struct Host {
    number: HostNumber,
    /// Its clock.
    pub(crate) clock: Arc<SimClock>,
    config: NodeConfig,
    network: Network,
    trace: Trace,
    dice: Dice,
    survival_percent: u64,
    work_ms_max: Arc<AtomicU64>,
    state: RefCell<State>,
    /// Wakes whoever drives the host.
    driver: RefCell<Option<Waker>>,
}

struct State {
    disk: Arc<MemoryDisk>,
    process: Option<Process>,
    /// How many faults freeze the process.
    freezes: usize,
    /// How many faults the disk has.
    disk_faults: usize,
}

struct Process {
    tasks: LocalSet,
    node: Rc<SimulatedNode>,
    /// Fails for good at the call in which the power goes.
    disk: Arc<FaultyDisk>,
}

impl Host {
    /// A host with an empty disk, on which no process runs yet.
    pub(crate) fn new(
        number: HostNumber,
        weather: &Weather,
        clock: SimClock,
        network: Network,
        trace: Trace,
        dice: Dice,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            clock: Arc::new(clock),
            config: config(number, weather),
            network,
            trace,
            dice,
            survival_percent: weather.survival_percent,
            work_ms_max: Arc::new(AtomicU64::new(weather.work_ms_max)),
            state: RefCell::new(State {
                disk: Arc::new(MemoryDisk::new()),
                process: None,
                freezes: 0,
                disk_faults: 0,
            }),
            driver: RefCell::new(None),
        })
    }

    /// Runs the process, when there is one and it is not frozen, for as long as
    /// this is polled. Ends it in a power cut when its disk says so.
    pub(crate) async fn drive(self: Rc<Self>) {
        poll_fn(|cx| {
            *self.driver.borrow_mut() = Some(cx.waker().clone());
            let power_is_gone = {
                let mut state = self.state.borrow_mut();
                let State {
                    process, freezes, ..
                } = &mut *state;
                match process {
                    Some(process) if *freezes == 0 => {
                        let _speaking = log::speak(self.number);
                        // It never ends by itself: a node's upkeep goes on for ever.
                        let _pending = Pin::new(&mut process.tasks).poll(cx).is_pending();
                        process.disk.failed() > 0
                    }
                    _ => false,
                }
            };
            if power_is_gone {
                self.crash(Crash::PowerCut);
            }
            Poll::<()>::Pending
        })
        .await;
    }

    /// Starts the process where none runs.
    ///
    /// # Errors
    /// Those of the node; nothing runs then.
    pub(crate) fn start(&self) -> Result<(), StartError> {
        let mut state = self.state.borrow_mut();
        if state.process.is_some() {
            return Ok(());
        }
        self.trace.note(format_args!("host {} starts", self.number));
        let disk = Arc::new(FaultyDisk::new(Arc::clone(&state.disk) as Arc<dyn Disk>));
        let executor = SimExecutor::new(
            self.number,
            self.dice.fork(),
            self.trace.clone(),
            Arc::clone(&self.work_ms_max),
        );
        let seams = Seams {
            disk: Arc::clone(&disk) as Arc<dyn Disk>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(self.dice.next())),
        };
        let transport: Arc<dyn Transport> = Arc::new(SimTransport {
            network: self.network.clone(),
            own: self.number,
        });
        let _speaking = log::speak(self.number);
        let tasks = LocalSet::new();
        let entered = tasks.enter();
        let node = SimulatedNode::open(
            self.config.clone(),
            seams,
            &(Arc::clone(&executor) as Arc<dyn Executor>),
            &transport,
        )?;
        node.start();
        drop(entered);
        let node = Rc::new(node);
        tasks.spawn_local(executor.run());
        tasks.spawn_local(accept(Rc::clone(&node), self.network.listen(self.number)));
        state.process = Some(Process { tasks, node, disk });
        drop(state);
        self.wake();
        Ok(())
    }

    /// Ends the process, if one runs.
    pub(crate) fn crash(&self, how: Crash) {
        let mut state = self.state.borrow_mut();
        let Some(process) = state.process.take() else {
            return;
        };
        self.trace
            .note(format_args!("host {} {how:?}", self.number));
        match how {
            Crash::Kill => self.network.deafen(self.number),
            Crash::PowerCut => self.network.kill(self.number),
        }
        drop(process);
        let survived = state.disk.crash_clone(&mut |_| match how {
            Crash::Kill => true,
            Crash::PowerCut => self.dice.percent(self.survival_percent),
        });
        state.disk = Arc::new(survived);
    }

    /// Cuts the power in the middle of the `calls`-th call of the disk from now.
    pub(crate) fn cut_power_in_call(&self, calls: u64) {
        if let Some(process) = &self.state.borrow().process {
            let fault = Fault::at(calls, io::ErrorKind::Other);
            process.disk.arm(fault.lasting().with_short_writes());
        }
    }

    /// The power does not go in a call any more.
    pub(crate) fn keep_power(&self) {
        if let Some(process) = &self.state.borrow().process {
            process.disk.heal();
        }
    }

    /// Whether the disk has room and its syncs work, so that a node must start.
    pub(crate) fn is_disk_sound(&self) -> bool {
        self.state.borrow().disk_faults == 0
    }

    /// Lets the process stand still. Freezes add up.
    pub(crate) fn freeze(&self) {
        self.state.borrow_mut().freezes += 1;
    }

    /// Takes one freeze back.
    pub(crate) fn thaw(&self) {
        let mut state = self.state.borrow_mut();
        state.freezes = state.freezes.saturating_sub(1);
        drop(state);
        self.wake();
    }

    /// Gives the disk this much more room than it uses, in bytes.
    pub(crate) fn limit_disk(&self, room_bytes: u64) {
        let mut state = self.state.borrow_mut();
        state.disk_faults += 1;
        let used_bytes = state.disk.used_bytes();
        state
            .disk
            .set_capacity(used_bytes.saturating_add(room_bytes));
    }

    /// Gives the disk all the room in the world.
    pub(crate) fn unlimit_disk(&self) {
        let mut state = self.state.borrow_mut();
        state.disk_faults -= 1;
        state.disk.set_capacity(u64::MAX);
    }

    /// Lets all syncs of the disk fail, or no more. A process that met that
    /// has to be started anew.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        let mut state = self.state.borrow_mut();
        if fail {
            state.disk_faults += 1;
        } else {
            state.disk_faults -= 1;
        }
        state.disk.fail_syncs(fail);
    }

    /// Sets how long a job takes at most, in milliseconds.
    pub(crate) fn set_work_ms_max(&self, work_ms_max: u64) {
        self.work_ms_max.store(work_ms_max, Ordering::Relaxed);
    }

    /// Asks the node; the answer comes unless the process ends before. `None`
    /// where no process runs.
    pub(crate) fn ask(
        &self,
        question: Question,
        value: Option<Bytes>,
    ) -> Option<oneshot::Receiver<Outcome>> {
        let state = self.state.borrow();
        let process = state.process.as_ref()?;
        let (sender, answer) = oneshot::channel();
        let node = Rc::clone(&process.node);
        let clock = Arc::clone(&self.clock);
        process.tasks.spawn_local(async move {
            let outcome = perform(&node, &clock, question, value).await;
            // A client that has given up does not listen any more.
            let _heard = sender.send(outcome).is_ok();
        });
        drop(state);
        self.wake();
        Some(answer)
    }

    /// How many hints wait here for others; `None` where no process runs.
    pub(crate) fn hints_waiting(&self) -> Option<u64> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.hints_waiting())
    }

    /// What the store holds under a key.
    pub(crate) fn held(&self, key: u64) -> Result<Option<Entry>, lsm::Error> {
        let state = self.state.borrow();
        match &state.process {
            Some(process) => process.node.engine().get(&key_bytes(key)),
            None => Ok(None),
        }
    }

    fn wake(&self) {
        if let Some(driver) = self.driver.borrow().as_ref() {
            driver.wake_by_ref();
        }
    }
}

/// A key's bytes.
pub(crate) fn key_bytes(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// The names of the nodes, in the order of their numbers.
pub(crate) fn names(nodes: usize) -> Vec<String> {
    (0..nodes).map(name).collect()
}

fn name(number: HostNumber) -> String {
    format!("node-{number}")
}

fn url(number: HostNumber) -> NodeUrl {
    let url = format!("http://127.0.0.{}:{PORT}", number + 1);
    url.parse().unwrap()
}

fn config(number: HostNumber, weather: &Weather) -> NodeConfig {
    let member = |number| Member::named(&name(number), url(number)).unwrap();
    let members = Members::new((0..weather.nodes).map(member).collect(), &url(number)).unwrap();
    let mut config = NodeConfig::new(members, "store");
    config.timeout = weather.timeout;
    config.memtable_bytes = Some(MEMTABLE_BYTES);
    config.disk_reserve_bytes = DISK_RESERVE_BYTES;
    config.clock_drift_max = CLOCK_DRIFT_MAX;
    // Clocks may be set forward by hours: see `world`.
    config.hint_age_max = Duration::from_secs(24 * 60 * 60);
    config
}

/// Takes the connections that come to a process, for as long as it lives.
async fn accept(node: Rc<SimulatedNode>, mut arrivals: tokio::sync::mpsc::Receiver<SimStream>) {
    while let Some(stream) = arrivals.recv().await {
        let node = Rc::clone(&node);
        tokio::task::spawn_local(async move { node.accept(Box::new(stream)).await });
    }
}

/// Asks a node, from inside its process, as HTTP does.
async fn perform(
    node: &SimulatedNode,
    clock: &SimClock,
    question: Question,
    value: Option<Bytes>,
) -> Outcome {
    let key = key_bytes(question.key);
    let Some(replicas) = Some(Replicas {
        ack: question.ack,
        from: question.from,
    }) else {
        return Outcome::Refused;
    };
    let written = match question.action {
        Action::Get => {
            return match node.get(&key, replicas).await {
                Ok(found) => Outcome::Found {
                    version: found.entry.as_ref().map(Entry::timestamp),
                    content: found
                        .entry
                        .filter(|entry| entry.is_live(clock.unix_ms()))
                        .map_or(Content::Absent, |entry| value::read(entry.value_bytes())),
                    acks: found.acks,
                },
                Err(refusal) => failed(&refusal),
            };
        }
        Action::Put { ttl_seconds } => {
            node.put(&key, value.unwrap_or_default(), ttl_seconds, replicas)
                .await
        }
        Action::Delete => node.delete(&key, replicas).await,
    };
    match written {
        Ok(written) => Outcome::Written {
            version: written.timestamp,
            acks: written.acks,
        },
        Err(refusal) => failed(&refusal),
    }
}

fn failed(refusal: &Refusal) -> Outcome {
    match *refusal {
        Refusal::NotEnoughReplicas { timestamp } => Outcome::NotEnough { stamp: timestamp },
        Refusal::Overloaded | Refusal::NoStamp | Refusal::DiskFull => Outcome::Refused,
    }
}

/// The transport seam of one process.
struct SimTransport {
    network: Network,
    own: HostNumber,
}

impl Transport for SimTransport {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        let network = self.network.clone();
        let own = self.own;
        let other = url
            .host()
            .rsplit('.')
            .next()
            .and_then(|last| last.parse::<usize>().ok());
        Box::pin(async move {
            let other = other.ok_or(io::ErrorKind::AddrNotAvailable)? - 1;
            let stream = network.dial(own, other).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
