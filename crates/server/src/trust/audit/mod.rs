//! The audit log: what operators did, and whom the node refused, as lines of JSON.
//!
//! ```text
//! {"time":"2026-11-22T16:00:00.123Z","event":"no-token","client":"10.0.0.9:41022",
//!  "method":"GET","path":"/v0/entity","status":401}
//! {"time":"2026-11-22T16:00:01Z","event":"no-token","left_out":812}
//! ```
//!
//! A line never has a token, and a key only as `--log-keys` says. Requests leave their lines to a
//! thread (`line_writer`) and never wait for it. Each kind of event has a limit of lines a second.
//! The number of lines left out is written once a second, and the number of unwritable lines once
//! writing works again.

mod target;

use crate::config::AuditTarget;
use crate::logs::line_writer::LineWriter;
use crate::start_error::StartError;
use crate::trust::reloading::Reload;
use base::{Clock, LogLimiter};
use node::ConfigError;
use node::metrics::Family;
use profile::lock;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use target::OpenTarget;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// An operator had the node do something.
    Admin,
    /// A request without a token that is in force.
    NoToken,
    /// A request, or a line of a batch, whose token lacks the right, or a scan whose token
    /// has lost it.
    NoRight,
    /// A request for a host that is not this node.
    OtherHost,
    /// A request that a page of another site sent.
    OtherOrigin,
    /// A connection whose other side did not prove to be a node of the cluster.
    NoPeer,
}

const KINDS: [(EventKind, &str); 6] = [
    (EventKind::Admin, "admin"),
    (EventKind::NoToken, "no-token"),
    (EventKind::NoRight, "no-right"),
    (EventKind::OtherHost, "other-host"),
    (EventKind::OtherOrigin, "other-origin"),
    (EventKind::NoPeer, "no-peer"),
];

/// The event of lines that could not be written, whatever they were about.
const LOST: &str = "lost";

/// How many lines of each kind were left out.
type LeftOutByKind = [u64; KINDS.len()];

impl EventKind {
    fn row(self) -> usize {
        let row = KINDS.iter().position(|(known, _)| *known == self);
        row.unwrap_or_default()
    }
}

/// Something to audit.
#[derive(Default, Serialize)]
pub(crate) struct Event<'a> {
    /// Who was on the other side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<&'a str>,
    /// Without the query, which may have keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The name of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<&'a str>,
    /// The key, or the first key of a scan, as logs show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
}

/// A line of the log.
#[derive(Serialize)]
struct AuditLine<'a> {
    time: String,
    event: &'static str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    told: Option<&'a Event<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

/// The audit log.
pub(crate) struct Audit {
    shared: Arc<Shared>,
    lines: LineWriter,
}

/// What requests and the thread share.
struct Shared {
    clock: Arc<dyn Clock>,
    limiters: Mutex<[LogLimiter; KINDS.len()]>,
    /// The events of each kind, written or not.
    events: [AtomicU64; KINDS.len()],
    left_out: AtomicU64,
}

impl Audit {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened, or the system starts no thread.
    pub(crate) fn start(target: &AuditTarget, clock: &Arc<dyn Clock>) -> Result<Self, StartError> {
        let shared = Arc::new(Shared {
            clock: Arc::clone(clock),
            limiters: Mutex::default(),
            events: Default::default(),
            left_out: AtomicU64::new(0),
        });
        let target = OpenTarget::open(target.clone(), Arc::clone(&shared))
            .map_err(|error| ConfigError::new("audit_log", format!("cannot write it: {error}")))?;
        let lines = LineWriter::start("audit", target, Arc::clone(clock))?;
        Ok(Self { shared, lines })
    }

    /// Notes that something happened. Never waits for the target.
    pub(crate) fn note(&self, kind: EventKind, event: &Event<'_>) {
        let shared = &self.shared;
        let row = kind.row();
        shared.events[row].fetch_add(1, Ordering::Relaxed);
        let now = shared.clock.monotonic();
        if !lock(&shared.limiters)[row].admits(now) {
            return;
        }
        let line = shared.line(KINDS[row].1, Some(event), None);
        if !self.lines.push(&line) {
            lock(&shared.limiters)[row].leave_out();
        }
    }
}

/// The metrics of the log, also of a node without one.
pub(super) fn families(audit: Option<&Audit>) -> Vec<Family> {
    let shared = audit.map(|audit| &audit.shared);
    let of_row = |row: usize| shared.map_or(0, |shared| shared.events[row].load(Ordering::Relaxed));
    let events = KINDS.iter().enumerate();
    let events = events.map(|(row, (_, word))| (vec![("event", (*word).to_owned())], of_row(row)));
    let left_out = audit.map_or(0, |audit| {
        let limiters = lock(&audit.shared.limiters);
        let waiting: u64 = limiters.iter().map(LogLimiter::left_out).sum();
        audit.shared.left_out.load(Ordering::Relaxed) + waiting + audit.lines.failed()
    });
    vec![
        Family::counters(
            "kvorum_audit_events",
            "What the audit log is about, by event",
            events.collect::<Vec<_>>(),
        ),
        Family::counters(
            "kvorum_audit_left_out",
            "Events without a line in the audit log, because there were too many or it could not \
             be written",
            [(Vec::new(), left_out)],
        ),
    ]
}

impl Shared {
    fn line(
        &self,
        event: &'static str,
        told: Option<&Event<'_>>,
        left_out: Option<u64>,
    ) -> Vec<u8> {
        let unix_ms = i64::try_from(self.clock.unix_ms()).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or_default();
        let line = AuditLine {
            time: time.to_string(),
            event,
            told,
            left_out,
        };
        // Strings and numbers always have a JSON form.
        let mut line = serde_json::to_vec(&line).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Adds how many lines of each kind were left out since the last call.
    fn take_left_out(&self, untold: &mut LeftOutByKind) {
        let mut limiters = lock(&self.limiters);
        for (limiter, untold) in limiters.iter_mut().zip(untold) {
            let count = limiter.take_left_out();
            self.left_out.fetch_add(count, Ordering::Relaxed);
            *untold += count;
        }
    }

    /// A line for each kind of which some were left out, and one for those that were lost.
    fn left_out_lines(&self, by_kind: &LeftOutByKind, lost: u64) -> Vec<u8> {
        let kinds = KINDS.iter().map(|(_, word)| *word);
        let all = kinds.zip(by_kind.iter().copied()).chain([(LOST, lost)]);
        all.filter(|(_, count)| *count > 0)
            .flat_map(|(word, count)| self.line(word, None, Some(count)))
            .collect()
    }
}

impl Reload for Audit {
    /// Opens the file again, because a tool may have renamed it. The lines that wait go to
    /// the old one.
    fn reload(&self, is_ordered: bool) {
        if is_ordered {
            self.lines.reopen();
        }
    }
}

#[cfg(test)]
mod tests;
