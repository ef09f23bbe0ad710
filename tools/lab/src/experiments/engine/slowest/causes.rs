//! What a slow write waited for, from when it was due until its answer was read.
//!
//! The generator says when it was due, sent and answered; the node that was asked, when the
//! request reached its steps there; and the engine of the decisive replica, the one whose
//! answer was enough, when the write was queued, grouped and synced. All clocks are one, so
//! each nanosecond of the latency belongs to one cause, and the cause with the most of them
//! is that of the write.

use super::recording::{Moment, Recording, Span, Steps, covered, length};
use load::SlowRequest;
use std::collections::BTreeMap;
use std::time::Duration;

/// Why time passes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Cause {
    /// The generator sent late though a connection was free, or read late.
    Generator,
    /// All connections were waiting for answers.
    Connection,
    /// A runtime had something to do and no processor, or was still being woken.
    Processor,
    /// A runtime was busy, with this request or with others.
    Runtime,
    /// The request waited for its permit.
    Permit,
    /// The write was queued while the log was synced for the group before.
    QueueBehindSync,
    /// The write was queued otherwise: its group gathered or was held back, or the thread
    /// that commits was still being woken.
    Queue,
    /// Its group was written to the log, and put into the memtable.
    Group,
    /// The log was synced for its group.
    Sync,
    /// The same, while other files were being synced most of that time.
    SyncBesideOthers,
    /// On the way to another node and back, the runtimes there included.
    Peers,
    /// No recording says.
    Unknown,
}

/// The steps of a write, in their usual order.
pub(super) const MOMENTS: [&str; 15] = [
    "sent",
    "read",
    "head",
    "body",
    "admitted",
    "submitted",
    "grouped",
    "sync began",
    "sync ended",
    "committed",
    "decided",
    "answered",
    "written",
    "woke",
    "received",
];

impl Cause {
    /// What happened, for tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Generator => "the generator was late",
            Self::Connection => "no connection was free",
            Self::Processor => "a runtime without a processor",
            Self::Runtime => "a runtime busy",
            Self::Permit => "waiting for a permit",
            Self::QueueBehindSync => "queued behind another group's sync",
            Self::Queue => "queued otherwise",
            Self::Group => "log write and memtable",
            Self::Sync => "the sync of its group",
            Self::SyncBesideOthers => "the sync, beside those of tables",
            Self::Peers => "on the way to a peer and back",
            Self::Unknown => "not recorded",
        }
    }
}

/// A slow write, explained.
#[derive(Clone, Debug)]
pub(super) struct SlowWrite {
    /// When it was due, in seconds after the first of them.
    pub(super) at_seconds: f64,
    pub(super) latency_ms: f64,
    /// What it waited for most.
    pub(super) cause: Cause,
    /// Whether the engine of that cause is another node's.
    pub(super) is_at_peer: bool,
    /// How long that took, in milliseconds.
    pub(super) cause_ms: f64,
    /// Whether no connection was free, and the cause is that of the request that it waited
    /// for.
    pub(super) is_behind_another: bool,
    /// The longest sync of a log while it was under way, in milliseconds.
    pub(super) longest_sync_ms: f64,
    /// When it reached each step, in milliseconds after it was due.
    pub(super) moments_ms: BTreeMap<&'static str, f64>,
}

/// The times of a request on the side of the generator.
struct Sent {
    due: Moment,
    sent: Moment,
    woke: Moment,
    received: Moment,
    /// Whether it was sent late because no connection was free.
    had_no_connection: bool,
}

/// Where the time of a request went, in nanoseconds.
#[derive(Default)]
struct Account {
    /// By cause, and whether it is that of another node's engine.
    spent_ns: BTreeMap<(Cause, bool), u64>,
}

impl Account {
    fn add(&mut self, cause: Cause, is_at_peer: bool, ns: u64) {
        *self.spent_ns.entry((cause, is_at_peer)).or_default() += ns;
    }

