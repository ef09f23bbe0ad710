//! Coordinates a request: asks the replicas of a key, counts their answers,
//! says what it came to.
//!
//! A request names how many replicas the key has and how many must answer
//! ([`Replicas`]). This is the one place that turns these, a key and a
//! deadline into a reply; whoever calls it knows nothing of where replicas
//! are. Today a cluster has one node, so the only replica is the local store.

use crate::admission::{Allotment, Budget, LONG_VALUE_BYTES, Refused, Share, TurnBudget};
use crate::outbox::{Completion, Waiters};
use crate::read_pool::{PoolFull, Read, ReadJob, ReadPool};
use crate::stamping::Stamping;
use crate::submissions::Submissions;
use bytes::Bytes;
use lsm::{Applied, Clock, Engine, Entry, Expiry, Lookup, Scan, Timestamp};
use serde::Serialize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of keys and values that a range asks the store for at a time.
pub(crate) const BATCH_BYTES_MAX: usize = 64 << 10;

/// How many replicas a key has for a request, and how many must answer:
/// `1 <= ack <= from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// How many must answer.
    pub(crate) ack: u8,
    /// How many there are.
    pub(crate) from: u8,
}

/// What a write makes of a key.
pub(crate) enum Change {
    /// The key has this value from now on.
    Put {
        /// The value.
        value: Bytes,
        /// In how many seconds the version expires, if it does.
        ttl_seconds: Option<u64>,
    },
    /// The key has no value from now on.
    Delete,
}

/// What the entries of a write are made from: a second stamp makes another.
enum Source {
    Change(Change),
    /// A long value is kept once: in the first entry, not also as it came.
    First(Entry),
}

impl Source {
    /// The write with this stamp.
    fn entry(&mut self, key: &[u8], timestamp: Timestamp, expiry: Expiry, copies: u8) -> Entry {
        let value: &[u8] = match self {
            Self::Change(Change::Delete) => return Entry::tombstone(key, timestamp, copies),
            Self::Change(Change::Put { value, .. }) => value,
            Self::First(entry) => entry.value_bytes(),
        };
        let entry = Entry::value(key, timestamp, value, expiry, copies);
        if value.len() > LONG_VALUE_BYTES {
            *self = Self::First(entry.clone());
        }
        entry
    }
}

/// A write that is stored.
pub(crate) struct Written {
    /// Its timestamp.
    pub(crate) timestamp: Timestamp,
    /// How many replicas have said so.
    pub(crate) acks: u8,
}

/// A read that was answered.
pub(crate) struct Found {
    /// The freshest version, be it a tombstone or expired.
    pub(crate) entry: Option<Entry>,
    /// How many replicas have answered.
    pub(crate) acks: u8,
    /// What a long value counts for, for as long as it is held.
    pub(crate) share: Option<Share>,
}

/// What became of a request at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReplicaOutcome {
    /// No answer in time.
    Timeout,
    /// It does not take requests: it is stopping.
    Refused,
    /// It has too much to do.
    Overloaded,
    /// Its disk is full.
    Full,
    /// Its store cannot.
    Failed,
}

/// A line of a receipt.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReplicaLine {
    /// The replica.
    pub(crate) url: String,
    /// What became of the request there.
    pub(crate) outcome: ReplicaOutcome,
}

/// What became of a request that failed, replica by replica.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Receipt {
    /// How many replicas have answered as asked; the header of the reply says so.
    #[serde(skip)]
    pub(crate) acks: u8,
    /// The write's timestamp, a decimal number in a string: JSON's numbers do
    /// not hold all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    /// The replicas that were asked.
    pub(crate) replicas: Vec<ReplicaLine>,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This node has too much to do, and no other can help.
    Overloaded,
    /// This node's clock can give no stamp.
    NoStamp,
    /// The disk of the only replica is full.
    DiskFull(Receipt),
    /// Too few replicas answered.
    NotEnoughReplicas(Receipt),
}

/// A batch of a range: the scan to go on with, and its next entries.
pub(crate) struct Batch {
    /// The scan.
    pub(crate) scan: Box<Scan>,
    /// The entries; none at the end.
    pub(crate) entries: Vec<Entry>,
    /// What the entries count for, for as long as one is held.
    pub(crate) allotment: Allotment,
}

/// Why a batch of a range did not come.
#[derive(Debug)]
pub(crate) enum BatchFailure {
    /// There was no memory for it in time, or too many reads wait.
    Overloaded,
    /// The store did not answer in time.
    TimedOut,
    /// The store cannot read it.
    Failed(lsm::Error),
}

