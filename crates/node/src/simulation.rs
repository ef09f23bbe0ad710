//! A node without threads of its own, so that many nodes can run on one thread, under
//! one seed. Its runtimes take turns on that thread.
//!
//! It is a [`crate::Node`] with its workers, as a server runs them: coordinator, peer
//! protocol, hints, replica state, store. The simulation provides clock, randomness, disk,
//! executor and transport. Timers are tokio's, whose clock can be paused.

use crate::admin_jobs::backups::EndedBackup;
use crate::config::{NodeConfig, Resources};
use crate::coordinator::{
    self, Change, ConditionalChange, ConditionalReply, Ended, Expires, Failure, Operations, Terms,
};
use crate::node::{Node, OpenError, Seams};
use crate::scans::ClusterScanPlan;
use crate::worker::Worker;
use backup::BackupError;
use base::{Entry, Timestamp};
use bytes::Bytes;
use cluster::comparison::RepairKind;
use cluster::layout::MemberList;
use cluster::repair::{Facts, SessionId};
use cluster::{Condition, Layout, NodeId, Replicas};
use lsm::{Engine, Executor};
use peer::{PeerRequest, Stream, Transport};
use repair::store::GcStatus;
use replica::ReadsRun;
use replica::hints::HintStatistics;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// How many replicas had acknowledged it by then.
    pub acks: u8,
}

/// A read that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The newest version, which may be a tombstone or expired.
    pub entry: Option<Entry>,
    /// How many replicas had answered by then.
    pub acks: u8,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was done: the node has too much to do.
    Overloaded,
    /// Nothing was done: the node may not timestamp writes.
    NoTimestamp,
    /// Nothing was done: the only node's disk is full.
    DiskFull,
    /// Nothing was done: the only node's store takes no writes.
    StoreFailed,
    /// Too few replicas answered; a write may still appear, with this timestamp.
    NotEnoughReplicas {
        /// The timestamp of a write.
        timestamp: Option<Timestamp>,
    },
}

/// How a conditional write has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionalAnswer {
    /// It is written.
    Applied(Written),
    /// Another version is current, or none.
    NotMatched(Option<Timestamp>),
    /// Nothing was done and will be.
    NotApplied(Refusal),
    /// It may be written, now or later, with this timestamp.
    Unknown(Option<Timestamp>),
}

/// An operation of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOperation {
    /// The key.
    pub key: Vec<u8>,
    /// What is done with it.
    pub action: BatchAction,
}

/// What an operation of a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchAction {
    /// Writes a value, which may expire.
    Put {
        /// After how many seconds it expires.
        ttl_seconds: Option<u64>,
    },
    /// Deletes.
    Delete,
    /// Reads.
    Get,
}

/// How an operation of a batch has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchAnswer {
    /// A write.
    Written(Result<Written, Refusal>),
    /// A read.
    Found(Result<Found, Refusal>),
}

/// Sees the operations of a batch, by their numbers, as they run.
pub trait BatchObserver {
    /// An operation begins. Returns the value of a put.
    fn begins(&self, number: usize) -> Bytes;

    /// It has ended.
    fn ended(&self, number: usize, answer: BatchAnswer);
}

/// A node.
pub struct SimulatedNode {
    node: Arc<Node>,
    /// By runtime.
    workers: Vec<Rc<Worker>>,
    /// The runtime whose turn it is.
    turn: Cell<usize>,
    /// Whether the last write went the way of a batch's.
    was_of_batch: Cell<bool>,
}

