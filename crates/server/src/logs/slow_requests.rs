//! Logs slow requests, operations of batches and peers' requests in a trace, with where their time
//! went.
//!
//! Only a node with `--slow-request` measures this: it then reads the clock once more for each step
//! and each replica.

use crate::config::LogKeys;
use base::{LogLimiter, Timestamp, TraceId};
use cluster::{Layout, Members, Replicas};
use node::{ReplicaTimes, TracedRequest};
use profile::lock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Logs slow requests.
pub(crate) struct SlowRequests {
    after: Duration,
    log_keys: LogKeys,
    limiter: Mutex<LogLimiter>,
}

/// When the steps of a request ended, on the monotonic clock.
#[derive(Default)]
pub(crate) struct Timeline {
    /// The key, or the first key of a scan.
    key: RefCell<Option<Vec<u8>>>,
    /// When the body was here.
    body: Cell<Option<Duration>>,
    /// When the request had its permit.
    admitted: Cell<Option<Duration>>,
    /// The version of what was written; 0 for none.
    version: Cell<u64>,
    /// How many replicas must answer, of how many.
    asks_replicas: Cell<Option<Replicas>>,
    /// When each replica was asked, and when it answered.
    pub(crate) replicas: Rc<ReplicaTimes>,
}

impl Timeline {
    /// When the body was here.
    pub(crate) fn body(&self) -> Option<Duration> {
        self.body.get()
    }

    /// When the request had its permit.
    pub(crate) fn admission(&self) -> Option<Duration> {
        self.admitted.get()
    }

    /// The version of what was written; 0 for none.
    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// How many replicas must answer, of how many, if any are asked.
    pub(crate) fn asks_replicas(&self) -> Option<Replicas> {
        self.asks_replicas.get()
    }

    /// Notes how many replicas must answer.
    pub(crate) fn asks(&self, replicas: Replicas) {
        self.asks_replicas.set(Some(replicas));
    }

    /// Notes the version of what was written.
    pub(crate) fn wrote(&self, version: Timestamp) {
        self.version.set(version.as_u64());
    }

    /// Notes the key.
    pub(crate) fn asks_for(&self, key: &[u8]) {
        *self.key.borrow_mut() = Some(key.to_vec());
    }

    /// Notes that the body is here.
    pub(crate) fn body_ended(&self, now: Duration) {
        self.body.set(Some(now));
    }

    /// Notes that the request has its permit.
    pub(crate) fn admitted(&self, now: Duration) {
        self.admitted.set(Some(now));
    }
}

/// A request that was answered.
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    /// The trace that it is part of.
    pub(crate) trace: Option<String>,
    /// When its head was complete, and when its answer began.
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

/// An operation of a batch, from its line to its answer.
pub(crate) struct OperationTimes {
    /// The number of its line.
    line: u64,
    /// A copy of its key, because a part of the line would keep the whole line.
    key: Box<[u8]>,
    /// When its line was read, on the monotonic clock.
    read: Duration,
    /// When it had its permit.
    began: Duration,
    /// When each replica answered.
    pub(crate) replicas: Rc<ReplicaTimes>,
}

impl OperationTimes {
    /// The times of an operation whose line was read now.
    pub(crate) fn new(line: u64, key: &[u8], now: Duration) -> Self {
        Self {
            line,
            key: key.into(),
            read: now,
            began: now,
            replicas: Rc::default(),
        }
    }

    /// Notes that the operation has its permit. One that runs again begins anew.
    pub(crate) fn begins(&mut self, now: Duration) {
        self.began = now;
        self.replicas = Rc::default();
    }
}

/// An operation of a batch that has ended.
pub(crate) struct EndedOperation {
    pub(crate) kind: &'static str,
    pub(crate) status: u16,
    /// The trace that its batch is part of.
    pub(crate) trace: Option<TraceId>,
    pub(crate) ended: Duration,
}

impl SlowRequests {
    /// Logs requests that took so long.
    pub(crate) fn new(after: Duration, log_keys: LogKeys) -> Self {
        Self {
            after,
            log_keys,
            limiter: Mutex::default(),
        }
    }

    /// Logs a request if it was slow. `layout` has the names of the replicas.
    pub(crate) fn note(
        &self,
        layout: impl FnOnce() -> Arc<Layout>,
        timeline: &Timeline,
        answered: &Answered<'_>,
    ) {
        let took = answered.ended.saturating_sub(answered.began);
        let Some(left_out) = self.admit(took, answered.ended) else {
            return;
        };
        let body_end = timeline.body.get().unwrap_or(answered.began);
        let asked = timeline.admitted.get().unwrap_or(body_end);
        let key = timeline.key.borrow();
        let key = key.as_deref().and_then(|key| self.log_keys.shown(key));
        tracing::warn!(
            method = answered.method,
            path = answered.path,
            status = answered.status,
            key,
            trace = answered.trace,
            took_ms = ms(took),
            body_ms = ms(body_end.saturating_sub(answered.began)),
            queue_ms = ms(asked.saturating_sub(body_end)),
            replicas = replicas(layout().members(), &timeline.replicas, asked),
            left_out,
            "a slow request"
        );
    }

    /// Logs an operation of a batch if it was slow from its permit on: how long it waits
    /// for one is up to its client, which may send as many lines as it likes.
    pub(crate) fn note_operation(
        &self,
        layout: impl FnOnce() -> Arc<Layout>,
        times: &OperationTimes,
        operation: &EndedOperation,
    ) {
        let took = operation.ended.saturating_sub(times.began);
        let Some(left_out) = self.admit(took, operation.ended) else {
            return;
        };
        tracing::warn!(
            line = times.line,
            op = operation.kind,
            status = operation.status,
            key = self.log_keys.shown(&times.key),
            trace = operation.trace.map(|trace| trace.to_string()),
            took_ms = ms(took),
            queue_ms = ms(times.began.saturating_sub(times.read)),
            replicas = replicas(layout().members(), &times.replicas, times.began),
            left_out,
            "a slow operation of a batch"
        );
    }

    /// Logs a request of a peer that is part of a trace if it was slow.
    pub(crate) fn note_traced(&self, request: &TracedRequest<'_>) {
        let took = request.ended.saturating_sub(request.began);
        let Some(left_out) = self.admit(took, request.ended) else {
            return;
        };
        tracing::warn!(
            action = request.action,
            key = self.log_keys.shown(request.key),
            trace = request.trace.to_string(),
            took_ms = ms(took),
            left_out,
            "a slow request of a peer"
        );
    }

    /// How many lines were left out before one about what took so long and ended now, if
    /// it is to have a line.
    fn admit(&self, took: Duration, now: Duration) -> Option<u64> {
        if took < self.after {
            return None;
        }
        let mut limiter = lock(&self.limiter);
        limiter.admits(now).then(|| limiter.take_left_out())
    }
}

/// When each replica answered, in milliseconds after it was asked.
fn replicas(members: &Members, times: &ReplicaTimes, asked: Duration) -> String {
    let times = times.answers();
    let times = times.iter().map(|(node, at)| {
        let took = at.saturating_sub(asked);
        format!("{}={}ms", members.name(*node), ms(took))
    });
    times.collect::<Vec<_>>().join(" ")
}

/// Milliseconds with three digits behind the point.
fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