/// Coordinates the requests of one runtime.
pub(crate) struct Coordinator {
    url: Arc<str>,
    engine: Engine,
    clock: Arc<dyn Clock>,
    stamping: Arc<Stamping>,
    read_pool: Arc<ReadPool>,
    reading: Reading,
    waiters: Rc<Waiters>,
    submissions: Rc<Submissions>,
}

/// The memory of what is read.
#[derive(Clone)]
pub(crate) struct Reading {
    /// Long values on their way out.
    pub(crate) answers: Arc<Budget>,
    /// Batches of ranges on their way out.
    pub(crate) ranges: Arc<TurnBudget>,
    /// What a batch may take while it is read, when nobody knows what it will hold.
    pub(crate) range_batch_bytes: usize,
}

impl Coordinator {
    /// A coordinator whose answers come to `waiters`.
    pub(crate) fn new(
        url: Arc<str>,
        engine: Engine,
        clock: Arc<dyn Clock>,
        stamping: Arc<Stamping>,
        read_pool: Arc<ReadPool>,
        reading: Reading,
        waiters: Rc<Waiters>,
    ) -> Self {
        let writes = Arc::clone(waiters.writes());
        Self {
            submissions: Rc::new(Submissions::new(engine.clone(), writes)),
            url,
            engine,
            clock,
            stamping,
            read_pool,
            reading,
            waiters,
        }
    }

    /// Writes a key. The deadline is on the monotonic clock.
    ///
    /// When a replica names a version at or above the write's stamp, the write
    /// is stamped once more, above that, and repeated: what was acknowledged
    /// before it began lies below the second stamp, and what lies above is
    /// concurrent with it.
    ///
    /// # Errors
    /// See [`Failure`]; the write may still appear later.
    pub(crate) async fn write(
        &self,
        key: &[u8],
        change: Change,
        replicas: Replicas,
        deadline: Duration,
    ) -> Result<Written, Failure> {
        let expiry = self.expiry_of(&change);
        let mut source = Source::Change(change);
        let (mut timestamp, applied) = self
            .write_once(key, &mut source, expiry, replicas, deadline)
            .await?;
        if let Some(newest_held) = applied.newest_held.filter(|held| *held >= timestamp) {
            self.stamping.observe(newest_held);
            (timestamp, _) = self
                .write_once(key, &mut source, expiry, replicas, deadline)
                .await?;
        }
        Ok(Written { timestamp, acks: 1 })
    }

