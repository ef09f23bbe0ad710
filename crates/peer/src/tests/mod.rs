//! Links and servers, over streams in memory. The clock moves only when all tasks
//! are idle.

mod calls;
mod cuts;
mod failures;
mod features;
mod fixture;
mod gathering;
mod network;
mod node;
mod reconnecting;
mod repair;
mod sessions;
mod values;

use super::*;
use crate::connection::assembly;
use crate::link::clock_offset;
use crate::link::failure_detector::HEARTBEAT;
use crate::wire::{frame, message};
use base::Quota;
use base::{Expiry, SeededRandom, Timestamp};
use cluster::{NodeUrl, ReplicaState};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;
use tokio::time::Instant;

pub(crate) use features::node_report::REPORT;
pub(crate) use network::{Freezable, FreezeSwitch, Network, replica_url};
pub(crate) use node::TestNode;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Runs a test on one thread. Time is simulated, so a wait without an end fails the
/// test at once.
pub(crate) async fn run<F: Future>(test: F) -> F::Output {
    let bounded = tokio::time::timeout(Duration::from_secs(600), test);
    LocalSet::new()
        .run_until(bounded)
        .await
        .expect("the test waits without an end")
}

/// Tokio's clock, with a wall clock that is ahead of it by an offset.
pub(crate) struct TokioClock {
    origin: Instant,
    unix_ms: u64,
}

impl TokioClock {
    pub(crate) fn new(unix_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            unix_ms,
        })
    }
}

impl Clock for TokioClock {
    fn unix_ms(&self) -> u64 {
        self.unix_ms + self.origin.elapsed().as_millis() as u64
    }

    fn monotonic(&self) -> Duration {
        // Each node's monotonic clock begins at another time.
        Duration::from_millis(self.unix_ms % 977) + self.origin.elapsed()
    }
}

/// A handler whose requests the test answers.
#[derive(Default)]
pub(crate) struct TestReplica {
    asked: RefCell<VecDeque<(PeerRequest, Reply)>>,
    arrived: Notify,
    /// Whether it answers at once, with `Stored` or `Found(None)`.
    pub(crate) is_prompt: Cell<bool>,
}

impl TestReplica {
    /// The next request.
    pub(crate) async fn next(&self) -> (PeerRequest, Reply) {
        loop {
            if let Some(asked) = self.asked.borrow_mut().pop_front() {
                return asked;
            }
            self.arrived.notified().await;
        }
    }

    /// Waits until this many requests wait.
    pub(crate) async fn until_waiting(&self, count: usize) {
        while self.waiting() < count {
            self.arrived.notified().await;
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.asked.borrow().len()
    }
}

impl RequestHandler for TestReplica {
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply) {
        if self.is_prompt.get() {
            return match request {
                PeerRequest::Write(_)
                | PeerRequest::Repair { .. }
                | PeerRequest::RepairWrite { .. }
                | PeerRequest::Accept { .. } => {
                    reply.send(PeerAnswer::Stored {
                        newer_version: NewerVersion::None,
                    });
                }
                PeerRequest::Read(_) | PeerRequest::ReadUnlessSame { .. } => {
                    reply.send(PeerAnswer::Found(None));
                }
                PeerRequest::Session(_) => reply.send(PeerAnswer::Session(RepairAnswer::Done)),
                PeerRequest::Page(_)
                | PeerRequest::Examine
                | PeerRequest::Backup(_)
                | PeerRequest::List(_)
                | PeerRequest::Promise(_) => {
                    reply.send(PeerAnswer::Missed(Miss::Failed));
                }
            };
        }
        self.asked.borrow_mut().push_back((request, reply));
        self.arrived.notify_one();
    }
}

/// The answers that have arrived, in order.
#[derive(Default)]
pub(crate) struct TestAnswers {
    came: RefCell<VecDeque<(u64, PeerAnswer)>>,
    arrived: Notify,
}

impl TestAnswers {
    /// The next answer.
    pub(crate) async fn next(&self) -> (u64, PeerAnswer) {
        loop {
            if let Some(answer) = self.came.borrow_mut().pop_front() {
                return answer;
            }
            self.arrived.notified().await;
        }
    }

    /// The answers that the test has not taken yet.
    pub(crate) fn drain(&self) -> Vec<(u64, PeerAnswer)> {
        self.came.borrow_mut().drain(..).collect()
    }
}

