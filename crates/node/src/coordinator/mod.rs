//! Coordinates a request: asks the replicas of a key, counts their answers, and
//! answers the client.
//!
//! The state machines of [`cluster::coordinator`] decide what to do after each answer; the code
//! here does it: it asks the replicas (`replica`), keeps hints, allocates timestamps, and watches
//! the deadline. `write` and `read` are the two requests, `own_read` reads this node's own store
//! alone, `request_life` is the life cycle that both share, `hedging` decides when a read asks one
//! more replica, `terms` is what a client asks of either.
//!
//! `conditional` are writes that take effect only if the version that they replace is the one that
//! their client names, and `key_turns` what those of one runtime share. `operations` runs many
//! requests for one client. `versions` shows what each node holds of a key.

mod conditional;
mod hedging;
mod key_turns;
mod operations;
mod own_read;
mod read;
mod replica_times;
mod request_life;
mod terms;
mod versions;
mod write;

pub(crate) use conditional::settle_stale_forever;
pub use conditional::{ConditionalChange, ConditionalReply};
pub(crate) use hedging::HedgeBudget;
pub(crate) use key_turns::ConditionalWrites;
pub use operations::{Ended, Operations};
pub use replica_times::{AskedReplica, ReplicaTimes};
pub use terms::Terms;
pub use versions::{HeldByNode, KeyVersions, VersionHead};

use crate::metrics::WorkerMetrics;
use base::{Clock, Entry, Expiry, Kind, Permits, Quota, Random, Reservation, Timestamp};
use bytes::Bytes;
use cluster::{Fate, Miss, NodeId, PreferenceList};
use peer::PeerAnswer;
use read::Reading;
use replica::hints::HintStore;
use replica::pending::PendingRequests;
use replica::timestamps::{NoTimestamp, TimestampAllocator};
use replica::{AnswerTime, Peers, ReplicaRequest, ReplicaSet};
use request_life::Requests;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use write::Writing;

/// What a write does to a key.
pub enum Change {
    /// The key has this value from now on.
    Put {
        /// The value.
        value: Bytes,
        /// When the version expires.
        expires: Expires,
    },
    /// The key has no value from now on.
    Delete,
}

/// When the version that a put writes expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// Never.
    Never,
    /// So many seconds after this node has begun to write it.
    AfterSeconds(u64),
    /// At this millisecond since the Unix epoch.
    AtUnixMs(u64),
}

/// A write that is stored.
#[derive(Debug)]
pub struct Written {
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// How many replicas have acknowledged it.
    pub acks: u8,
}

/// A read that was answered.
pub struct Found {
    /// The freshest version, which may be a tombstone or expired.
    pub entry: Option<Entry>,
    /// How many replicas have answered.
    pub acks: u8,
    /// The reservation of memory for a long value, to be kept as long as the value.
    pub reservation: Option<Reservation>,
}

/// A line of a receipt.
#[derive(Clone, Debug)]
pub struct ReplicaLine {
    /// The replica.
    pub url: String,
    /// How the request ended there.
    pub outcome: Fate,
}

/// How a request that failed ended at each replica.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// How many replicas have acknowledged the write, or answered the read.
    pub acks: u8,
    /// The write's timestamp.
    pub timestamp: Option<Timestamp>,
    /// The replicas of the key, in the order of its preference list.
    pub replicas: Vec<ReplicaLine>,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// This node has too much to do, and no other can help.
    Overloaded,
    /// This node allocates no timestamp for the write.
    NoTimestamp(NoTimestamp),
    /// The disk of the only replica is full.
    DiskFull(Receipt),
    /// The store of the only replica takes no writes, for this reason, so nothing was done.
    StoreFailed(Arc<str>),
    /// Too few replicas answered.
    NotEnoughReplicas(Receipt),
}

impl Failure {
    /// Whether memory for a value was lacking, at this node or at a replica.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        let lacks_memory = |line: &ReplicaLine| line.outcome == Fate::Missed(Miss::Overloaded);
        match self {
            Self::Overloaded => true,
            Self::NotEnoughReplicas(receipt) => receipt.replicas.iter().any(lacks_memory),
            Self::NoTimestamp(_) | Self::DiskFull(_) | Self::StoreFailed(_) => false,
        }
    }
}

