//! What a node knows of the passes that it took part in, for its schedule and for its
//! operator.

use super::PASS_IDLE_MAX;
use super::journal::{Checkpoint, SweepFile};
use super::refill::{Refill, RefillProgress};
use base::Clock;
use cluster::NodeId;
use cluster::sweep::{PassId, PassKind};
use profile::lock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Running passes that are remembered. More than one is rare, because it takes two
/// drivers.
const RUNNING_MAX: usize = 4;

/// How long after the last range of a full pass another one may begin beside it, to fill a
/// store or to mend damage: as long as a request of a pass may take, so that a driver that
/// was lost holds up neither.
const FULL_SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a node knows of sweeps, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepStatus {
    /// The passes that this node takes part in now.
    pub running: Vec<RunningPass>,
    /// The passes that have ended since this node started, by the number of their kind
    /// in [`PassKind::ALL`].
    pub ended: [EndedPasses; PassKind::ALL.len()],
    /// By node number: when the node was last found equal with this one.
    pub last_clean: Vec<LastClean>,
    /// By node number: how many versions the node had in the last full pass of which no
    /// other node keeps a copy. If its store is lost, so many are.
    pub single_copies: Vec<Option<u64>>,
    /// What this node has done for sweeps since it started.
    pub counts: SweepCounts,
    /// What a running pass has brought in bulk, if one has.
    pub refill: Option<RefillProgress>,
}

/// A pass that a node takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningPass {
    /// What it compares.
    pub kind: PassKind,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The ranges that this node has compared.
    pub ranges: u64,
}

/// The passes of a kind that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedPasses {
    /// Those that found the node equal with every other node, or made it so.
    pub clean: u64,
    /// All others: a node was away, or could not be made equal.
    pub incomplete: u64,
    /// Those that have shown that no node keeps an older version than another. Only full
    /// passes do.
    pub conclusive: u64,
    /// When the last one ended, in milliseconds since 1970.
    pub last_end_unix_ms: Option<u64>,
    /// How long that one took.
    pub last_duration: Duration,
}

/// When two nodes were last found equal, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastClean {
    /// By a pass of any kind.
    pub any_unix_ms: Option<u64>,
    /// By a full pass.
    pub full_unix_ms: Option<u64>,
}

/// What a node has done for sweeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepCounts {
    /// Requests of sweeps that were answered, to peers and to this node as a driver.
    pub requests: u64,
    /// Versions that peers lacked, and stored.
    pub repair_writes_sent: u64,
    /// Versions that peers sent because this node lacked them.
    pub repair_writes_received: u64,
    /// Ranges that were compared.
    pub ranges_compared: u64,
    /// Ranges in which this node differed from another one, once for each of the others.
    pub ranges_differing: u64,
    /// Surplus copies that a replica of their keys lacked, and versions that a node
    /// lacked which kept an older one without being a replica.
    pub non_owned_offered: u64,
    /// Versions that were deleted because the other nodes had forgotten that they were.
    pub leftovers_buried: u64,
    /// Versions that peers sent in bulk because this node lacked most of a range.
    pub bulk_keys_received: u64,
    /// The bytes of their keys and values.
    pub bulk_bytes_received: u64,
}

/// What a node remembers of sweeps. Its runtimes share it.
pub(super) struct Record {
    clock: Arc<dyn Clock>,
    state: Mutex<RecordState>,
    requests: AtomicU64,
    repair_writes_sent: AtomicU64,
    repair_writes_received: AtomicU64,
    ranges_differing: AtomicU64,
    non_owned_offered: AtomicU64,
    leftovers_buried: AtomicU64,
}

struct RecordState {
    /// When a pass of any kind last ended, on the monotonic clock; at first, when
    /// this node started.
    last_end: Duration,
    /// When a full one did.
    last_full_end: Duration,
    /// When a full one did, by the wall clock, which goes on while this node is down; at
    /// first, what a restart remembers, or when this node was started for the first time.
    last_full_end_unix_ms: u64,
    /// When one did that found this node equal with all others, and need not be tried again.
    last_clean_full_unix_ms: u64,
    /// Whether the last full pass since this node started left nodes unequal.
    is_full_unclean: bool,
    /// The last full pass that this node drove and that has to be tried again.
    not_done: Option<PassId>,
    running: Vec<KnownPass>,
    ended: [EndedPasses; PassKind::ALL.len()],
    last_clean: Vec<LastClean>,
    single_copies: Vec<Option<u64>>,
    ranges_compared: u64,
}

/// A pass that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedPass {
    pub(super) pass: PassId,
    pub(super) kind: PassKind,
    pub(super) is_conclusive: bool,
}