impl AnswerHandler for TestAnswers {
    fn answer(&self, ticket: u64, answer: PeerAnswer) {
        self.came.borrow_mut().push_back((ticket, answer));
        self.arrived.notify_one();
    }
}

/// A link, and what it works with.
pub(crate) struct Asker {
    pub(crate) link: Rc<Link>,
    pub(crate) answers: Rc<TestAnswers>,
    pub(crate) network: Arc<Network>,
    pub(crate) arrivals: mpsc::UnboundedReceiver<DuplexStream>,
    pub(crate) environment: PeerEnvironment,
}

impl Asker {
    pub(crate) fn new(environment: PeerEnvironment) -> Self {
        let (network, arrivals) = Network::new();
        let answers = Rc::new(TestAnswers::default());
        let link = Link::new(
            "replica".to_owned(),
            replica_url(),
            Arc::clone(&network) as Arc<dyn Transport>,
            environment.clone(),
            Rc::clone(&answers) as Rc<dyn AnswerHandler>,
        );
        Self {
            link,
            answers,
            network,
            arrivals,
            environment,
        }
    }

    pub(crate) fn start(&self) {
        tokio::task::spawn_local(Rc::clone(&self.link).run());
    }

    /// The time after this duration, on the asker's monotonic clock.
    pub(crate) fn after(&self, duration: Duration) -> Duration {
        self.environment.clock.monotonic() + duration
    }

    pub(crate) fn call(&self, request: PeerRequest, ticket: u64) -> Result<(), Miss> {
        self.link.call(request, self.after(ms(30_000)), ticket)
    }

    pub(crate) fn read(&self, ticket: u64) -> Result<(), Miss> {
        self.call(read_of(&ticket.to_string()), ticket)
    }

    /// Waits until the link is in a state.
    pub(crate) async fn until(&self, state: LinkState) {
        while self.link.status().state != state {
            tokio::time::sleep(ms(1)).await;
        }
    }

    /// Serves the next connection with `replica`.
    pub(crate) async fn accept(
        &mut self,
        replica: &Rc<TestReplica>,
        freeze: &FreezeSwitch,
    ) -> Serving {
        self.accept_as(TestNode::named("replica"), replica, freeze)
            .await
    }

    /// Serves the next connection as this node.
    pub(crate) async fn accept_as(
        &mut self,
        node: TestNode,
        replica: &Rc<TestReplica>,
        freeze: &FreezeSwitch,
    ) -> Serving {
        let stream = self.arrivals.recv().await.unwrap();
        let environment = node.environment(90_000);
        let stream = Box::new(Freezable(stream, freeze.clone()));
        let serving = serve(stream, Bytes::new(), environment, Rc::clone(replica), || {});
        tokio::task::spawn_local(serving)
    }
}

type Serving = tokio::task::JoinHandle<()>;

/// A link that is up, to a replica whose requests the test answers.
pub(crate) async fn connected() -> (Asker, Rc<TestReplica>, FreezeSwitch, Serving) {
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
    let serving = asker.accept(&replica, &freeze).await;
    asker.until(LinkState::Up).await;
    (asker, replica, freeze, serving)
}

pub(crate) fn read_of(key: &str) -> PeerRequest {
    PeerRequest::Read(Bytes::copy_from_slice(key.as_bytes()))
}

pub(crate) fn key_of(request: &PeerRequest) -> String {
    let key = match request {
        PeerRequest::Read(key) | PeerRequest::ReadUnlessSame { key, .. } => &key[..],
        PeerRequest::Write(entry)
        | PeerRequest::Repair { entry, .. }
        | PeerRequest::RepairWrite { entry, .. }
        | PeerRequest::Accept { entry, .. } => entry.key(),
        PeerRequest::Promise(request) => request.key(),
        PeerRequest::Session(_)
        | PeerRequest::Page(_)
        | PeerRequest::Examine
        | PeerRequest::Backup(_)
        | PeerRequest::List(_) => b"",
    };
    String::from_utf8(key.to_vec()).unwrap()
}

pub(crate) fn entry(key: &str, value: &[u8]) -> Entry {
    let expiry = Expiry::at_unix_ms(123_456);
    Entry::value(key.as_bytes(), Timestamp::from_u64(99), value, expiry, 3)
}

/// A value in which each part differs from the others.
pub(crate) fn long_value(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}