/// Coordinates the requests of one runtime.
pub struct Coordinator {
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Timestamps writes.
    pub(crate) timestamps: Arc<TimestampAllocator>,
    /// The replicas to ask.
    pub(crate) replicas: Rc<ReplicaSet>,
    /// The nodes of the cluster.
    pub(crate) peers: Rc<Peers>,
    /// Keeps the writes that replicas missed.
    pub(crate) hints: HintStore,
    /// The requests that wait for answers.
    pub(crate) pending: Rc<PendingRequests>,
    /// The writes and the reads among them.
    pub(crate) requests: RunningRequests,
    /// Long values on their way out.
    pub(crate) answers: Arc<Quota>,
    /// Batches of scans on their way out.
    pub(crate) scans: Arc<Quota>,
    /// The memory that a batch may take while it is read, before its size is known.
    pub(crate) scan_batch_bytes: usize,
    /// The pages of scans of the whole cluster that wait for clients.
    pub(crate) windows: Arc<Quota>,
    /// How long the replicas have to answer.
    pub(crate) timeout: Duration,
    /// The size of the pages of a scan of the whole cluster, at most, in bytes.
    pub(crate) page_bytes_max: u32,
    /// How long the snapshot of a scan may live.
    pub(crate) snapshot_age_max: Duration,
    /// What is counted.
    pub(crate) metrics: Arc<WorkerMetrics>,
    /// Which reads may ask one replica more.
    pub(crate) hedging: HedgeBudget,
    /// The conditional writes under way.
    pub(crate) conditional: ConditionalWrites,
    /// Random numbers.
    pub(crate) random: Arc<dyn Random>,
}

/// The writes and the reads of one runtime that have asked their replicas.
pub(crate) struct RunningRequests {
    writes: Requests<Writing>,
    reads: Requests<Reading>,
}

impl RunningRequests {
    /// No requests yet; up to `background_max` may go on after their answer.
    pub(crate) fn new(background_max: usize) -> Self {
        let background = Permits::new(background_max);
        Self {
            writes: Requests::new(&background),
            reads: Requests::new(&background),
        }
    }
}

impl Coordinator {
    /// Waits until the replica state of this node's own store is settled, if this node is one
    /// of the replicas of the key. The replica state is settled except for a moment after a
    /// start.
    async fn settled(&self, key: &[u8], from: u8, deadline: Duration) {
        let own = self.replicas.own();
        let is_own = |node: &NodeId| self.peers.is_own(*node);
        if !own.is_settled() && self.peers.preference_list(key, from).iter().any(is_own) {
            own.settled(deadline).await;
        }
    }

    /// What one node answers to a read of a key, and the reservation of memory that a long value
    /// came with.
    pub(crate) async fn read_one(
        &self,
        node: NodeId,
        key: &Bytes,
        deadline: Duration,
    ) -> (PeerAnswer, Option<Reservation>) {
        let wait = self.pending.wait(deadline);
        let request = ReplicaRequest::Read(key);
        match self
            .replicas
            .ask(node, request, deadline, wait.address(), None)
        {
            AnswerTime::Now(answer) => (answer, None),
            AnswerTime::Later => self.replicas.answer_of(key, wait.only().await),
        }
    }

    /// Whether a version is a tombstone, or has expired. Most do not expire: then the clock
    /// is not read.
    fn is_dead(&self, entry: &Entry) -> bool {
        match entry.expiry() {
            Expiry::NEVER => entry.kind() == Kind::Tombstone,
            _ => !entry.is_live(self.clock.unix_ms()),
        }
    }

    /// How a request ended at each replica.
    fn receipt(
        &self,
        preference_list: &PreferenceList,
        fates: impl Iterator<Item = Fate>,
        acks: u8,
        timestamp: Option<Timestamp>,
    ) -> Receipt {
        let replicas = preference_list
            .iter()
            .zip(fates)
            .map(|(node, outcome)| ReplicaLine {
                url: self.peers.url_of(*node),
                outcome,
            });
        Receipt {
            acks,
            timestamp,
            replicas: replicas.collect(),
        }
    }

    /// The failure of a request whose replicas ended like this. A node without peers names
    /// its own trouble; with peers that is a line of the receipt.
    fn failure(
        &self,
        preference_list: &PreferenceList,
        fates: impl Iterator<Item = Fate>,
        acks: u8,
        timestamp: Option<Timestamp>,
    ) -> Failure {
        let receipt = self.receipt(preference_list, fates, acks, timestamp);
        let only = receipt
            .replicas
            .first()
            .filter(|_| self.peers.is_single_node())
            .map(|line| line.outcome);
        match only {
            Some(Fate::Missed(Miss::Overloaded)) => Failure::Overloaded,
            Some(Fate::Missed(Miss::Full)) => Failure::DiskFull(receipt),
            _ => {
                // A timeout says less than any other miss.
                let why = receipt.replicas.iter().find_map(|line| match line.outcome {
                    Fate::Missed(why) if why != Miss::Timeout => Some(why),
                    _ => None,
                });
                self.metrics
                    .coordination
                    .not_enough(why.unwrap_or(Miss::Timeout));
                Failure::NotEnoughReplicas(receipt)
            }
        }
    }
}
