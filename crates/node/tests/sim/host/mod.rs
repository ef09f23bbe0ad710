//! A host: a disk and a clock that stay, and a process that comes and goes.
//!
//! The process is the real node without HTTP. All its tasks, its background
//! jobs among them, live in a task set of their own, and [`Host::drive`] polls
//! that: a frozen process is a set that is not polled, a crash drops it.
//!
//! `identity` says who the nodes are, `requests` does what clients ask,
//! `transport` connects processes, `storage` is what becomes of the disk.

mod identity;
mod requests;
mod storage;
mod transport;

pub(crate) use identity::{CLOCK_DRIFT_MAX, key_bytes, key_of, names};
pub(crate) use storage::Copy;

use crate::clock::SimClock;
use crate::dice::Dice;
use crate::executor::SimExecutor;
use crate::log;
use crate::network::{HostNumber, Network};
use crate::trace::Trace;
use crate::weather::Weather;
use base::{Clock, Entry, SeededRandom};
use bytes::Bytes;
use checker::{Outcome, Request};
use lsm::disk::FaultyDisk;
use lsm::{Disk, Executor, MemoryDisk};
use node::simulation::SimulatedNode;
use node::{NodeConfig, OpenError, Resources, Seams};
use peer::Transport;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::{Instant, sleep};
use transport::SimTransport;

/// How long requests have to end once a process was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// How often a process that was told to stop looks whether they have.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Alone: its host lives on, and its disk has all that was written.
    Kill,
    /// With its host: the disk has what was synced, and some of the rest.
    PowerCut,
}

/// What an operator says with a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// Nothing.
    Nothing,
    /// That the store lacks what was lost, and may count all the same.
    Empty,
}

/// A request that a client has sent.
pub(crate) struct Asked {
    /// The answer, unless the process ends before.
    pub(crate) answer: oneshot::Receiver<Outcome>,
    /// Lets the process know that nobody waits any more.
    pub(crate) leave: AbortHandle,
}

/// A host of a world.
pub(crate) struct Host {
    number: HostNumber,
    /// Its clock.
    pub(crate) clock: Arc<SimClock>,
    config: NodeConfig,
    resources: Resources,
    network: Network,
    trace: Trace,
    dice: Dice,
    survival_percent: u64,
    work_ms_max: Arc<AtomicU64>,
    state: RefCell<State>,
    /// When a process ended here, and when it ended because the power went.
    crashes: RefCell<Vec<Instant>>,
    power_cuts: RefCell<Vec<Instant>>,
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
    /// How many hints were lost here by processes that have ended.
    hints_dropped: u64,
}

