//! This node's own store as a replica, and the hints that are delivered to it.

use super::{alone, open_node};
use crate::config::NodeConfig;
use crate::coordinator::{Change, Failure, Terms};
use crate::node::Node;
use crate::worker::Worker;
use base::Entry;
use base::{Expiry, ManualClock, NewerVersion, Timestamp};
use bytes::Bytes;
use cluster::layout::Epoch;
use cluster::pages::PageRequest;
use cluster::{Member, Members, Miss, NodeSet, NodeUrl, Replicas};
use lsm::{Admission, Disk, Durability};
use lsm_testing::{BlockingWrite, Call, Fault, FaultyDisk, MemoryDisk, StepExecutor};
use peer::{PeerAnswer, Prepare, PromiseRequest};
use peer::{TcpTransport, Transport};
use replica::BeforeRead;
use replica::KeyRead;
use replica::Submissions;
use replica::hints::HintReceiver;
use replica::pending::PendingRequests;
use replica::{AnswerTime, Completion, LocalReplica, PageTelling, ReplicaHints, ReplicaRequest};
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failure_of_the_store_is_not_logged_for_each_request() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let node = open(&disk, &clock);
    let replica = replica(&node);
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let lines = || {
        log.0
            .lock()
            .unwrap()
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    };
    tracing::subscriber::with_default(subscriber, || {
        let poisoned = lsm::Error::Poisoned {
            cause: "a sync failed".into(),
        };
        let corrupt = lsm::Error::Corrupt {
            file: Path::new("table-1.sst").into(),
            offset: 0,
            what: "a checksum".into(),
        };
        for error in [poisoned, corrupt] {
            assert_eq!(replica.miss_of(&error), Miss::Failed);
            assert_eq!(lines(), 0, "the engine has told of it: {error}");
        }
        let unreadable = || io::Error::from(io::ErrorKind::PermissionDenied);
        let fail = |name: &str| {
            let error = lsm::Error::io("read", Path::new(name), unreadable());
            assert_eq!(replica.miss_of(&error), Miss::Failed);
        };
        (0..100).for_each(|_| fail("table-1.sst"));
        assert_eq!(lines(), 1);
        (0..100).for_each(|number| fail(&number.to_string()));
        assert_eq!(
            lines(),
            50,
            "many different ones do not fill the log either"
        );
        clock.advance(Duration::from_secs(60));
        fail("table-1.sst");
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let last = text.lines().last().unwrap();
        assert!(last.contains("left_out=51"), "{last}");
    });
}