/// A pass that has begun and not ended.
struct KnownPass {
    pass: PassId,
    shown: RunningPass,
    /// On the monotonic clock.
    began: Duration,
    /// When its driver last asked for something, on the monotonic clock.
    last_asked: Duration,
}

impl Record {
    /// The record of a node that has just started, in a cluster of `nodes`.
    pub(super) fn new(clock: Arc<dyn Clock>, nodes: usize, remembered: SweepFile) -> Self {
        let SweepFile {
            last_clean_full_unix_ms,
            mut last_clean,
            mut single_copies,
            checkpoint: _,
        } = remembered;
        last_clean.resize(nodes, LastClean::default());
        single_copies.resize(nodes, None);
        let last_clean_full_unix_ms = last_clean_full_unix_ms.unwrap_or_else(|| clock.unix_ms());
        let state = RecordState {
            last_end: clock.monotonic(),
            last_full_end: clock.monotonic(),
            last_full_end_unix_ms: last_clean_full_unix_ms,
            last_clean_full_unix_ms,
            is_full_unclean: false,
            not_done: None,
            running: Vec::new(),
            ended: Default::default(),
            last_clean,
            single_copies,
            ranges_compared: 0,
        };
        Self {
            clock,
            state: Mutex::new(state),
            requests: AtomicU64::new(0),
            repair_writes_sent: AtomicU64::new(0),
            repair_writes_received: AtomicU64::new(0),
            ranges_differing: AtomicU64::new(0),
            non_owned_offered: AtomicU64::new(0),
            leftovers_buried: AtomicU64::new(0),
        }
    }

