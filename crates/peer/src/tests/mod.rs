//! Links and servers, over streams in memory. The clock moves only when all tasks
//! are idle.

mod calls;
mod failures;
mod filling;
mod fixture;
mod forgetting;
mod reconnecting;
mod sessions;
mod sweeps;
mod values;

use super::failure_detector::HEARTBEAT;
use super::*;
use base::Budget;
use base::{Expiry, SeededRandom, Timestamp};
use cluster::{NodeUrl, Standing};
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

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Runs a test on one thread. Time is simulated, so a wait without an end fails the
/// test at once.
pub(super) async fn run<F: Future>(test: F) -> F::Output {
    let bounded = tokio::time::timeout(Duration::from_secs(600), test);
    LocalSet::new()
        .run_until(bounded)
        .await
        .expect("the test waits without an end")
}

/// Tokio's clock, with a wall clock that is ahead of it by an offset.
pub(super) struct TokioClock {
    origin: Instant,
    unix_ms: u64,
}

impl TokioClock {
    pub(super) fn new(unix_ms: u64) -> Arc<Self> {
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

/// A node, as handshakes see it.
#[derive(Clone)]
pub(super) struct TestNode {
    /// What it says of itself; the standing and the times are filled in.
    pub(super) hello: Hello,
    pub(super) secret: Vec<u8>,
    pub(super) members: Vec<&'static str>,
    pub(super) standing: Rc<Cell<Standing>>,
    /// What it reports of itself, and what was reported to it.
    pub(super) report: Rc<Cell<NodeReport>>,
    pub(super) reports: Rc<RefCell<Vec<NodeReport>>>,
    /// The hellos that it has recorded.
    pub(super) recorded: Rc<RefCell<Vec<Hello>>>,
    /// The present start of the other nodes.
    pub(super) start: Rc<RefCell<Arc<PeerStart>>>,
    /// The nodes that durably remember this one, and those that could not be reached.
    pub(super) remembered_by: Rc<RefCell<Vec<String>>>,
    pub(super) dialled_by: Rc<RefCell<Vec<String>>>,
    pub(super) unreachable: Rc<RefCell<Vec<String>>>,
    /// Whether the previous starts of other nodes still have live links.
    pub(super) is_previous_start_live: Rc<Cell<bool>>,
    /// Whether its disk never finishes recording a hello.
    pub(super) records_nothing: bool,
}

impl TestNode {
    pub(super) fn named(name: &str) -> Self {
        Self {
            hello: Hello {
                protocol: Protocol::OWN,
                name: name.to_owned(),
                members_hash: 77,
                store_id: 1_000 + name.len() as u64,
                starts: [1, 2, 3].into(),
                is_accepted: false,
                standing: Standing::Witness,
                remembered: None,
                acknowledged: Some(0),
                greatest_seen: Timestamp::ZERO,
                unix_ms: 0,
                forgotten: Timestamp::ZERO,
                fence: Timestamp::ZERO,
            },
            secret: b"secret".to_vec(),
            members: vec!["asker", "replica", "third"],
            standing: Rc::new(Cell::new(Standing::Witness)),
            report: Rc::new(Cell::new(NodeReport {
                acknowledged: 0,
                forgotten: Timestamp::ZERO,
                fence: Timestamp::ZERO,
            })),
            reports: Rc::default(),
            recorded: Rc::default(),
            start: Rc::default(),
            remembered_by: Rc::default(),
            dialled_by: Rc::default(),
            unreachable: Rc::default(),
            is_previous_start_live: Rc::default(),
            records_nothing: false,
        }
    }

    pub(super) fn environment(self, unix_ms: u64) -> PeerEnvironment {
        PeerEnvironment {
            clock: TokioClock::new(unix_ms),
            random: Arc::new(SeededRandom::new(unix_ms)),
            policy: Rc::new(self),
            log_limiter: Arc::default(),
            incoming: Budget::new(256 << 20),
            value_bytes_max: 16 << 20,
        }
    }
}

impl HandshakePolicy for TestNode {
    fn secret(&self) -> &[u8] {
        &self.secret
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.contains(&name)
    }

    fn protocol(&self) -> Protocol {
        self.hello.protocol
    }

    fn hello_to(&self, _name: Option<&str>, unix_ms: u64) -> Hello {
        Hello {
            standing: self.standing.get(),
            greatest_seen: Timestamp::from_u64(unix_ms + 1),
            unix_ms,
            ..self.hello.clone()
        }
    }

    fn standing(&self) -> Standing {
        self.standing.get()
    }

    fn report(&self) -> NodeReport {
        self.report.get()
    }

    fn heard_report(&self, _name: &str, start: &StartWatch, report: NodeReport) {
        assert!(start.is_of(&self.start.borrow()));
        self.reports.borrow_mut().push(report);
    }

    fn is_previous_start_live(&self, _theirs: &Hello) -> bool {
        self.is_previous_start_live.get()
    }

    fn record_peer(
        &self,
        theirs: &Hello,
        _ours: &Hello,
    ) -> Pin<Box<dyn Future<Output = Option<StartWatch>>>> {
        self.recorded.borrow_mut().push(theirs.clone());
        if self.records_nothing {
            return Box::pin(std::future::pending());
        }
        let watch = StartWatch::new(Arc::clone(&self.start.borrow()));
        Box::pin(ready(Some(watch)))
    }

    fn has_dialled(&self, name: &str) {
        self.dialled_by.borrow_mut().push(name.to_owned());
    }

    fn remembered_by(&self, name: &str) {
        self.remembered_by.borrow_mut().push(name.to_owned());
    }

    fn unreachable(&self, name: &str) {
        self.unreachable.borrow_mut().push(name.to_owned());
    }
}

/// A network with one address. The other end of each dialled stream comes out of a
/// channel.
pub(super) struct Network {
    arrivals: mpsc::UnboundedSender<DuplexStream>,
    refuses: AtomicBool,
    pub(super) dialled: AtomicUsize,
    dialled_at: Mutex<Vec<Instant>>,
}

impl Network {
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<DuplexStream>) {
        let (arrivals, receiver) = mpsc::unbounded_channel();
        let network = Self {
            arrivals,
            refuses: AtomicBool::new(false),
            dialled: AtomicUsize::new(0),
            dialled_at: Mutex::default(),
        };
        (Arc::new(network), receiver)
    }

    pub(super) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// The times between one attempt to dial and the next.
    pub(super) fn waits(&self) -> Vec<Duration> {
        let times = self.dialled_at.lock().unwrap();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

pub(super) fn replica_url() -> NodeUrl {
    "http://replica.test:7".parse().unwrap()
}

impl Transport for Network {
    fn dial(&self, url: &NodeUrl) -> Dialing {
        assert_eq!(*url, replica_url());
        self.dialled.fetch_add(1, Ordering::Relaxed);
        self.dialled_at.lock().unwrap().push(Instant::now());
        let result = if self.refuses.load(Ordering::Relaxed) {
            Err(io::ErrorKind::ConnectionRefused.into())
        } else {
            let (ours, theirs) = tokio::io::duplex(256 << 10);
            match self.arrivals.send(theirs) {
                Ok(()) => Ok(Box::new(ours) as Box<dyn Stream>),
                Err(_) => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        };
        Box::pin(async { result })
    }
}

/// Freezes a node: while it is on, the node neither reads nor writes.
#[derive(Clone, Default)]
pub(super) struct FreezeSwitch(Arc<(AtomicBool, Mutex<Vec<Waker>>)>);

impl FreezeSwitch {
    pub(super) fn set(&self, is_frozen: bool) {
        self.0.0.store(is_frozen, Ordering::Relaxed);
        for waker in self.0.1.lock().unwrap().drain(..) {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.0.0.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        self.0.1.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    }
}

/// A stream of a node that can be frozen.
pub(super) struct Freezable(pub(super) DuplexStream, pub(super) FreezeSwitch);

impl AsyncRead for Freezable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.1.poll(cx));
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Freezable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.1.poll(cx));
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A handler whose requests the test answers.
#[derive(Default)]
pub(super) struct TestReplica {
    asked: RefCell<VecDeque<(PeerRequest, Reply)>>,
    arrived: Notify,
    /// Whether it answers at once, with `Stored` or `Found(None)`.
    pub(super) is_prompt: Cell<bool>,
}

impl TestReplica {
    /// The next request.
    pub(super) async fn next(&self) -> (PeerRequest, Reply) {
        loop {
            if let Some(asked) = self.asked.borrow_mut().pop_front() {
                return asked;
            }
            self.arrived.notified().await;
        }
    }

    /// Waits until this many requests wait.
    pub(super) async fn until_waiting(&self, count: usize) {
        while self.waiting() < count {
            self.arrived.notified().await;
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.asked.borrow().len()
    }
}

impl RequestHandler for TestReplica {
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply) {
        if self.is_prompt.get() {
            return match request {
                PeerRequest::Write(_) | PeerRequest::Repair { .. } | PeerRequest::Mend { .. } => {
                    reply.send(PeerAnswer::Stored {
                        verdict: Verdict::Clean,
                    });
                }
                PeerRequest::Read(_) => reply.send(PeerAnswer::Found(None)),
                PeerRequest::Sweep(_) => reply.send(PeerAnswer::Swept(SweepAnswer::Done)),
            };
        }
        self.asked.borrow_mut().push_back((request, reply));
        self.arrived.notify_one();
    }
}

/// The answers that have arrived, in order.
#[derive(Default)]
pub(super) struct TestAnswers {
    came: RefCell<VecDeque<(u64, PeerAnswer)>>,
    arrived: Notify,
}

impl TestAnswers {
    /// The next answer.
    pub(super) async fn next(&self) -> (u64, PeerAnswer) {
        loop {
            if let Some(answer) = self.came.borrow_mut().pop_front() {
                return answer;
            }
            self.arrived.notified().await;
        }
    }

    /// The answers that the test has not taken yet.
    pub(super) fn drain(&self) -> Vec<(u64, PeerAnswer)> {
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
pub(super) struct Asker {
    pub(super) link: Rc<Link>,
    pub(super) answers: Rc<TestAnswers>,
    pub(super) network: Arc<Network>,
    pub(super) arrivals: mpsc::UnboundedReceiver<DuplexStream>,
    pub(super) environment: PeerEnvironment,
}

impl Asker {
    pub(super) fn new(environment: PeerEnvironment) -> Self {
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

    pub(super) fn start(&self) {
        tokio::task::spawn_local(Rc::clone(&self.link).run_forever());
    }

    /// The time after this duration, on the asker's monotonic clock.
    pub(super) fn after(&self, duration: Duration) -> Duration {
        self.environment.clock.monotonic() + duration
    }

    pub(super) fn call(&self, request: PeerRequest, ticket: u64) -> Result<(), Miss> {
        self.link.call(request, self.after(ms(30_000)), ticket)
    }

    pub(super) fn read(&self, ticket: u64) -> Result<(), Miss> {
        self.call(read_of(&ticket.to_string()), ticket)
    }

    /// Waits until the link is in a state.
    pub(super) async fn until(&self, state: LinkState) {
        while self.link.status().state != state {
            tokio::time::sleep(ms(1)).await;
        }
    }

    /// Serves the next connection with `replica`.
    pub(super) async fn accept(
        &mut self,
        replica: &Rc<TestReplica>,
        freeze: &FreezeSwitch,
    ) -> Serving {
        self.accept_as(TestNode::named("replica"), replica, freeze)
            .await
    }

    /// Serves the next connection as this node.
    pub(super) async fn accept_as(
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
pub(super) async fn connected() -> (Asker, Rc<TestReplica>, FreezeSwitch, Serving) {
    let mut asker = Asker::new(TestNode::named("asker").environment(50_000));
    asker.start();
    let (replica, freeze) = (Rc::<TestReplica>::default(), FreezeSwitch::default());
    let serving = asker.accept(&replica, &freeze).await;
    asker.until(LinkState::Up).await;
    (asker, replica, freeze, serving)
}

pub(super) fn read_of(key: &str) -> PeerRequest {
    PeerRequest::Read(Bytes::copy_from_slice(key.as_bytes()))
}

pub(super) fn key_of(request: &PeerRequest) -> String {
    let key = match request {
        PeerRequest::Read(key) => &key[..],
        PeerRequest::Write(entry)
        | PeerRequest::Repair { entry, .. }
        | PeerRequest::Mend { entry, .. } => entry.key(),
        PeerRequest::Sweep(_) => b"",
    };
    String::from_utf8(key.to_vec()).unwrap()
}

pub(super) fn entry(key: &str, value: &[u8]) -> Entry {
    let expiry = Expiry::at_unix_ms(123_456);
    Entry::value(key.as_bytes(), Timestamp::from_u64(99), value, expiry, 3)
}

/// A value in which each part differs from the others.
pub(super) fn long_value(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}
