//! This node's own copy of the data, as the coordinators of a runtime and
//! those of its peers use it.

use crate::completion_queue::Completion;
use crate::hints::HintReceiver;
use crate::membership::Membership;
use crate::read_pool::{PoolFull, Read, ReadJob, ReadPool};
use crate::stamping::{Stamp, Stamping};
use crate::submissions::Submissions;
use crate::waiters::Waiters;
use base::{Budget, Refused};
use base::{Clock, Entry};
use bytes::Bytes;
use cluster::Miss;
use lsm::{Applied, Engine, Lookup};
use peer::{PeerAnswer, PeerRequest, Reply};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The local replica, for one runtime.
pub(crate) struct LocalReplica {
    /// The store.
    pub(crate) engine: Engine,
    /// What stamps from elsewhere are made known to.
    pub(crate) stamping: Arc<Stamping>,
    /// Whether the store may be believed when it has nothing.
    pub(crate) membership: Membership,
    /// For reads that may block.
    pub(crate) read_pool: Arc<ReadPool>,
    /// Long values on their way out.
    pub(crate) answers: Arc<Budget>,
    /// Writes on their way to the store.
    pub(crate) submissions: Rc<Submissions>,
    /// Those who wait for the store.
    pub(crate) waiters: Rc<Waiters>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
}

impl LocalReplica {
    /// Writes an entry; its end comes under `ticket`, as [`Completion::Written`].
    /// A write that was stamped here comes with its stamp; the clock takes note
    /// of any other, be it a peer's, a repair or a hint.
    ///
    /// # Errors
    /// [`Miss::Refused`] for one from too far ahead: nothing is written then. A
    /// broken clock must not reach this store, by whatever way.
    pub(crate) fn write(
        &self,
        entry: Entry,
        stamp: Option<Stamp>,
        ticket: u64,
    ) -> Result<(), Miss> {
        if stamp.is_none() && !self.stamping.observe(entry.timestamp()) {
            tracing::warn!(
                timestamp = %entry.timestamp(),
                "a version is stamped too far ahead of this node's clock: refused"
            );
            return Err(Miss::Refused);
        }
        self.submissions.push(entry, stamp, ticket);
        Ok(())
    }

    /// The newest version of a key, be it a tombstone or expired, if no disk
    /// has to be asked for it.
    pub(crate) fn read_cached(&self, key: &[u8]) -> Option<Result<Option<Entry>, Miss>> {
        if !self.membership.is_witness() {
            // What was lost with an older store must not be taken for absent.
            return Some(Err(Miss::Unfilled));
        }
        match self.engine.get_cached(key) {
            Ok(Lookup::Found(entry)) => Some(Ok(entry)),
            Ok(Lookup::MayBlock) => None,
            Err(error) => Some(Err(miss_of(&error))),
        }
    }

    /// Reads a key where blocking is allowed; the end comes under `ticket`, as
    /// [`Completion::Read`].
    ///
    /// # Errors
    /// Too many reads wait: then nothing comes.
    pub(crate) fn read(&self, key: &[u8], ticket: u64) -> Result<(), Miss> {
        self.read_pool
            .submit(ReadJob {
                read: Read::Key(Box::from(key), Arc::clone(&self.answers)),
                completions: Arc::clone(self.waiters.completions()),
                ticket,
            })
            .map_err(|PoolFull| Miss::Overloaded)
    }

    /// Waits until the peers have said whether the store is a witness: at a
    /// first start, and for a moment at each. It leaves an eighth of the time
    /// until the deadline, for an answer that says that it is none.
    pub(crate) async fn settled(&self, deadline: Duration) {
        let left = deadline.saturating_sub(self.clock.monotonic());
        let patience = left / 8 * 7;
        // In vain, it is as if there had been nothing to wait for.
        let _in_time = tokio::time::timeout(patience, self.membership.settled()).await;
    }

