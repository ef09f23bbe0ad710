//! Many operations that one client waits for: those of a batch.

use super::{Change, Coordinator, Failure, Found, Written};
use base::Share;
use bytes::Bytes;
use cluster::Replicas;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::JoinSet;

/// How an operation has ended.
pub enum Ended {
    /// A write.
    Write(Result<Written, Failure>),
    /// A read.
    Read(Result<Found, Failure>),
}

/// Many operations that run at a time. Dropping this ends those that are not decided.
pub struct Operations {
    coordinator: Rc<Coordinator>,
    running: JoinSet<(u64, Ended)>,
}

impl Operations {
    /// No operations yet.
    #[must_use]
    pub fn new(coordinator: &Rc<Coordinator>) -> Self {
        Self {
            coordinator: Rc::clone(coordinator),
            running: JoinSet::new(),
        }
    }

    /// Begins to write a key, as [`Coordinator::write`]. The result comes with `number`.
    pub fn write(
        &mut self,
        number: u64,
        key: Bytes,
        change: Change,
        share: Option<Share>,
        replicas: Replicas,
        deadline: Duration,
    ) {
        let coordinator = Rc::clone(&self.coordinator);
        self.running.spawn_local(async move {
            let written = coordinator.write(&key, change, share, replicas, deadline);
            (number, Ended::Write(written.await))
        });
    }

    /// Begins to read a key, as [`Coordinator::read`]. The result comes with `number`.
    pub fn read(&mut self, number: u64, key: Bytes, replicas: Replicas, deadline: Duration) {
        let coordinator = Rc::clone(&self.coordinator);
        self.running.spawn_local(async move {
            let found = coordinator.read(&key, replicas, deadline);
            (number, Ended::Read(found.await))
        });
    }

    /// The next operation that has ended; `None` if none runs. An operation that panics
    /// ends the task that waits for it.
    pub fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Ended)>> {
        match std::task::ready!(self.running.poll_join_next(cx)) {
            Some(Ok(ended)) => Poll::Ready(Some(ended)),
            Some(Err(error)) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only dropping the set cancels an operation.
                Err(_) => Poll::Pending,
            },
            None => Poll::Ready(None),
        }
    }
}
