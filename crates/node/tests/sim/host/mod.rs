//! A host: a disk and a clock that stay, and a process that starts and ends.
//!
//! The process is the real node without HTTP. All its tasks, including background jobs,
//! are in one task set, which [`Host::drive`] polls. A frozen process is a task set that is
//! not polled; a crash drops the task set.
//!
//! `identity` has the names and configurations of the nodes, `inspection` looks into a
//! process, `requests` performs the requests of clients, `transport` connects processes, and `storage` has the faults of
//! the disk.

mod identity;
mod inspection;
mod requests;
mod storage;
mod transport;

pub(crate) use identity::{
    CHECKPOINT_RANGES, CLOCK_DRIFT_MAX, FOLDER, KEY_PREFIX, TARGET, TARGET_FOLDER, address_of,
    key_bytes, key_of, names, url,
};
pub(crate) use requests::{BatchClient, ScanTold};
pub(crate) use storage::Copy;

use crate::clock::SimClock;
use crate::dice::Dice;
use crate::executor::SimExecutor;
use crate::network::{HostNumber, Network};
use crate::scenario::Scenario;
use crate::trace::{Trace, log};
use base::{BootId, Clock, Entry, SeededRandom, Timestamp};
use bytes::Bytes;
use checker::{Outcome, Request};
use cluster::comparison::RepairKind;
use cluster::layout::MemberList;
use cluster::repair::SessionId;
use cluster::{NodeId, Replicas};
use lsm::{Disk, Executor};
use lsm_testing::{FaultyDisk, MemoryDisk, MountedDisk};
use node::simulation::{ConditionalAnswer, Found, Refusal, SimulatedNode};
use node::{
    ChangeOrder, ChangeRefusal, EndedBackup, NodeConfig, OpenError, Plan, Resources, Seams,
};
use peer::Transport;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::path::Path;
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

/// How long running requests may take after a process was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// How often a process that was told to stop checks whether they have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(5);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process ends; its host goes on, and the disk has all that was written.
    Kill,
    /// The host loses power; the disk has what was synced, and some of the rest.
    PowerCut,
}

/// What an operator accepts with a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// Nothing.
    Nothing,
    /// That the store may count although it lacks what was lost.
    Empty,
    /// That versions from the future are dropped.
    DropFuture,
}

/// A request that a client has sent.
pub(crate) struct SentRequest<T> {
    /// The answer, unless the process ends before.
    pub(crate) answer: oneshot::Receiver<T>,
    /// Tells the process that the client no longer waits.
    pub(crate) leave: AbortHandle,
}

/// A host of a world.
pub(crate) struct Host {
    number: HostNumber,
    /// The clock of the host.
    pub(crate) clock: Arc<SimClock>,
    config: NodeConfig,
    resources: Resources,
    network: Network,
    trace: Trace,
    dice: Dice,
    survival_percent: u64,
    work_ms_max: Arc<AtomicU64>,
    commit_wait_ms: Arc<AtomicU64>,
    state: RefCell<HostState>,
    /// When processes ended here, and when one ended because of a power cut.
    crashes: RefCell<Vec<Instant>>,
    power_cuts: RefCell<Vec<Instant>>,
    /// When its disk was replaced last.
    replaced: Cell<Option<Instant>>,
    /// Wakes the task in [`Host::drive`].
    driver: RefCell<Option<Waker>>,
}

struct HostState {
    disk: Arc<MemoryDisk>,
    /// A disk that other hosts use, too, at the folder of the target of backups.
    shared: Option<Arc<dyn Disk>>,
    process: Option<Process>,
    /// How many faults freeze the process.
    freezes: usize,
    /// How many faults the disk has.
    disk_faults: usize,
    /// How many of them are damaged bytes.
    rots: usize,
    /// How many hints were lost here by processes that have ended.
    hints_dropped: u64,
    /// Another one after each power cut.
    boot_id: BootId,
}

struct Process {
    tasks: LocalSet,
    node: Rc<SimulatedNode>,
    /// Fails for good at the call in which the power fails.
    disk: Arc<FaultyDisk>,
    /// How many requests of clients are running.
    in_flight: Rc<Cell<usize>>,
    /// Whether the process was told to stop, so that it takes no more requests.
    is_stopping: bool,
}

