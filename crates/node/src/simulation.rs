//! A node without HTTP and without threads of its own, so that many of them
//! can run on one thread, under one seed.
//!
//! It is the node that [`crate::Node`] runs, from the coordinator down: peer
//! protocol, hints, standing, store. Clock, randomness, disk, executor and
//! transport are the simulation's; timers are tokio's, whose clock can be
//! paused.

use crate::config::NodeConfig;
use crate::context::Context;
use crate::coordinator::{Change, Failure};
use crate::node::{Seams, StartError};
use crate::peer::{Stream, Transport};
use crate::shared::Shared;
use bytes::Bytes;
use cluster::Replicas;
use lsm::{Engine, Entry, Executor, Timestamp};
use std::rc::Rc;
use std::sync::Arc;

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// How many replicas had said so by then.
    pub acks: u8,
}

/// A read that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The winning version, be it a tombstone or expired.
    pub entry: Option<Entry>,
    /// How many replicas had answered by then.
    pub acks: u8,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was done: the node has too much to do.
    Overloaded,
    /// Nothing was done: the node may not stamp writes.
    NoStamp,
    /// Nothing was done: the only node's disk is full.
    DiskFull,
    /// Too few replicas answered; a write may still appear, with this timestamp.
    NotEnoughReplicas {
        /// The timestamp of a write.
        timestamp: Option<Timestamp>,
    },
}

/// A node.
pub struct SimulatedNode {
    context: Rc<Context>,
}

impl SimulatedNode {
    /// Opens a node. It works on the reads it has to do on the spot.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn open(
        mut config: NodeConfig,
        seams: Seams,
        executor: &Arc<dyn Executor>,
        transport: &Arc<dyn Transport>,
    ) -> Result<Self, StartError> {
        config.threads = 1;
        config.read_threads = 0;
        let shared = Arc::new(Shared::open(config, seams, executor)?);
        let context = Context::new(shared, 0, transport);
        Ok(Self { context })
    }

    /// Starts its tasks in the present `LocalSet`; they end with it.
    pub fn start(&self) {
        self.context.spawn_upkeep();
    }

    /// Serves a connection that another node has dialled, until it ends.
    pub async fn accept(&self, stream: Box<dyn Stream>) {
        self.context.welcome(stream, Bytes::new()).await;
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
        self.write(key, Change::Put { value, ttl_seconds }, replicas)
            .await
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn delete(&self, key: &[u8], replicas: Replicas) -> Result<Written, Refusal> {
        self.write(key, Change::Delete, replicas).await
    }

    /// Reads a key.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn get(&self, key: &[u8], replicas: Replicas) -> Result<Found, Refusal> {
        let began = self.context.clock().monotonic();
        let deadline = self.context.deadline_after(began);
        let found = self.context.coordinator.read(key, replicas, deadline).await;
        let found = found.map_err(refusal_of)?;
        Ok(Found {
            entry: found.entry,
            acks: found.acks,
        })
    }

    /// How many hints wait for others.
    #[must_use]
    pub fn hints_waiting(&self) -> u64 {
        let shared = self.context.shared();
        let members = &shared.config.members;
        members
            .peers()
            .map(|node| shared.hints.waiting(node).hints)
            .sum()
    }

    /// The store.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.context.shared().engine
    }

    async fn write(
        &self,
        key: &[u8],
        change: Change,
        replicas: Replicas,
    ) -> Result<Written, Refusal> {
        let began = self.context.clock().monotonic();
        let deadline = self.context.deadline_after(began);
        let coordinator = &self.context.coordinator;
        let written = coordinator
            .write(key, change, None, replicas, deadline)
            .await
            .map_err(refusal_of)?;
        Ok(Written {
            timestamp: written.timestamp,
            acks: written.acks,
        })
    }
}

fn refusal_of(failure: Failure) -> Refusal {
    match failure {
        Failure::Overloaded => Refusal::Overloaded,
        Failure::NoStamp => Refusal::NoStamp,
        Failure::DiskFull(_) => Refusal::DiskFull,
        Failure::NotEnoughReplicas(receipt) => Refusal::NotEnoughReplicas {
            timestamp: receipt.timestamp,
        },
    }
}
