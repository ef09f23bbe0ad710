use super::local::{LocalReplica, miss_of};
use super::*;
use crate::config::{MemoryParts, NodeConfig, Resources};
use crate::node::Node;
use crate::pending::PendingRequests;
use crate::read_pool::ReadsRun;
use crate::seams::Seams;
use crate::submissions::Submissions;
use base::{Clock, Expiry, ManualClock, SeededRandom, Timestamp, Verdict};
use cluster::NodeUrl;
use lsm::disk::{Call, Fault};
use lsm::testing::BlockingWrite;
use lsm::{Disk, Durability, Executor, FaultyDisk, MemoryDisk, StepExecutor};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

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

#[test]
fn what_the_engine_has_told_of_is_not_logged_for_each_request() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
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
            assert_eq!(miss_of(&error), Miss::Failed);
            assert_eq!(lines(), 0, "{error}");
        }
        let unknown = lsm::Error::Invalid("this".into());
        assert_eq!(miss_of(&unknown), Miss::Failed);
        assert_eq!(lines(), 1);
    });
}
const START_MS: u64 = 1_700_000_000_000;

fn version(ms: u64) -> Entry {
    let stamp = Timestamp::from_unix_ms(START_MS + ms);
    Entry::value(b"k", stamp, b"v", Expiry::NEVER, 1)
}

/// A start of a node alone.
fn open(disk: &Arc<FaultyDisk>, clock: &Arc<ManualClock>) -> Node {
    let url: NodeUrl = "http://a:1".parse().unwrap();
    let config = NodeConfig {
        durability: Durability::Os,
        filter_false_positive_rate: None,
        ..NodeConfig::new(url, "/data")
    };
    let bytes = 1 << 20;
    let resources = Resources {
        runtimes: 1,
        requests_max: 8,
        memory: MemoryParts {
            memtable_bytes: bytes,
            write_queue_bytes: bytes,
            cache_bytes: bytes,
            peer_bytes: 0,
            answers_bytes: bytes,
            ranges_bytes: bytes,
        },
    };
    let seams = Seams {
        disk: Arc::clone(disk) as Arc<dyn Disk>,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        random: Arc::new(SeededRandom::new(1)),
    };
    let executor: Arc<dyn Executor> = Arc::new(StepExecutor::new(Arc::clone(clock)));
    Node::open_with(config, resources, seams, &executor, ReadsRun::OnTheSpot).unwrap()
}

fn replica(node: &Node) -> Rc<LocalReplica> {
    let pending = PendingRequests::new();
    let writes = Arc::clone(pending.outbox());
    Rc::new(LocalReplica {
        engine: node.engine.clone(),
        stamping: Arc::clone(&node.stamping),
        membership: node.membership.clone(),
        read_pool: Arc::clone(&node.read_pool),
        answers: Arc::clone(&node.answers),
        submissions: Rc::new(Submissions::new(node.engine.clone(), writes)),
        pending,
        clock: Arc::clone(&node.clock),
    })
}

/// What a peer is told of a write.
async fn verdict(replica: &LocalReplica, entry: Entry) -> Verdict {
    let wait = replica.pending.wait(Duration::MAX);
    replica.write(entry, None, wait.address()).unwrap();
    match replica.answer_of(wait.only().await).0 {
        PeerAnswer::Stored { verdict } => verdict,
        answer => panic!("{answer:?}"),
    }
}

/// What is newer lies in a table none of which is in memory.
#[tokio::test]
async fn a_verdict_that_takes_a_read_is_answered_after_it_or_as_unknown() {
    let newer = version(50).timestamp();
    for (label, expected) in [
        ("read", Verdict::Newer(newer)),
        ("the disk fails", Verdict::Unknown(newer)),
        ("the pool is full", Verdict::Unknown(newer)),
    ] {
        let disk = Arc::new(FaultyDisk::new(Arc::new(MemoryDisk::new())));
        let clock = Arc::new(ManualClock::new(START_MS + 1_000));
        let node = open(&disk, &clock);
        node.engine.write(version(50)).unwrap();
        node.engine.close().unwrap();
        drop(node);
        let node = open(&disk, &clock);
        // What came before the start is of long ago.
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
        let own = Rc::clone(&replica);
        let finish = move |address, completion| own.finish_verdict(address, completion);
        tasks.spawn_local(Rc::clone(&replica.pending).deliver_forever(finish));
        let told = tasks.run_until(verdict(&replica, version(45))).await;
        assert_eq!(told, expected, "{label}");
        disk.heal();
        let again = tasks.run_until(verdict(&replica, version(45))).await;
        assert_eq!(again, expected, "{label}: what was told stays");
    }
}