    /// Has `work` done once the store's standing is settled, or time is short.
    /// Those who wait are bounded: each is a call in flight of a peer.
    fn when_settled(self: &Rc<Self>, reply: Reply, work: impl FnOnce(&Rc<Self>, Reply) + 'static) {
        if self.membership.is_settled() {
            return work(self, reply);
        }
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            replica.settled(reply.deadline()).await;
            work(&replica, reply);
        });
    }

    /// Has what a write still has to know read; its end then comes under
    /// `ticket` later. All other ends are given back.
    pub(crate) fn look(&self, ticket: u64, completion: Completion) -> Option<Completion> {
        match completion {
            Completion::Written(Ok(Applied::Pending(pending))) => {
                let job = ReadJob {
                    read: Read::Newer(pending.clone()),
                    completions: Arc::clone(self.waiters.completions()),
                    ticket,
                };
                match self.read_pool.submit(job) {
                    Ok(()) => None,
                    Err(PoolFull) => {
                        Some(Completion::Written(Ok(Applied::Known(pending.give_up()))))
                    }
                }
            }
            completion => Some(completion),
        }
    }

    /// What an end of a request is to whoever asked this replica; `None` is the
    /// deadline. What a store has taken that is no witness is no ack, and what
    /// it has read no answer: they say nothing of what was acknowledged.
    pub(crate) fn answer_of(&self, completion: Option<Completion>) -> PeerAnswer {
        match completion {
            Some(Completion::Written(Ok(_)) | Completion::Read(Ok(_)))
                if !self.membership.is_witness() =>
            {
                PeerAnswer::Missed(Miss::Unfilled)
            }
            completion => answer_of(completion),
        }
    }

    fn write_for_peer(self: &Rc<Self>, entry: Entry, reply: Reply) {
        // It is stored at once; what waits is the answer.
        let replica = Rc::clone(self);
        let ticket = self.waiters.handle(reply.deadline(), move |completion| {
            replica.when_settled(reply, |replica, reply| {
                reply.send(replica.answer_of(completion));
            });
        });
        if let Err(miss) = self.write(entry, None, ticket) {
            self.waiters
                .complete(ticket, Completion::Peer(PeerAnswer::Missed(miss)));
        }
    }

    fn read_for_peer(self: &Rc<Self>, key: &Bytes, reply: Reply) {
        if let Some(result) = self.read_cached(key) {
            return self.reply_found(result, reply);
        }
        let replica = Rc::clone(self);
        let ticket = self
            .waiters
            .handle(reply.deadline(), move |mut completion| {
                let share = match &mut completion {
                    Some(Completion::Read(Ok((_, share)))) => share.take(),
                    _ => None,
                };
                reply.send_holding(replica.answer_of(completion), share);
            });
        if let Err(miss) = self.read(key, ticket) {
            self.waiters
                .complete(ticket, Completion::Peer(PeerAnswer::Missed(miss)));
        }
    }

    /// Answers what is at hand; a long value counts until it is sent.
    fn reply_found(&self, result: Result<Option<Entry>, Miss>, reply: Reply) {
        let taken = result.and_then(|entry| {
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
            match self.answers.take_for_value(value_bytes) {
                Ok(share) => Ok((entry, share)),
                Err(Refused) => Err(Miss::Overloaded),
            }
        });
        match taken {
            Ok((entry, share)) => reply.send_holding(PeerAnswer::Found(entry), share),
            Err(miss) => reply.send(PeerAnswer::Missed(miss)),
        }
    }
}

impl peer::RequestHandler for LocalReplica {
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply) {
        match request {
            PeerRequest::Write(entry) => self.write_for_peer(entry, reply),
            PeerRequest::Read(key) => {
                self.when_settled(reply, move |replica, reply| {
                    replica.read_for_peer(&key, reply);
                });
            }
        }
    }
}

/// The local replica as the delivery of hints uses it: it, too, misses writes,
/// those for which its store had too much to do.
pub(crate) struct OwnHints {
    /// The receiver.
    pub(crate) replica: Rc<LocalReplica>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a hint may take.
    pub(crate) timeout: Duration,
}

impl HintReceiver for OwnHints {
    fn is_up(&self) -> bool {
        self.replica.engine.takes_puts()
    }

    async fn store(&self, hint: Entry) -> Result<(), Miss> {
        let deadline = self.clock.monotonic().saturating_add(self.timeout);
        let wait = self.replica.waiters.register(deadline);
        self.replica.write(hint, None, wait.ticket())?;
        stored(&self.replica.answer_of(wait.only().await))
    }
}