struct Process {
    tasks: LocalSet,
    node: Rc<SimulatedNode>,
    /// Fails for good at the call in which the power goes.
    disk: Arc<FaultyDisk>,
    /// How many requests of clients are under way.
    in_flight: Rc<Cell<usize>>,
    /// Whether it was told to stop, and takes no more of them.
    is_stopping: bool,
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
            config: identity::config(number, weather),
            resources: identity::resources(weather),
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
                hints_dropped: 0,
            }),
            crashes: RefCell::default(),
            power_cuts: RefCell::default(),
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
    pub(crate) fn start(&self, acceptance: Acceptance) -> Result<(), OpenError> {
        let mut state = self.state.borrow_mut();
        if state.process.is_some() {
            return Ok(());
        }
        self.trace.note(format_args!(
            "host {} starts, accepts {acceptance:?}",
            self.number
        ));
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
        let mut config = self.config.clone();
        config.accept_empty = acceptance == Acceptance::Empty;
        let _speaking = log::speak(self.number);
        let tasks = LocalSet::new();
        let entered = tasks.enter();
        let node = SimulatedNode::open(
            config,
            self.resources,
            seams,
            &(Arc::clone(&executor) as Arc<dyn Executor>),
            &transport,
        )?;
        node.start();
        drop(entered);
        let node = Rc::new(node);
        tasks.spawn_local(executor.run());
        let arrivals = self.network.listen(self.number);
        tasks.spawn_local(transport::accept(Rc::clone(&node), arrivals));
        state.process = Some(Process {
            tasks,
            node,
            disk,
            in_flight: Rc::default(),
            is_stopping: false,
        });
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
        state.hints_dropped += process.node.hints_dropped();
        drop(process);
        let survived = state.disk.crash_clone(&mut |_| match how {
            Crash::Kill => true,
            Crash::PowerCut => self.dice.percent(self.survival_percent),
        });
        state.disk = Arc::new(survived);
        self.crashes.borrow_mut().push(Instant::now());
        if how == Crash::PowerCut {
            self.power_cuts.borrow_mut().push(Instant::now());
        }
    }

    /// Tells the process to stop: it takes nothing more on, ends what it has
    /// begun, and closes its store.
    pub(crate) async fn stop(&self) {
        let in_flight = {
            let mut state = self.state.borrow_mut();
            let Some(process) = &mut state.process else {
                return;
            };
            process.is_stopping = true;
            Rc::clone(&process.in_flight)
        };
        self.trace.note(format_args!("host {} stops", self.number));
        let told = Instant::now();
        while in_flight.get() > 0 && told.elapsed() < DRAIN_MAX {
            sleep(DRAIN_LOOK).await;
        }
        // Another fault may have ended it meanwhile, and it may run again.
        let node = match &self.state.borrow().process {
            Some(process) if process.is_stopping => Rc::clone(&process.node),
            _ => return,
        };
        let _speaking = log::speak(self.number);
        if let Err(error) = node.close() {
            self.trace.note(format_args!(
                "host {} is not closed well: {error}",
                self.number
            ));
        }
        drop(node);
        self.crash(Crash::Kill);
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

    /// Sets how long a job takes at most, in milliseconds.
    pub(crate) fn set_work_ms_max(&self, work_ms_max: u64) {
        self.work_ms_max.store(work_ms_max, Ordering::Relaxed);
    }

    /// Asks the node. `None` where no process runs, or it is told to stop.
    pub(crate) fn ask(&self, request: Request, value: Option<Bytes>) -> Option<Asked> {
        let state = self.state.borrow();
        let process = state.process.as_ref()?;
        if process.is_stopping {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        let node = Rc::clone(&process.node);
        let clock = Arc::clone(&self.clock);
        let under_way = UnderWay::new(&process.in_flight);
        let task = process.tasks.spawn_local(async move {
            let _under_way = under_way;
            let outcome = requests::perform(&node, &clock, request, value).await;
            // A client that has given up does not listen any more.
            let _heard = sender.send(outcome).is_ok();
        });
        drop(state);
        self.wake();
        Some(Asked {
            answer,
            leave: task.abort_handle(),
        })
    }

    /// How many hints wait here; `None` where no process runs.
    pub(crate) fn hints_waiting(&self) -> Option<u64> {
        let state = self.state.borrow();
        Some(state.process.as_ref()?.node.hints_waiting())
    }

    /// How many hints were ever lost here, other than by a crash.
    pub(crate) fn hints_dropped(&self) -> u64 {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        state.hints_dropped + process.map_or(0, |process| process.node.hints_dropped())
    }

    /// The hints that wait here on the disk.
    pub(crate) fn hints(&self) -> Vec<Entry> {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or_else(Vec::new, |process| process.node.hints())
    }

    /// What the store holds under a key; nothing where no process runs.
    pub(crate) fn held(&self, key: u64) -> Result<Option<Entry>, lsm::Error> {
        let state = self.state.borrow();
        match &state.process {
            Some(process) => process.node.engine().get(&key_bytes(key)),
            None => Ok(None),
        }
    }

    /// The bytes of the store's tables; 0 where no process runs.
    pub(crate) fn table_bytes(&self) -> u64 {
        let state = self.state.borrow();
        state.process.as_ref().map_or(0, |process| {
            let levels = process.node.engine().statistics().levels;
            levels.iter().map(|level| level.bytes).sum()
        })
    }

    /// How often the store has compacted; 0 where no process runs.
    pub(crate) fn compactions(&self) -> u64 {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or(0, |process| process.node.engine().statistics().compactions)
    }

    /// When processes ended here, in whatever way.
    pub(crate) fn crashes(&self) -> Vec<Instant> {
        self.crashes.borrow().clone()
    }

    /// When the power went here while a process ran.
    pub(crate) fn power_cuts(&self) -> Vec<Instant> {
        self.power_cuts.borrow().clone()
    }

    fn wake(&self) {
        if let Some(driver) = self.driver.borrow().as_ref() {
            driver.wake_by_ref();
        }
    }
}

/// A request that is under way, until this is dropped.
struct UnderWay(Rc<Cell<usize>>);

impl UnderWay {
    fn new(in_flight: &Rc<Cell<usize>>) -> Self {
        in_flight.set(in_flight.get() + 1);
        Self(Rc::clone(in_flight))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