impl SimulatedNode {
    /// Opens a node with as many runtimes as `resources` has. It does its reads on the
    /// spot, without threads.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        config: NodeConfig,
        resources: Resources,
        seams: Seams,
        executor: &Arc<dyn Executor>,
        transport: &Arc<dyn Transport>,
    ) -> Result<Self, OpenError> {
        let runtimes = resources.runtimes;
        let reads_run = ReadsRun::OnTheSpot;
        let node = Node::open_with(config, resources, seams, executor, reads_run)?;
        let node = Arc::new(node);
        let workers = (0..runtimes)
            .map(|number| Worker::new(Arc::clone(&node), number, transport))
            .collect();
        Ok(Self {
            node,
            workers,
            turn: Cell::new(0),
            was_of_batch: Cell::new(false),
        })
    }

    /// Starts its tasks in the current `LocalSet`; they end with it.
    pub fn start(&self) {
        for worker in &self.workers {
            worker.spawn_upkeep();
        }
    }

    /// Closes its store, as a server does once its requests have ended.
    ///
    /// # Errors
    /// Those of closing the store.
    pub fn close(&self) -> Result<(), lsm::Error> {
        self.node.close()
    }

    /// Serves a connection that another node has dialled, until it ends.
    pub async fn accept(&self, stream: Box<dyn Stream>) {
        self.next_worker()
            .welcome(stream, Bytes::new(), false, || {})
            .await;
    }

    /// Writes a key.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn put(
        &self,
        key: &[u8],
        value: Bytes,
        ttl_seconds: Option<u64>,
        replicas: Replicas,
    ) -> Result<Written, Refusal> {
        let expires = expires_of(ttl_seconds);
        self.write(key, Change::Put { value, expires }, replicas)
            .await
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn delete(&self, key: &[u8], replicas: Replicas) -> Result<Written, Refusal> {
        self.write(key, Change::Delete, replicas).await
    }

    /// Writes a value, or deletes the key, if this version is current; [`None`] if no value is.
    pub async fn write_if(
        &self,
        key: &[u8],
        value: Option<Bytes>,
        version: Option<Timestamp>,
        replicas: Replicas,
    ) -> ConditionalAnswer {
        let change = ConditionalChange::Write(match value {
            Some(value) => Change::Put {
                value,
                expires: Expires::Never,
            },
            None => Change::Delete,
        });
        let condition = version.map_or_else(Condition::absent, Condition::version);
        self.conditional(key, change, condition, replicas).await
    }

    /// Has the value of a key expire after so many seconds.
    pub async fn touch(&self, key: &[u8], seconds: u64, replicas: Replicas) -> ConditionalAnswer {
        let change = ConditionalChange::Touch(Expires::AfterSeconds(seconds));
        let condition = Condition::default();
        self.conditional(key, change, condition, replicas).await
    }

    async fn conditional(
        &self,
        key: &[u8],
        change: ConditionalChange,
        condition: Condition,
        replicas: Replicas,
    ) -> ConditionalAnswer {
        let worker = self.next_worker();
        let deadline = worker.deadline_after(worker.clock().monotonic());
        let terms = Terms::new(replicas, deadline);
        let reply = worker
            .coordinator()
            .write_if(key, change, condition, None, terms);
        match reply.await {
            ConditionalReply::Applied(written) | ConditionalReply::Touched(written, _) => {
                ConditionalAnswer::Applied(Written {
                    timestamp: written.timestamp,
                    acks: written.acks,
                })
            }
            ConditionalReply::NotMatched { current } => ConditionalAnswer::NotMatched(current),
            ConditionalReply::NotApplied(failure) => {
                ConditionalAnswer::NotApplied(refusal_of(failure))
            }
            ConditionalReply::Unknown(receipt) => ConditionalAnswer::Unknown(receipt.timestamp),
            ConditionalReply::NoOverlap | ConditionalReply::Unsupported { .. } => {
                ConditionalAnswer::NotApplied(Refusal::Overloaded)
            }
        }
    }

    /// How many promises of conditional writes its store keeps.
    #[must_use]
    pub fn promises_kept(&self) -> usize {
        self.node.engine.promises_kept()
    }

    /// Reads a key.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn get(&self, key: &[u8], replicas: Replicas) -> Result<Found, Refusal> {
        let worker = self.next_worker();
        let deadline = worker.deadline_after(worker.clock().monotonic());
        found_of(
            worker
                .coordinator()
                .read(key, Terms::new(replicas, deadline))
                .await,
        )
    }

    /// Runs the operations of a batch, all at a time but for those on one key, which run in their
    /// order.
    pub async fn batch(
        &self,
        batch: &[BatchOperation],
        replicas: Replicas,
        observer: &dyn BatchObserver,
    ) {
        let worker = self.next_worker();
        let mut operations = Operations::new(worker.coordinator());
        let mut waiting: Vec<usize> = (0..batch.len()).collect();
        let mut running = BTreeSet::new();
        loop {
            let mut taken: BTreeSet<&[u8]> = BTreeSet::new();
            taken.extend(running.iter().map(|number: &usize| &*batch[*number].key));
            waiting.retain(|number| {
                let BatchOperation { key, action } = &batch[*number];
                if !taken.insert(key) {
                    return true;
                }
                running.insert(*number);
                let value = observer.begins(*number);
                let deadline = worker.deadline_after(worker.clock().monotonic());
                let terms = Terms::new(replicas, deadline);
                let (key, number) = (Bytes::copy_from_slice(key), *number as u64);
                let change = match action {
                    BatchAction::Get => {
                        operations.read(number, key, terms);
                        return false;
                    }
                    BatchAction::Delete => Change::Delete,
                    BatchAction::Put { ttl_seconds } => Change::Put {
                        value,
                        expires: expires_of(*ttl_seconds),
                    },
                };
                operations.write(number, key, change, None, terms);
                false
            });
            if running.is_empty() {
                return;
            }
            let (number, ended) = poll_fn(|cx| operations.poll_ended(cx)).await;
            let number = number as usize;
            running.remove(&number);
            observer.ended(
                number,
                match ended {
                    Ended::Write(written) => BatchAnswer::Written(written_of(written)),
                    Ended::Read(found) => BatchAnswer::Found(found_of(found)),
                    // No operation has a condition.
                    Ended::Conditional(_) => BatchAnswer::Written(Err(Refusal::Overloaded)),
                },
            );
        }
    }

    /// Tells the live entities of the whole cluster from `start` on: those that were told, and
    /// whether that is all. Its client pauses between two batches.
    pub async fn scan(
        &self,
        start: &[u8],
        replicas: Replicas,
        pause: Duration,
    ) -> (Vec<Entry>, bool) {
        let worker = self.next_worker();
        let (clock, coordinator) = (worker.clock(), worker.coordinator());
        let deadline = worker.deadline_after(clock.monotonic());
        let plan = ClusterScanPlan {
            replicas,
            wants_values: true,
            limit: u64::MAX,
        };
        let mut entries = Vec::new();
        let Ok(window) = coordinator.scan_window(deadline).await else {
            return (entries, false);
        };
        let mut scan = coordinator.begin_cluster_scan(start, None, plan, window, deadline);
        loop {
            let Ok(batch) = coordinator.next_batch(scan, deadline).await else {
                return (entries, false);
            };
            entries.extend(batch.entries);
            match batch.rest {
                Some(next) => scan = next,
                None => return (entries, true),
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Its part in changes of the list of members.
    #[must_use]
    pub fn member_changes(&self) -> crate::MemberChanges {
        self.node.member_changes().clone()
    }

    /// How many hints wait for others, and for this node's own store.
    #[must_use]
    pub fn hints_waiting(&self) -> u64 {
        let layout = self.node.layout();
        let nodes = layout.members().ids();
        nodes.map(|node| self.node.hints.waiting(node).hints).sum()
    }

    /// How many hints were lost since the start: not kept, or dropped before
    /// their peer took them.
    #[must_use]
    pub fn hints_dropped(&self) -> u64 {
        let HintStatistics {
            kept: _,
            delivered: _,
            dropped_from_queue,
            dropped_unwritten,
            dropped_for_room,
            dropped_for_age,
            dropped_obsolete,
            dropped_damaged,
            dropped_with_peer,
        } = self.node.hints.statistics();
        dropped_from_queue
            + dropped_unwritten
            + dropped_for_room
            + dropped_for_age
            + dropped_obsolete
            + dropped_damaged
            + dropped_with_peer
    }

    /// The hints that wait on the disk.
    #[must_use]
    pub fn hints(&self) -> Vec<Entry> {
        self.node.hints.all()
    }

    /// Whether the store is a voter: its reads and acks count.
    #[must_use]
    pub fn is_voter(&self) -> bool {
        self.node.membership.is_voter()
    }

    /// How many requests of repair sessions it has answered since its start.
    #[must_use]
    pub fn repair_requests(&self) -> u64 {
        self.node.repair_status().counts.requests
    }

    /// What the node knows of repair.
    #[must_use]
    pub fn repair_status(&self) -> crate::RepairStatus {
        self.node.repair_status()
    }

    /// Puts the layout of a list of members in force, as if all members had agreed on it.
    pub fn put_in_force(&self, list: &MemberList) {
        let own = self.node.layout().members().own();
        if let Some(layout) = Layout::of(list, own) {
            self.node.put_in_force(layout);
        }
    }

    /// What full sessions of a change of the members have shown about its store.
    #[must_use]
    pub fn facts(&self) -> Option<Facts> {
        self.node.repair.facts()
    }

    /// Has it coordinate a session.
    pub fn order_repair(&self, kind: RepairKind) {
        // Nobody waits for the result.
        let _ordered = self.node.order_repair(kind);
    }

    /// Has it coordinate a backup to a target. Returns its number on this node.
    ///
    /// # Errors
    /// As [`Worker::order_backup`].
    pub fn order_backup(&self, target: &str, missing_max: usize) -> Result<u64, BackupError> {
        let (number, _) = self
            .next_worker()
            .order_backup(target, missing_max, false)?;
        Ok(number)
    }

    /// How a backup has ended that it was to coordinate; `None` before its end.
    #[must_use]
    pub fn backup_end(&self, number: u64) -> Option<EndedBackup> {
        self.node.backup_end(number)
    }

    /// Sends a version to another node as a repair write of a session, as one that was long on its
    /// way.
    pub async fn send_repair_write(&self, session: SessionId, to: NodeId, entry: Entry) {
        let write = PeerRequest::RepairWrite { session, entry };
        self.next_worker().repair().send_late(to, write).await;
    }

    /// Sends a version to another node as a read repair, as one that was long on its way: this
    /// node's store has answered a read with the version when it knew this GC threshold.
    pub async fn send_read_repair(&self, gc_threshold: Timestamp, to: NodeId, entry: Entry) {
        let repair = PeerRequest::Repair {
            gc_threshold,
            entry,
        };
        self.next_worker().repair().send_late(to, repair).await;
    }

    /// The repair sessions that this node takes part in.
    pub async fn running_sessions(&self) -> Vec<SessionId> {
        self.next_worker().repair().running_sessions().await
    }

    /// Whether a part of the store is known to be damaged, and not repaired yet.
    #[must_use]
    pub fn has_damage(&self) -> bool {
        self.node.engine.statistics().damaged_ranges > 0
    }

    /// What it knows of tombstone GC.
    #[must_use]
    pub fn gc_status(&self) -> GcStatus {
        self.node.gc_status()
    }

    /// The store.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.node.engine
    }

    fn next_worker(&self) -> &Worker {
        let turn = self.turn.get();
        self.turn.set((turn + 1) % self.workers.len());
        &self.workers[turn]
    }

    async fn write(
        &self,
        key: &[u8],
        change: Change,
        replicas: Replicas,
    ) -> Result<Written, Refusal> {
        let worker = self.next_worker();
        let deadline = worker.deadline_after(worker.clock().monotonic());
        let coordinator = worker.coordinator();
        let terms = Terms::new(replicas, deadline);
        // Every other write goes the way of a batch's.
        let is_of_batch = !self.was_of_batch.get();
        self.was_of_batch.set(is_of_batch);
        let written = if is_of_batch {
            let mut operations = Operations::new(coordinator);
            let key = Bytes::copy_from_slice(key);
            operations.write(0, key, change, None, terms);
            match poll_fn(|cx| operations.poll_ended(cx)).await {
                (_, Ended::Write(written)) => written,
                // Only others end like this.
                (_, Ended::Read(_) | Ended::Conditional(_)) => Err(Failure::Overloaded),
            }
        } else {
            let written = coordinator.write(key, change, None, terms);
            written.await
        };
        written_of(written)
    }
}

fn expires_of(ttl_seconds: Option<u64>) -> Expires {
    ttl_seconds.map_or(Expires::Never, Expires::AfterSeconds)
}

fn written_of(written: Result<coordinator::Written, Failure>) -> Result<Written, Refusal> {
    let written = written.map_err(refusal_of)?;
    Ok(Written {
        timestamp: written.timestamp,
        acks: written.acks,
    })
}

fn found_of(found: Result<coordinator::Found, Failure>) -> Result<Found, Refusal> {
    let found = found.map_err(refusal_of)?;
    Ok(Found {
        entry: found.entry,
        acks: found.acks,
    })
}

fn refusal_of(failure: Failure) -> Refusal {
    match failure {
        Failure::Overloaded => Refusal::Overloaded,
        Failure::NoTimestamp(_) => Refusal::NoTimestamp,
        Failure::DiskFull(_) => Refusal::DiskFull,
        Failure::StoreFailed(_) => Refusal::StoreFailed,
        Failure::NotEnoughReplicas(receipt) => Refusal::NotEnoughReplicas {
            timestamp: receipt.timestamp,
        },
    }
}