/// Whether a replica has stored what it was sent, be it a witness or not.
pub(crate) fn stored(answer: &PeerAnswer) -> Result<(), Miss> {
    match answer {
        PeerAnswer::Stored { .. } | PeerAnswer::Missed(Miss::Unfilled) => Ok(()),
        PeerAnswer::Missed(why) => Err(*why),
        PeerAnswer::Found(_) => Err(Miss::Failed),
    }
}

/// What an end is where the store is a witness, or another one has answered.
pub(crate) fn answer_of(completion: Option<Completion>) -> PeerAnswer {
    match completion {
        Some(Completion::Written(Ok(Applied::Known(verdict)))) => PeerAnswer::Stored { verdict },
        // `LocalReplica::look` leaves none unread.
        Some(Completion::Written(Ok(Applied::Pending(pending)))) => PeerAnswer::Stored {
            verdict: pending.give_up(),
        },
        Some(Completion::Read(Ok((entry, _share)))) => PeerAnswer::Found(entry),
        Some(Completion::Written(Err(error)) | Completion::Read(Err(error))) => {
            PeerAnswer::Missed(miss_of(&error))
        }
        Some(Completion::Peer(answer)) => answer,
        Some(Completion::Scanned(..) | Completion::HintKept) => PeerAnswer::Missed(Miss::Failed),
        None => PeerAnswer::Missed(Miss::Timeout),
    }
}

/// What an error of the store is to a request that may ask other replicas.
fn miss_of(error: &lsm::Error) -> Miss {
    match error {
        lsm::Error::Overloaded => Miss::Overloaded,
        lsm::Error::DiskFull => Miss::Full,
        lsm::Error::Closed => Miss::Refused,
        // The engine has told of it, once for the store or the file. A line for
        // each request that finds it so would only fill the log.
        lsm::Error::Poisoned { .. } | lsm::Error::Corrupt { .. } => {
            tracing::debug!(%error, "the store failed a request");
            Miss::Failed
        }
        lsm::Error::Io { .. }
        | lsm::Error::Sync { .. }
        | lsm::Error::Locked { .. }
        | lsm::Error::Invalid(_) => {
            tracing::error!(%error, "the store failed a request");
            Miss::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{MemoryParts, NodeConfig, Resources};
    use crate::node::Node;
    use crate::seams::Seams;
    use base::{Expiry, ManualClock, SeededRandom, Timestamp, Verdict};
    use cluster::NodeUrl;
    use lsm::disk::{Call, Fault};
    use lsm::testing::BlockingWrite;
    use lsm::{Disk, Durability, Executor, FaultyDisk, MemoryDisk, StepExecutor};
    use std::io::{self, Write};
    use std::path::Path;
    use std::sync::Mutex;

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
            read_threads: 1,
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
        Node::open(config, resources, seams, &executor).unwrap()
    }

    fn replica(node: &Node) -> Rc<LocalReplica> {
        let waiters = Waiters::new();
        let writes = Arc::clone(waiters.writes());
        Rc::new(LocalReplica {
            engine: node.engine.clone(),
            stamping: Arc::clone(&node.stamping),
            membership: node.membership.clone(),
            read_pool: Arc::clone(&node.read_pool),
            answers: Arc::clone(&node.answers),
            submissions: Rc::new(Submissions::new(node.engine.clone(), writes)),
            waiters,
            clock: Arc::clone(&node.clock),
        })
    }

    /// What a peer is told of a write.
    async fn verdict(replica: &LocalReplica, entry: Entry) -> Verdict {
        let wait = replica.waiters.register(Duration::MAX);
        replica.write(entry, None, wait.ticket()).unwrap();
        match replica.answer_of(wait.only().await) {
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
                // A pool that has stopped takes as little as a full one.
                "the pool is full" => node.read_pool.stop(),
                _ => {}
            }
            let tasks = tokio::task::LocalSet::new();
            let submissions = Rc::clone(&replica.submissions);
            tasks.spawn_local(submissions.submit_forever());
            let looking = Rc::clone(&replica);
            let look = move |ticket, completion| looking.look(ticket, completion);
            tasks.spawn_local(Rc::clone(&replica.waiters).deliver_forever(look));
            let told = tasks.run_until(verdict(&replica, version(45))).await;
            assert_eq!(told, expected, "{label}");
            disk.heal();
            let again = tasks.run_until(verdict(&replica, version(45))).await;
            assert_eq!(again, expected, "{label}: what was told stays");
        }
    }
}