/// With peers it is a line of the receipt.
#[tokio::test]
async fn a_lone_node_whose_store_takes_no_writes_says_why_and_does_nothing() {
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let node = open(&disk, &Arc::new(ManualClock::new(START_MS)));
    disk.arm(
        Fault::at(0, io::ErrorKind::PermissionDenied)
            .only(|call, _| matches!(call, Call::Create | Call::Rename))
            .lasting(),
    );
    let value = vec![0; 64 << 10];
    let written = (1..1000).find(|ms| {
        let allocated = Timestamp::from_unix_ms(START_MS + ms);
        let entry = Entry::value(&ms.to_be_bytes(), allocated, &value, Expiry::NEVER, 1);
        node.engine.write(entry).is_err()
    });
    assert!(written.is_some() && node.engine.refuses_writes().is_some());
    let transport: Arc<dyn Transport> = Arc::new(TcpTransport::default());
    let worker = Worker::new(Arc::new(node), 0, &transport);
    let coordinator = Rc::clone(worker.coordinator());
    let tasks = tokio::task::LocalSet::new();
    let terms = Terms::new(Replicas { ack: 1, from: 1 }, Duration::MAX);
    let write = tasks.run_until(coordinator.write(b"k", Change::Delete, None, terms));
    match write.await.map(drop) {
        Err(Failure::StoreFailed(why)) => assert!(why.contains("/data"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(worker.node().engine.get(b"k").unwrap(), None);
}

pub(super) const START_MS: u64 = 1_700_000_000_000;

pub(super) fn version(ms: u64) -> Entry {
    let allocated = Timestamp::from_unix_ms(START_MS + ms);
    Entry::value(b"k", allocated, b"v", Expiry::NEVER, 1)
}

/// A start of a node without peers.
pub(super) fn open(disk: &Arc<FaultyDisk>, clock: &Arc<ManualClock>) -> Node {
    let url: NodeUrl = "http://a:1".parse().unwrap();
    open_one_of(Members::from(url), disk, clock)
}

pub(super) fn open_one_of(
    members: Members,
    disk: &Arc<FaultyDisk>,
    clock: &Arc<ManualClock>,
) -> Node {
    let config = NodeConfig {
        durability: Durability::Os,
        filter_false_positive_rate: None,
        ..NodeConfig::new(members, "/data")
    };
    let executor = Arc::new(StepExecutor::new(Arc::clone(clock)));
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    open_node(config, 1 << 20, disk, clock, &executor)
}

pub(super) fn replica(node: &Node) -> Rc<LocalReplica> {
    let pending = PendingRequests::new();
    let completions = Arc::clone(pending.completions());
    let read_pool = Arc::clone(&node.read_pool);
    let submissions = Submissions::new(node.engine.clone(), completions, read_pool);
    Rc::new(LocalReplica {
        engine: node.engine.clone(),
        timestamps: Arc::clone(&node.timestamps),
        membership: node.membership.clone(),
        read_pool: Arc::clone(&node.read_pool),
        answers: Arc::clone(&node.answers),
        submissions: Rc::new(submissions),
        pending,
        bounds: Arc::default(),
        void_session: Rc::new(|| tokio::sync::oneshot::channel().1),
        clock: Arc::clone(&node.clock),
        log: Arc::clone(&node.log),
        telling: PageTelling {
            layouts: node.layouts.clone(),
            turns_of_peers: Arc::clone(&node.peer_page_turns),
            bytes_of_peers: Arc::clone(&node.peer_pages),
        },
    })
}

/// What the store answers to a write.
async fn newer_version(replica: &LocalReplica, entry: Entry) -> NewerVersion {
    let wait = replica.pending.wait(Duration::MAX);
    let key = entry.key().to_vec();
    replica
        .write(entry, None, Admission::Ordinary, wait.address())
        .unwrap();
    match replica.answer_of(&key, wait.only().await).0 {
        PeerAnswer::Stored { newer_version } => newer_version,
        answer => panic!("{answer:?}"),
    }
}

/// The newer version lies in a table, no block of which is in memory.
#[tokio::test]
async fn a_newer_version_that_takes_a_read_is_answered_after_it_or_as_unknown() {
    let newer = version(50).timestamp();
    for (label, expected) in [
        ("read", NewerVersion::At(newer)),
        ("the disk fails", NewerVersion::Unknown(newer)),
        ("the pool is full", NewerVersion::Unknown(newer)),
    ] {
        let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
        let clock = Arc::new(ManualClock::new(START_MS + 1_000));
        let node = open(&disk, &clock);
        node.engine.write(version(50)).unwrap();
        node.engine.close().unwrap();
        drop(node);
        let node = open(&disk, &clock);
        // The store no longer knows what arrived before its start.
        clock.advance(Duration::from_secs(10));
        let replica = replica(&node);
        match label {
            "the disk fails" => disk.arm(
                Fault::at(0, io::ErrorKind::Other)
                    .only(|call, _| call == Call::Read)
                    .lasting(),
            ),
            // A closed pool takes as little as a full one.
            "the pool is full" => node.read_pool.close(),
            _ => {}
        }
        let tasks = tokio::task::LocalSet::new();
        let submissions = Rc::clone(&replica.submissions);
        tasks.spawn_local(submissions.submit_forever());
        tasks.spawn_local(Rc::clone(&replica.pending).deliver_forever());
        let told = tasks.run_until(newer_version(&replica, version(45))).await;
        assert_eq!(told, expected, "{label}");
        disk.heal();
        let again = tasks.run_until(newer_version(&replica, version(45))).await;
        assert_eq!(again, expected, "{label}: the newer-version check stays");
    }
}

/// The worker of a node whose store no peer has confirmed, and its first runtime's
/// tasks for its own store.
fn worker_of_three(clock: &Arc<ManualClock>) -> (Rc<Worker>, tokio::task::LocalSet) {
    let urls = ["http://a:1", "http://b:1", "http://c:1"];
    let urls = urls.map(|url| url.parse::<NodeUrl>().unwrap());
    let members = urls.iter().cloned().map(Member::unnamed).collect();
    let members = Members::new(members, &urls[0]).unwrap();
    let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
    let node = open_one_of(members, &disk, clock);
    let transport: Arc<dyn Transport> = Arc::new(TcpTransport::default());
    let worker = Worker::new(Arc::new(node), 0, &transport);
    let tasks = tokio::task::LocalSet::new();
    let own = Rc::clone(worker.coordinator().replicas.own());
    tasks.spawn_local(Rc::clone(&own.submissions).submit_forever());
    let pending = Rc::clone(&own.pending);
    tasks.spawn_local(pending.deliver_forever());
    (worker, tasks)
}

/// What a coordinator gets for its own store, now or later.
async fn asked_own(worker: &Worker, request: ReplicaRequest<'_>) -> PeerAnswer {
    let (replicas, pending) = (
        &worker.coordinator().replicas,
        &worker.coordinator().pending,
    );
    let own = worker.node().config.members.own();
    let wait = pending.wait(Duration::MAX);
    let key = match &request {
        ReplicaRequest::Write { entry, .. }
        | ReplicaRequest::Repair { entry, .. }
        | ReplicaRequest::Accept { entry, .. } => entry.key().to_vec(),
        ReplicaRequest::Promise(request) => request.key().to_vec(),
        ReplicaRequest::Read(key) | ReplicaRequest::ReadUnlessSame(key, _) => key.to_vec(),
    };
    match replicas.ask(own, request, Duration::MAX, wait.address(), None) {
        AnswerTime::Now(answer) => answer,
        AnswerTime::Later => replicas.answer_of(&key, wait.only().await).0,
    }
}

fn hints_for_own(worker: &Worker) -> ReplicaHints {
    ReplicaHints {
        node: worker.node().config.members.own(),
        replicas: Rc::clone(&worker.coordinator().replicas),
        pending: Rc::clone(&worker.coordinator().pending),
        clock: Arc::clone(worker.clock()),
        timeout: Duration::from_secs(1),
    }
}

/// A write, a repair and a hint are the same request to the node's own store; a
/// peer's write comes to `LocalReplica::write` as well.
#[tokio::test]
async fn no_version_from_beyond_the_clock_bound_gets_into_the_store() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let (worker, tasks) = worker_of_three(&clock);
    let node = worker.node();
    let bound_ms = node.config.clock_drift_max.as_millis() as u64 * 2;
    for (far_ms, is_stored) in [(bound_ms + 60_000, false), (0, true)] {
        for way in ["a write or a repair", "a hint"] {
            let label = format!("{way}, {far_ms} ms ahead");
            let entry = version(far_ms);
            let taken = tasks.run_until(async {
                if way == "a hint" {
                    return hints_for_own(&worker).store(entry.clone()).await;
                }
                let request = ReplicaRequest::Write {
                    entry: &entry,
                    allocated: &mut None,
                };
                match asked_own(&worker, request).await {
                    PeerAnswer::Missed(Miss::Refused) => Err(Miss::Refused),
                    // It is no voter, but it keeps what it is sent.
                    PeerAnswer::Missed(Miss::Learner) => Ok(()),
                    answer => panic!("{label}: {answer:?}"),
                }
            });
            let expected = if is_stored {
                Ok(())
            } else {
                Err(Miss::Refused)
            };
            assert_eq!(taken.await, expected, "{label}");
            let stored = node.engine.get(b"k").unwrap();
            assert_eq!(stored.is_some(), is_stored, "{label}");
        }
    }
}

#[tokio::test]
async fn neither_acks_nor_reads_of_a_store_that_is_no_voter_count() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let (worker, tasks) = worker_of_three(&clock);
    let own = Rc::clone(worker.coordinator().replicas.own());
    assert!(!own.membership.is_voter());
    let learner = PeerAnswer::Missed(Miss::Learner);
    let (entry, key) = (version(0), Bytes::from_static(b"k"));
    let answers = tasks.run_until(async {
        let write = ReplicaRequest::Write {
            entry: &entry,
            allocated: &mut None,
        };
        let written = asked_own(&worker, write).await;
        let read = asked_own(&worker, ReplicaRequest::Read(&key)).await;
        let delivered = hints_for_own(&worker).store(version(1)).await;
        (written, read, delivered)
    });
    let (written, read, delivered) = answers.await;
    assert_eq!((written, read), (learner.clone(), learner.clone()));
    assert_eq!(delivered, Ok(()), "the store keeps what it is sent");
    assert!(own.engine.get(b"k").unwrap().is_some());
    // A read that was under way when the store lost its replica state.
    let found = Completion::Read(Ok(KeyRead {
        entry: Some(entry),
        reservation: None,
        before: BeforeRead::default(),
    }));
    assert_eq!(own.answer_of(b"k", Some(found)).0, learner);
}

/// A coordinator with another list of members learns that, whatever else there is to say.
#[tokio::test]
async fn a_ballot_is_promised_for_one_list_of_members_and_by_a_voter() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let (worker, tasks) = worker_of_three(&clock);
    let epoch = worker.coordinator().peers.layout().epoch();
    for (epoch, why) in [
        (epoch, Miss::Learner),
        (Epoch::new(epoch.as_u64() + 1), Miss::OtherEpoch),
    ] {
        let prepare = PromiseRequest::Prepare(Prepare {
            key: Bytes::from_static(b"k"),
            ballot: version(0).timestamp(),
            epoch,
            base: None,
            copies: 3,
            is_value: true,
            unix_ms: START_MS,
        });
        let asked = asked_own(&worker, ReplicaRequest::Promise(&prepare));
        assert_eq!(tasks.run_until(asked).await, PeerAnswer::Missed(why));
    }
}