    /// Adds the time of a runtime, divided by whether it had a processor.
    fn add_runtime(&mut self, recording: &Recording, thread: u32, span: &Span) {
        let worked = recording.worked_ns(thread, span).min(length(span));
        self.add(Cause::Runtime, false, worked);
        self.add(Cause::Processor, false, length(span) - worked);
    }

    /// The greatest cause.
    fn greatest(&self) -> (Cause, bool, u64) {
        let greatest = self.spent_ns.iter().max_by_key(|(_, ns)| **ns);
        greatest.map_or((Cause::Unknown, false, 0), |((cause, is_at_peer), ns)| {
            (*cause, *is_at_peer, *ns)
        })
    }
}

/// Explains slow requests by the recordings of all nodes, which stand in the order of the
/// targets and of the nodes' IDs. `ack` answers were enough.
pub(super) fn explain(
    requests: &[SlowRequest],
    recordings: &[Recording],
    ack: usize,
) -> Vec<SlowWrite> {
    let first = requests.iter().map(|request| request.due).min();
    let first = first.unwrap_or_default();
    let explained = requests.iter().map(|request| {
        let times = Sent {
            due: nanoseconds(request.due),
            sent: nanoseconds(request.sent),
            woke: nanoseconds(request.woke),
            received: nanoseconds(request.received),
            had_no_connection: request.waited_for.is_some(),
        };
        let mut moments = BTreeMap::new();
        let of = (request.target, request.port);
        let account = account(&times, of, recordings, ack, Some(&mut moments));
        let (mut cause, mut is_at_peer, spent_ns) = account.greatest();
        let is_behind_another = cause == Cause::Connection;
        if let Some(sent) = request.waited_for.filter(|_| is_behind_another) {
            let before = Sent {
                due: nanoseconds(sent),
                sent: nanoseconds(sent),
                woke: times.sent,
                received: times.sent,
                had_no_connection: false,
            };
            (cause, is_at_peer, _) = self::account(&before, of, recordings, ack, None).greatest();
        }
        SlowWrite {
            at_seconds: (request.due - first).as_secs_f64(),
            latency_ms: request.latency().as_secs_f64() * 1e3,
            cause,
            is_at_peer,
            cause_ms: milliseconds(spent_ns),
            is_behind_another,
            longest_sync_ms: longest_sync_ms(recordings, &(times.due..times.received)),
            moments_ms: moments
                .into_iter()
                .map(|(name, at)| (name, milliseconds(at.saturating_sub(times.due))))
                .collect(),
        }
    });
    explained.collect()
}

/// The longest sync of a log that met a span, in milliseconds.
fn longest_sync_ms(recordings: &[Recording], span: &Span) -> f64 {
    let longest = recordings.iter().filter_map(|recording| {
        let first = recording
            .syncs
            .partition_point(|sync| sync.end <= span.start);
        let met = recording.syncs[first..]
            .iter()
            .take_while(|sync| sync.start < span.end);
        met.map(length).max()
    });
    milliseconds(longest.max().unwrap_or(0))
}