    /// Reads a key; answers at once when the disk need not be asked.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) async fn read(&self, key: &[u8], deadline: Duration) -> Result<Found, Failure> {
        let (entry, share) = match self.engine.get_cached(key) {
            Ok(Lookup::Found(entry)) => {
                let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
                let share = self.reading.answers.take_for_value(value_bytes);
                (entry, share.map_err(|Refused| Failure::Overloaded)?)
            }
            Ok(Lookup::MayBlock) => self.read_from_disk(key, deadline).await?,
            Err(error) => return Err(self.failure(None, &error)),
        };
        Ok(Found {
            entry,
            acks: 1,
            share,
        })
    }

    /// Starts a scan of this node's keys, as of now.
    pub(crate) fn scan(&self, start: &[u8], end: Option<&[u8]>) -> Box<Scan> {
        Box::new(self.engine.scan(start, end))
    }

    /// Reads the next batch of a scan, once there is memory for whatever it
    /// may hold; then the batch keeps what it does hold.
    ///
    /// # Errors
    /// See [`BatchFailure`]; the scan is lost.
    pub(crate) async fn next_batch(
        &self,
        scan: Box<Scan>,
        deadline: Duration,
    ) -> Result<Batch, BatchFailure> {
        let mut wait = self.waiters.register(deadline);
        let Reading {
            ranges,
            range_batch_bytes,
            ..
        } = &self.reading;
        let allotment = tokio::select! {
            biased;
            taken = ranges.take(*range_batch_bytes) => taken.ok(),
            // Nobody was asked for an answer yet: this is the deadline.
            _ = &mut wait => None,
        };
        let allotment = allotment.ok_or(BatchFailure::Overloaded)?;
        self.read_pool
            .submit(ReadJob {
                read: Read::Batch(scan, BATCH_BYTES_MAX, allotment),
                outbox: Arc::clone(self.waiters.outbox()),
                ticket: wait.ticket(),
            })
            .map_err(|PoolFull| BatchFailure::Overloaded)?;
        match wait.await {
            Some(Completion::Scanned(scan, Ok(entries), allotment)) => Ok(Batch {
                scan,
                entries,
                allotment,
            }),
            Some(Completion::Scanned(_, Err(error), _)) => Err(BatchFailure::Failed(error)),
            _ => Err(BatchFailure::TimedOut),
        }
    }

    /// The writes of this runtime that the store has yet to be given.
    pub(crate) fn submissions(&self) -> &Rc<Submissions> {
        &self.submissions
    }

    /// The waits of this runtime.
    pub(crate) fn waiters(&self) -> &Rc<Waiters> {
        &self.waiters
    }

    /// One expiry for all stamps of a write.
    fn expiry_of(&self, change: &Change) -> Expiry {
        match change {
            Change::Put {
                ttl_seconds: Some(seconds),
                ..
            } => seconds
                .checked_mul(1000)
                .and_then(|ttl_ms| ttl_ms.checked_add(self.clock.unix_ms()))
                .map_or(Expiry::NEVER, Expiry::at_unix_ms),
            _ => Expiry::NEVER,
        }
    }

    /// Stamps a write, hands it to the store and waits for its end.
    async fn write_once(
        &self,
        key: &[u8],
        source: &mut Source,
        expiry: Expiry,
        replicas: Replicas,
        deadline: Duration,
    ) -> Result<(Timestamp, Applied), Failure> {
        let wait = self.waiters.register(deadline);
        let stamp = self.stamping.stamp().ok_or(Failure::NoStamp)?;
        let timestamp = stamp.timestamp();
        let entry = source.entry(key, timestamp, expiry, replicas.from);
        self.submissions.push(entry, stamp, wait.ticket());
        match wait.await {
            Some(Completion::Written(Ok(applied))) => Ok((timestamp, applied)),
            Some(Completion::Written(Err(error))) => Err(self.failure(Some(timestamp), &error)),
            _ => Err(self.timed_out(Some(timestamp))),
        }
    }

    async fn read_from_disk(
        &self,
        key: &[u8],
        deadline: Duration,
    ) -> Result<(Option<Entry>, Option<Share>), Failure> {
        let wait = self.waiters.register(deadline);
        self.read_pool
            .submit(ReadJob {
                read: Read::Key(Box::from(key), Arc::clone(&self.reading.answers)),
                outbox: Arc::clone(self.waiters.outbox()),
                ticket: wait.ticket(),
            })
            .map_err(|PoolFull| Failure::Overloaded)?;
        match wait.await {
            Some(Completion::Read(Ok(found))) => Ok(found),
            Some(Completion::Read(Err(error))) => Err(self.failure(None, &error)),
            _ => Err(self.timed_out(None)),
        }
    }

    /// What an error of the only replica makes of a request.
    fn failure(&self, timestamp: Option<Timestamp>, error: &lsm::Error) -> Failure {
        let outcome = match error {
            lsm::Error::Overloaded => ReplicaOutcome::Overloaded,
            lsm::Error::DiskFull => ReplicaOutcome::Full,
            lsm::Error::Closed => ReplicaOutcome::Refused,
            lsm::Error::Poisoned { .. }
            | lsm::Error::Corrupt { .. }
            | lsm::Error::Io { .. }
            | lsm::Error::Sync { .. }
            | lsm::Error::Locked { .. }
            | lsm::Error::Invalid(_) => {
                tracing::error!(%error, "the store failed a request");
                ReplicaOutcome::Failed
            }
        };
        let receipt = self.receipt(timestamp, outcome);
        match outcome {
            ReplicaOutcome::Overloaded => Failure::Overloaded,
            ReplicaOutcome::Full => Failure::DiskFull(receipt),
            ReplicaOutcome::Timeout | ReplicaOutcome::Refused | ReplicaOutcome::Failed => {
                Failure::NotEnoughReplicas(receipt)
            }
        }
    }

    fn timed_out(&self, timestamp: Option<Timestamp>) -> Failure {
        Failure::NotEnoughReplicas(self.receipt(timestamp, ReplicaOutcome::Timeout))
    }

    fn receipt(&self, timestamp: Option<Timestamp>, outcome: ReplicaOutcome) -> Receipt {
        Receipt {
            acks: 0,
            timestamp: timestamp.map(|timestamp| timestamp.to_string()),
            replicas: vec![ReplicaLine {
                url: self.url.to_string(),
                outcome,
            }],
        }
    }
}