#[tokio::test]
async fn no_hint_below_the_gc_threshold_is_delivered() {
    let clock = Arc::new(ManualClock::new(START_MS));
    let (worker, tasks) = worker_of_three(&clock);
    let node = worker.node();
    let below = version(0).timestamp();
    let hints = hints_for_own(&worker);
    // The store of the node that the hint is for may have closed nothing.
    node.store_side.shared().hear(below);
    assert_eq!(node.store_side.record().closed, Timestamp::ZERO);
    let older = Entry::tombstone(b"k", Timestamp::from_u64(below.as_u64() - 1), 3);
    let stored = tasks.run_until(hints.store(older)).await;
    assert_eq!(stored, Err(Miss::Obsolete { below }));
    assert_eq!(tasks.run_until(hints.store(version(0))).await, Ok(()));
}

/// The keys of the page would lie on other nodes.
#[tokio::test]
async fn a_page_is_made_for_one_list_of_members() {
    let node = alone();
    let replica = replica(&node);
    let tasks = tokio::task::LocalSet::new();
    tasks.spawn_local(Rc::clone(&replica.pending).deliver_forever());
    let epoch = replica.telling.layouts.peek().epoch();
    let later = Epoch::new(epoch.as_u64() + 1);
    for (epoch, why) in [(epoch, None), (later, Some(Miss::OtherEpoch))] {
        let request = PageRequest {
            epoch,
            start: Vec::new(),
            end: None,
            from: 1,
            bytes: 1000,
            coordinator: node.config.members.own(),
            senders: NodeSet::default(),
        };
        let turns = &replica.telling.turns_of_peers;
        let page = replica.page(request, turns, 1, Duration::MAX);
        assert_eq!(tasks.run_until(page).await.err(), why);
    }
}