    /// This node takes part in a pass that begins.
    pub(super) fn began(&self, pass: PassId, kind: PassKind) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        state
            .running
            .retain(|known| known.pass != pass && !known.is_silent(now));
        if state.running.len() == RUNNING_MAX {
            state.running.remove(0);
        }
        state.running.push(KnownPass {
            pass,
            shown: RunningPass {
                kind,
                began_unix_ms: self.clock.unix_ms(),
                ranges: 0,
            },
            began: now,
            last_asked: now,
        });
    }

    /// This node has made its digests of a range of a pass.
    pub(super) fn range_compared(&self, pass: PassId) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        state.ranges_compared += 1;
        let known = state.running.iter_mut().find(|known| known.pass == pass);
        if let Some(known) = known {
            known.shown.ranges += 1;
            known.last_asked = now;
        }
    }

    /// A pass has ended that this node took part in. It found this node equal with the
    /// nodes in `clean_with`, and counted the single copies of each node, with
    /// [`u64::MAX`] for those that it did not.
    pub(super) fn ended(&self, ended: EndedPass, clean_with: &[NodeId], single_copies: &[u64]) {
        let EndedPass {
            pass,
            kind,
            is_conclusive,
        } = ended;
        let now = self.clock.monotonic();
        let now_unix_ms = self.clock.unix_ms();
        let mut state = lock(&self.state);
        let others = state.last_clean.len().saturating_sub(1);
        let is_clean = clean_with.len() >= others;
        // A restart right after it would forget that it is to be tried again.
        let is_done = is_clean && state.not_done != Some(pass);
        state.mark_end(kind, is_done, now, now_unix_ms);
        for (known, counted) in state.single_copies.iter_mut().zip(single_copies) {
            if *counted != u64::MAX {
                *known = Some(*counted);
            }
        }
        let index = state.running.iter().position(|known| known.pass == pass);
        let known = index.map(|index| state.running.remove(index));
        for node in clean_with {
            if let Some(last) = state.last_clean.get_mut(node.index()) {
                last.any_unix_ms = Some(now_unix_ms);
                if kind == PassKind::Full {
                    last.full_unix_ms = Some(now_unix_ms);
                }
            }
        }
        let ended = &mut state.ended[kind as usize];
        if is_clean {
            ended.clean += 1;
        } else {
            ended.incomplete += 1;
        }
        ended.conclusive += u64::from(is_conclusive);
        ended.last_end_unix_ms = Some(now_unix_ms);
        ended.last_duration = known.map_or(Duration::ZERO, |known| now.saturating_sub(known.began));
    }

    /// A full pass that this node drives is about to end, and leaves nodes unequal, or cannot
    /// raise the forget bound.
    pub(super) fn not_done(&self, pass: PassId) {
        lock(&self.state).not_done = Some(pass);
    }

    /// A pass has ended in which this node took no part to the end.
    pub(super) fn left(&self, pass: PassId) {
        lock(&self.state).running.retain(|known| known.pass != pass);
    }

    /// A pass that this node drove is over. This node's own part in it may have failed
    /// before; the next pass is not due any earlier for that. `is_done`: all nodes took
    /// part, all are equal, and the forget bound is as high as it may be.
    pub(super) fn drive_ended(&self, kind: PassKind, is_done: bool) {
        let (now, now_unix_ms) = (self.clock.monotonic(), self.clock.unix_ms());
        lock(&self.state).mark_end(kind, is_done, now, now_unix_ms);
    }

    /// A request of a sweep is answered.
    pub(super) fn request_received(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn repair_writes_sent(&self, mends: u32) {
        self.repair_writes_sent.fetch_add(u64::from(mends), Relaxed);
    }

    pub(super) fn mend_received(&self) {
        self.repair_writes_received.fetch_add(1, Relaxed);
    }

    /// This node differs from another one in a range.
    pub(super) fn range_differs(&self) {
        self.ranges_differing.fetch_add(1, Relaxed);
    }

    pub(super) fn non_owned_offered(&self, copies: u32) {
        self.non_owned_offered.fetch_add(u64::from(copies), Relaxed);
    }

    pub(super) fn leftovers_buried(&self, versions: usize) {
        self.leftovers_buried.fetch_add(versions as u64, Relaxed);
    }

    /// Whether the last pass of a kind ended so long ago. A full pass counts as a
    /// recent one, too.
    pub(super) fn is_due(&self, kind: PassKind, interval: Duration) -> bool {
        let state = lock(&self.state);
        let (ended, ended_unix_ms) = match kind {
            PassKind::Recent => (state.last_end, None),
            PassKind::Full => (state.last_full_end, Some(state.last_full_end_unix_ms)),
        };
        // The wall clock goes on while this node is down. It may be set back; the other
        // one may not.
        let since_ms = ended_unix_ms.map(|ended| self.clock.unix_ms().saturating_sub(ended));
        self.clock.monotonic().saturating_sub(ended) >= interval
            || since_ms.is_some_and(|since_ms| Duration::from_millis(since_ms) >= interval)
    }

    /// Whether a full pass is under way that this node takes part in. One whose driver has gone
    /// silent is not.
    pub(super) fn is_full_running(&self) -> bool {
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        let is_full = |known: &KnownPass| {
            let silence = now.saturating_sub(known.last_asked);
            known.shown.kind == PassKind::Full && silence < FULL_SILENCE_MAX
        };
        state.running.iter().any(is_full)
    }

    /// Whether the last full pass was not clean, and ended so long ago.
    pub(super) fn is_retry_due(&self, period: Duration) -> bool {
        let is_unclean = lock(&self.state).is_full_unclean;
        is_unclean && self.is_due(PassKind::Full, period)
    }

    /// What survives a restart.
    pub(super) fn to_file(&self, checkpoint: Option<Checkpoint>) -> SweepFile {
        let state = lock(&self.state);
        SweepFile {
            // After a restart an unclean one does not count.
            last_clean_full_unix_ms: Some(state.last_clean_full_unix_ms),
            last_clean: state.last_clean.clone(),
            single_copies: state.single_copies.clone(),
            checkpoint,
        }
    }

    /// What is known now.
    pub(super) fn status(&self, refill: &Refill) -> SweepStatus {
        let (bulk_keys_received, bulk_bytes_received) = refill.totals();
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        let running = state.running.iter().filter(|known| !known.is_silent(now));
        SweepStatus {
            running: running.map(|known| known.shown).collect(),
            ended: state.ended,
            last_clean: state.last_clean.clone(),
            single_copies: state.single_copies.clone(),
            counts: SweepCounts {
                requests: self.requests.load(Relaxed),
                repair_writes_sent: self.repair_writes_sent.load(Relaxed),
                repair_writes_received: self.repair_writes_received.load(Relaxed),
                ranges_compared: state.ranges_compared,
                ranges_differing: self.ranges_differing.load(Relaxed),
                non_owned_offered: self.non_owned_offered.load(Relaxed),
                leftovers_buried: self.leftovers_buried.load(Relaxed),
                bulk_keys_received,
                bulk_bytes_received,
            },
            refill: refill.progress(),
        }
    }
}

impl RecordState {
    fn mark_end(&mut self, kind: PassKind, is_done: bool, now: Duration, now_unix_ms: u64) {
        self.last_end = now;
        if kind == PassKind::Full {
            self.last_full_end = now;
            self.last_full_end_unix_ms = now_unix_ms;
            self.is_full_unclean = !is_done;
            if is_done {
                self.last_clean_full_unix_ms = now_unix_ms;
            }
        }
    }
}

impl KnownPass {
    fn is_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_asked) >= PASS_IDLE_MAX
    }
}