/// Where the time of a request went. The moments at which it reached its steps are added to
/// `moments`.
fn account(
    times: &Sent,
    (target, port): (usize, u16),
    recordings: &[Recording],
    ack: usize,
    moments: Option<&mut BTreeMap<&'static str, Moment>>,
) -> Account {
    let mut unused = BTreeMap::new();
    let moments = moments.unwrap_or(&mut unused);
    moments.extend([
        ("sent", times.sent),
        ("woke", times.woke),
        ("received", times.received),
    ]);
    let mut account = Account::default();
    let late = if times.had_no_connection {
        Cause::Connection
    } else {
        Cause::Generator
    };
    account.add(late, false, length(&(times.due..times.sent)));
    let under_way = times.sent..times.received;
    let asked = recordings.get(target);
    let steps = asked.and_then(|asked| Some((asked, asked.request(port, &under_way)?)));
    let Some((asked, steps)) = steps else {
        account.add(Cause::Unknown, false, length(&under_way));
        return account;
    };
    moments.extend([
        ("read", steps.read),
        ("head", steps.head),
        ("body", steps.body),
        ("admitted", steps.admitted),
        ("answered", steps.answered),
        ("written", steps.written),
    ]);
    account.add_runtime(asked, steps.thread, &(times.sent..steps.body));
    account.add(Cause::Permit, false, length(&(steps.body..steps.admitted)));
    let replica = decisive(steps, ack, target);
    add_engine(&mut account, steps, recordings, target, replica, moments);
    account.add_runtime(asked, steps.thread, &(steps.answered..steps.written));
    account.add(
        Cause::Generator,
        false,
        length(&(steps.written..times.received)),
    );
    account
}

/// The ID of the node whose answer decided, and when it came.
fn decisive(steps: &Steps, ack: usize, target: usize) -> (usize, Moment) {
    let replicas = steps.replicas.iter().enumerate();
    let mut answers: Vec<(Moment, usize)> = replicas
        .filter(|(_, at)| **at > 0 && **at <= steps.answered)
        .map(|(node, at)| (*at, node))
        .collect();
    answers.sort_unstable();
    match answers.get(ack.saturating_sub(1)) {
        Some((at, node)) => (*node, *at),
        // An answer that was there at once is not recorded: it is that of the node itself.
        None => (target, steps.answered),
    }
}

/// Adds the time from the permit to the answer: what the decisive replica did.
fn add_engine(
    account: &mut Account,
    steps: &Steps,
    recordings: &[Recording],
    target: usize,
    (node, decided): (usize, Moment),
    moments: &mut BTreeMap<&'static str, Moment>,
) {
    let is_at_peer = node != target;
    let asked = &recordings[target];
    moments.insert("decided", decided);
    let waits = recordings.get(node).and_then(|replica| {
        let waits = replica.write(steps.version)?;
        Some((replica, waits.queue.clone()?, waits.commit.clone()?))
    });
    let Some((replica, queue, commit)) = waits else {
        let all = steps.admitted..steps.answered;
        account.add(Cause::Unknown, is_at_peer, length(&all));
        return;
    };
    moments.extend([
        ("submitted", queue.start),
        ("grouped", queue.end),
        ("committed", commit.end),
    ]);
    let behind = covered(&queue, &replica.syncs).min(length(&queue));
    account.add(Cause::QueueBehindSync, is_at_peer, behind);
    account.add(Cause::Queue, is_at_peer, length(&queue) - behind);
    let first = replica
        .syncs
        .partition_point(|sync| sync.start < commit.start);
    let own_sync = replica.syncs[first..].first();
    let own_sync = own_sync.filter(|sync| sync.end <= commit.end);
    let synced = own_sync.map_or(0, length);
    if let Some(sync) = own_sync {
        let is_beside = covered(sync, &replica.other_syncs) * 2 > synced;
        let cause = if is_beside {
            Cause::SyncBesideOthers
        } else {
            Cause::Sync
        };
        account.add(cause, is_at_peer, synced);
        moments.extend([("sync began", sync.start), ("sync ended", sync.end)]);
    }
    let rest = length(&commit).saturating_sub(synced);
    account.add(Cause::Group, is_at_peer, rest);
    let (before, after) = (steps.admitted..queue.start, commit.end..decided);
    if is_at_peer {
        account.add(Cause::Peers, false, length(&before) + length(&after));
    } else {
        account.add_runtime(asked, steps.thread, &before);
        account.add_runtime(asked, steps.thread, &after);
    }
    account.add_runtime(asked, steps.thread, &(decided..steps.answered));
}

fn nanoseconds(time: Duration) -> Moment {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[cfg(test)]
mod tests;