impl Host {
    /// A host with an empty disk, on which no process runs yet.
    pub(crate) fn new(
        number: HostNumber,
        scenario: &Scenario,
        clock: SimClock,
        network: Network,
        trace: Trace,
        dice: Dice,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            clock: Arc::new(clock),
            config: identity::config(number, scenario),
            resources: identity::resources(scenario),
            network,
            trace,
            dice,
            survival_percent: scenario.survival_percent,
            work_ms_max: Arc::new(AtomicU64::new(scenario.work_ms_max)),
            commit_wait_ms: Arc::default(),
            state: RefCell::new(HostState {
                disk: Arc::new(MemoryDisk::new()),
                shared: None,
                process: None,
                freezes: 0,
                disk_faults: 0,
                rots: 0,
                hints_dropped: 0,
                boot_id: BootId(0),
            }),
            crashes: RefCell::default(),
            power_cuts: RefCell::default(),
            replaced: Cell::default(),
            driver: RefCell::new(None),
        })
    }

    /// Its number.
    pub(crate) fn number(&self) -> HostNumber {
        self.number
    }

    /// Runs the process while this is polled, if there is one and it is not frozen. Ends it
    /// with a power cut if its disk has failed.
    pub(crate) async fn drive(self: Rc<Self>) {
        poll_fn(|cx| {
            *self.driver.borrow_mut() = Some(cx.waker().clone());
            let power_is_gone = {
                let mut state = self.state.borrow_mut();
                let HostState {
                    process, freezes, ..
                } = &mut *state;
                match process {
                    Some(process) if *freezes == 0 => {
                        let _attribution = log::attribute_to(self.number);
                        // The task set never ends, because the upkeep of a node runs forever.
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

    /// Starts the process, if none runs.
    ///
    /// # Errors
    /// The node cannot be opened; no process runs then.
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
            Arc::clone(&self.commit_wait_ms),
        );
        let mut mounted = Arc::clone(&disk) as Arc<dyn Disk>;
        if let Some(shared) = &state.shared {
            let at = Path::new(TARGET_FOLDER);
            mounted = Arc::new(MountedDisk::new(mounted, Arc::clone(shared), at));
        }
        let seams = Seams {
            disk: mounted,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(self.dice.next())),
            boot_id: Some(state.boot_id),
        };
        let transport: Arc<dyn Transport> = Arc::new(SimTransport {
            network: self.network.clone(),
            own: self.number,
        });
        let mut config = self.config.clone();
        let moves = self.network.moves(self.number);
        config.members = identity::moved(&config.members, self.number, moves);
        config.accept_data_loss = acceptance == Acceptance::Empty;
        config.drop_future_versions = acceptance == Acceptance::DropFuture;
        let _attribution = log::attribute_to(self.number);
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
            Crash::Kill => self.network.stop_listening(self.number),
            Crash::PowerCut => self.network.cut_power(self.number),
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
            state.boot_id.0 += 1;
            self.power_cuts.borrow_mut().push(Instant::now());
        }
    }

    /// Tells the process to stop: it takes no more requests, ends the running ones, and
    /// closes its store.
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
        // Another fault may have ended the process meanwhile, and a new one may run.
        let node = match &self.state.borrow().process {
            Some(process) if process.is_stopping => Rc::clone(&process.node),
            _ => return,
        };
        let _attribution = log::attribute_to(self.number);
        if let Err(error) = node.close() {
            self.trace.note(format_args!(
                "host {} is not closed well: {error}",
                self.number
            ));
        }
        drop(node);
        self.crash(Crash::Kill);
    }

    /// Freezes the process. Freezes add up.
    pub(crate) fn freeze(&self) {
        self.state.borrow_mut().freezes += 1;
    }

    /// Undoes one freeze.
    pub(crate) fn thaw(&self) {
        let mut state = self.state.borrow_mut();
        state.freezes = state.freezes.saturating_sub(1);
        drop(state);
        self.wake();
    }

    /// Sets how long a job may take, in milliseconds.
    pub(crate) fn set_work_ms_max(&self, work_ms_max: u64) {
        self.work_ms_max.store(work_ms_max, Ordering::Relaxed);
    }

    /// Sets for how long each commit waits from now on, as if writers were held back.
    #[cfg(test)]
    pub(crate) fn set_commit_wait(&self, wait: Duration) {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.commit_wait_ms.store(wait_ms, Ordering::Relaxed);
    }

    /// Sends a request to the node. `None` if no process runs, or it was told to stop.
    pub(crate) fn ask(
        &self,
        request: Request,
        value: Option<Bytes>,
    ) -> Option<SentRequest<Outcome>> {
        let (node, clock) = (self.serving()?, Arc::clone(&self.clock));
        self.run(async move { requests::perform(&node, &clock, request, value).await })
    }

    /// Has the node write a value, or delete the key, if this version is current. `None` if no
    /// process runs, or it was told to stop.
    pub(crate) fn write_if(
        &self,
        key: Vec<u8>,
        value: Option<Bytes>,
        version: Option<Timestamp>,
        replicas: Replicas,
    ) -> Option<SentRequest<ConditionalAnswer>> {
        let node = self.serving()?;
        self.run(async move { node.write_if(&key, value, version, replicas).await })
    }

    /// Has the node let the value of a key expire after so many seconds.
    pub(crate) fn touch(
        &self,
        key: Vec<u8>,
        seconds: u64,
        replicas: Replicas,
    ) -> Option<SentRequest<ConditionalAnswer>> {
        let node = self.serving()?;
        self.run(async move { node.touch(&key, seconds, replicas).await })
    }

    /// Has the node read a key.
    pub(crate) fn get(
        &self,
        key: Vec<u8>,
        replicas: Replicas,
    ) -> Option<SentRequest<Result<Found, Refusal>>> {
        let node = self.serving()?;
        self.run(async move { node.get(&key, replicas).await })
    }

    /// How many promises the store keeps; none if no process runs.
    pub(crate) fn promises_kept(&self) -> usize {
        let state = self.state.borrow();
        let process = state.process.as_ref();
        process.map_or(0, |process| process.node.promises_kept())
    }

    /// Sends the node many requests as a batch. `None` if no process runs, or it was told to stop.
    pub(crate) fn ask_batch(
        &self,
        requests: Vec<Request>,
        client: Rc<dyn BatchClient>,
    ) -> Option<SentRequest<()>> {
        let (node, clock) = (self.serving()?, Arc::clone(&self.clock));
        self.run(async move {
            requests::perform_batch(&node, &clock, &requests, &*client).await;
        })
    }

    /// The node, if a process runs that takes requests: one that waits to join takes none.
    fn serving(&self) -> Option<Rc<SimulatedNode>> {
        let state = self.state.borrow();
        let process = state.process.as_ref()?;
        let waits = process.node.member_changes().waits();
        (!process.is_stopping && !waits).then(|| Rc::clone(&process.node))
    }

    /// Runs a request in the process.
    fn run<T: 'static>(
        &self,
        request: impl Future<Output = T> + 'static,
    ) -> Option<SentRequest<T>> {
        let state = self.state.borrow();
        let process = state.process.as_ref()?;
        let (sender, answer) = oneshot::channel();
        let running = RunningRequest::new(&process.in_flight);
        let task = process.tasks.spawn_local(async move {
            let _running = running;
            let outcome = request.await;
            // A client that no longer waits has dropped the receiver.
            let _heard = sender.send(outcome).is_ok();
        });
        drop(state);
        self.wake();
        Some(SentRequest {
            answer,
            leave: task.abort_handle(),
        })
    }

    /// Has an operator order a change of the list of members at the node. [`None`] if no process runs,
    /// or it was told to stop.
    pub(crate) fn order_change(
        &self,
        order: ChangeOrder,
    ) -> Option<SentRequest<Result<Plan, ChangeRefusal>>> {
        let changes = self.serving()?.member_changes();
        self.run(async move { changes.order(order, false).await })
    }

    /// Asks the node for a scan of the whole cluster from a key on, by a client that pauses between
    /// two batches. [`None`] if no process runs, or it was told to stop.
    pub(crate) fn ask_scan(
        &self,
        start: u64,
        replicas: Replicas,
        pause: Duration,
    ) -> Option<SentRequest<ScanTold>> {
        let node = self.serving()?;
        self.run(async move { requests::tell(&node, start, replicas, pause).await })
    }

    /// Has the process send a version to another one as a repair write of a session. [`None`] if no
    /// process runs, or it was told to stop.
    pub(crate) fn send_repair_write(
        &self,
        session: SessionId,
        to: HostNumber,
        entry: Entry,
    ) -> Option<SentRequest<()>> {
        let (node, to) = (self.serving()?, NodeId::new(to as u8));
        self.run(async move { node.send_repair_write(session, to, entry).await })
    }

    /// Has the process send a version to another one as a read repair, with which its store has
    /// answered when it knew this GC threshold. [`None`] if no process runs, or it was told to stop.
    pub(crate) fn send_read_repair(
        &self,
        gc_threshold: Timestamp,
        to: HostNumber,
        entry: Entry,
    ) -> Option<SentRequest<()>> {
        let (node, to) = (self.serving()?, NodeId::new(to as u8));
        self.run(async move { node.send_read_repair(gc_threshold, to, entry).await })
    }

    /// The repair session of a kind that the process takes part in, if it does. [`None`] if no
    /// process runs, or it was told to stop.
    pub(crate) fn running_session(
        &self,
        kind: RepairKind,
    ) -> Option<SentRequest<Option<SessionId>>> {
        let node = self.serving()?;
        self.run(async move {
            let sessions = node.running_sessions().await;
            sessions.into_iter().find(|session| session.kind() == kind)
        })
    }

    /// Puts the layout of a list of members in force, if the process runs.
    pub(crate) fn put_in_force(&self, list: &MemberList) {
        if let Some(process) = &self.state.borrow().process {
            process.node.put_in_force(list);
        }
    }

    /// Has the process coordinate a repair session, if one runs.
    pub(crate) fn order_repair(&self, kind: RepairKind) {
        if let Some(process) = &self.state.borrow().process {
            process.node.order_repair(kind);
        }
        self.wake();
    }

    /// Mounts a disk that other hosts use, too, for the processes that start from now on.
    #[cfg(test)]
    pub(crate) fn mount(&self, shared: Arc<dyn Disk>) {
        self.state.borrow_mut().shared = Some(shared);
    }

    /// Has the process coordinate a backup. The result is its number there, or why it refuses.
    /// [`None`] if no process runs, or it was told to stop.
    #[cfg(test)]
    pub(crate) fn order_backup(
        &self,
        missing_max: usize,
    ) -> Option<SentRequest<Result<u64, String>>> {
        let node = self.serving()?;
        self.run(async move {
            let ordered = node.order_backup(TARGET, missing_max);
            ordered.map_err(|error| error.to_string())
        })
    }

    /// How a backup of this number has ended; [`None`] before that, or if no process runs.
    #[cfg(test)]
    pub(crate) fn backup_end(&self, number: u64) -> Option<EndedBackup> {
        let state = self.state.borrow();
        state.process.as_ref()?.node.backup_end(number)
    }

    /// Merges all tables of the store, if a process runs that is not frozen.
    pub(crate) fn compact(&self) {
        let state = self.state.borrow();
        if let Some(process) = state.process.as_ref().filter(|_| state.freezes == 0) {
            let _attribution = log::attribute_to(self.number);
            let compacted = process.node.engine().compact();
            self.trace
                .note(format_args!("host {} compacts: {compacted:?}", self.number));
        }
    }

    /// When processes ended here, for whatever reason.
    pub(crate) fn crashes(&self) -> Vec<Instant> {
        self.crashes.borrow().clone()
    }

    /// Whether the disk was replaced at that time or later.
    pub(crate) fn was_replaced_since(&self, time: Instant) -> bool {
        self.replaced.get().is_some_and(|replaced| replaced >= time)
    }

    /// When the power failed here while a process ran.
    pub(crate) fn power_cuts(&self) -> Vec<Instant> {
        self.power_cuts.borrow().clone()
    }

    fn wake(&self) {
        if let Some(driver) = self.driver.borrow().as_ref() {
            driver.wake_by_ref();
        }
    }
}

/// Counts a running request until it is dropped.
struct RunningRequest(Rc<Cell<usize>>);

impl RunningRequest {
    fn new(in_flight: &Rc<Cell<usize>>) -> Self {
        in_flight.set(in_flight.get() + 1);
        Self(Rc::clone(in_flight))
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
