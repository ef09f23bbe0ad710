//! What a node knows of the sessions that it took part in, for its schedule and for its
//! operator.

#[cfg(test)]
mod tests;

use super::checkpoint::{Checkpoint, LastEqual, RepairFile};
use super::progress::{Rebuild, RebuildProgress, SessionProgress, StoreRead, Way};
use base::Clock;
use cluster::comparison::{Incarnation, RepairKind};
use cluster::repair::{Facts, SESSION_IDLE_MAX, SessionId, Token};
use cluster::{NodeId, NodeTable};
use membership::Layouts;
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Running sessions that are remembered: one of each kind.
const RUNNING_MAX: usize = RepairKind::ALL.len();

/// For how long a node coordinates no full session after stores have refused one because they take
/// part in another one, in which this node does not. If it did, it would wait for the end.
const PREEMPTED_FOR: Duration = Duration::from_secs(30);

/// What a node knows of repair, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairStatus {
    /// The sessions that this node takes part in now.
    pub running: Vec<RunningSession>,
    /// The sessions that have ended since this node started, by the number of their kind
    /// in [`RepairKind::ALL`].
    pub ended: [EndedSessions; RepairKind::ALL.len()],
    /// When each node was last found equal with this one, if ever.
    pub last_equal: NodeTable<LastEqual>,
    /// How many versions each node had in the last full session of which no other node keeps a
    /// copy. If its store is lost, so many are.
    pub single_copies: NodeTable<u64>,
    /// What this node has done for repair since it started.
    pub counts: RepairCounts,
    /// What a running session has streamed, if one has.
    pub rebuild: Option<RebuildProgress>,
}

/// A session that a node takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningSession {
    /// What it compares.
    pub kind: RepairKind,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The ranges that this node has compared.
    pub ranges: u64,
    /// How far a full session has come through the store of this node; [`None`] while it rebuilds that.
    pub progress: Option<SessionProgress>,
}

/// The sessions of a kind that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedSessions {
    /// Those that found the node equal with every other node, or made it so.
    pub equal: u64,
    /// All others: a node was away, or could not be made equal.
    pub incomplete: u64,
    /// When the last one ended, in milliseconds since 1970.
    pub last_end_unix_ms: Option<u64>,
    /// How long that one took.
    pub last_duration: Duration,
}

/// What a node has done for repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCounts {
    /// Requests of sessions that were answered, to peers and to this node as a coordinator.
    pub requests: u64,
    /// Versions that peers lacked, and stored.
    pub repair_writes_sent: u64,
    /// Versions that peers sent because this node lacked them.
    pub repair_writes_received: u64,
    /// Ranges that were compared.
    pub ranges_compared: u64,
    /// Ranges in which this node differed from another one, once for each of the others.
    pub ranges_differing: u64,
    /// Non-owned copies that a replica of their keys lacked, and versions that a node
    /// lacked which kept an older one without being a replica.
    pub non_owned_offered: u64,
    /// Versions that peers streamed because this node lacked most of a range.
    pub streamed_keys_received: u64,
    /// The bytes of their keys and values.
    pub streamed_bytes_received: u64,
    /// The bytes of keys and values that peers sent in changes of the members.
    pub moved_bytes: u64,
}

/// What a node remembers of repair. Its runtimes share it.
pub(super) struct Record {
    clock: Arc<dyn Clock>,
    layouts: Layouts,
    state: Mutex<RecordState>,
}

struct RecordState {
    /// When a session of any kind last ended, on the monotonic clock; at first, when
    /// this node started.
    last_end: Duration,
    /// When a full one did.
    last_full_end: Duration,
    /// When a full one did, by the wall clock, which goes on while this node is down; at
    /// first, what a restart remembers, or when this node was started for the first time.
    last_full_end_unix_ms: u64,
    /// When one did that found this node equal with all others, and need not be tried again.
    last_equal_full_unix_ms: u64,
    /// Whether the last full session since this node started left nodes unequal.
    is_full_unequal: bool,
    /// The last full session that this node coordinated and that has to be tried again.
    not_done: Option<SessionId>,
    running: Vec<KnownSession>,
    ended: [EndedSessions; RepairKind::ALL.len()],
    last_equal: NodeTable<LastEqual>,
    single_copies: NodeTable<u64>,
    /// Without what was streamed.
    counts: RepairCounts,
    /// When a session of this node last gave way to another one, on the monotonic clock.
    preempted: Option<Duration>,
    /// What full sessions of the last change of the members have shown of this node's store.
    facts: Option<Facts>,
}

/// A session that has begun and not ended.
struct KnownSession {
    session: SessionId,
    shown: RunningSession,
    /// From the first range on that this node has compared.
    way: Option<Way>,
    /// On the monotonic clock.
    began: Duration,
    /// When its coordinator last asked for something, on the monotonic clock.
    last_asked: Duration,
}

impl Record {
    /// The record of a node that has just started.
    pub(super) fn new(clock: Arc<dyn Clock>, layouts: Layouts, remembered: RepairFile) -> Self {
        let RepairFile {
            last_equal_full_unix_ms,
            last_equal,
            single_copies,
            checkpoint: _,
            facts,
        } = remembered;
        let last_equal_full_unix_ms = last_equal_full_unix_ms.unwrap_or_else(|| clock.unix_ms());
        let state = RecordState {
            last_end: clock.monotonic(),
            last_full_end: clock.monotonic(),
            last_full_end_unix_ms: last_equal_full_unix_ms,
            last_equal_full_unix_ms,
            is_full_unequal: false,
            not_done: None,
            running: Vec::new(),
            ended: Default::default(),
            last_equal,
            single_copies,
            counts: RepairCounts::default(),
            preempted: None,
            facts,
        };
        Self {
            clock,
            layouts,
            state: Mutex::new(state),
        }
    }

    /// This node takes part in a session that begins, or goes on.
    pub(super) fn began(&self, session: SessionId) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        // The attempt before is over, and there is one session of a kind at a time.
        state
            .running
            .retain(|known| known.session.kind() != session.kind());
        debug_assert!(state.running.len() < RUNNING_MAX);
        state.running.push(KnownSession {
            session,
            shown: RunningSession {
                kind: session.kind(),
                began_unix_ms: self.clock.unix_ms(),
                ranges: 0,
                progress: None,
            },
            way: None,
            began: now,
            last_asked: now,
        });
    }

    /// The coordinator of a session has asked for something, or another node that takes part.
    pub(super) fn asked(&self, session: SessionId) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        let mut running = state.running.iter_mut();
        if let Some(known) = running.find(|known| known.session == session) {
            known.last_asked = now;
        }
    }

    /// This node has made its digests of a range of a session.
    pub(super) fn range_compared(&self, session: SessionId, read: StoreRead) {
        let now = self.clock.monotonic();
        let mut state = lock(&self.state);
        state.counts.ranges_compared += 1;
        let mut running = state.running.iter_mut();
        if let Some(known) = running.find(|known| known.session == session) {
            known.shown.ranges += 1;
            known.last_asked = now;
            match &mut known.way {
                Some(way) => way.goes_on(now, read),
                None => known.way = Some(Way::begins_at(now, read)),
            }
        }
    }

    /// A session has ended that this node took part in. It found this node equal with the
    /// nodes in `equal_with`, and counted the single copies of each node, with
    /// [`u64::MAX`] for those that it did not.
    pub(super) fn ended(&self, session: SessionId, equal_with: &[NodeId], single_copies: &[u64]) {
        let kind = session.kind();
        let now = self.clock.monotonic();
        let now_unix_ms = self.clock.unix_ms();
        let mut state = lock(&self.state);
        let layout = self.layouts.load();
        let members = layout.members();
        let is_equal = members.peers().all(|peer| equal_with.contains(&peer));
        // A restart right after it would forget that it is to be tried again.
        let is_done = is_equal && state.not_done != Some(session);
        state.mark_end(kind, is_done, now, now_unix_ms);
        state.last_equal.retain(|node, _| members.contains(node));
        state.single_copies.retain(|node, _| members.contains(node));
        for node in members.ids() {
            let counted = single_copies.get(node.index()).copied();
            if let Some(counted) = counted.filter(|counted| *counted != u64::MAX) {
                state.single_copies.insert(node, counted);
            }
        }
        let known = state.take_running(session);
        for node in equal_with.iter().filter(|node| members.contains(**node)) {
            let last = state
                .last_equal
                .get_or_insert_with(*node, LastEqual::default);
            last.any_unix_ms = Some(now_unix_ms);
            if kind == RepairKind::Full {
                last.full_unix_ms = Some(now_unix_ms);
            }
        }
        let ended = &mut state.ended[kind as usize];
        if is_equal {
            ended.equal += 1;
        } else {
            ended.incomplete += 1;
        }
        ended.last_end_unix_ms = Some(now_unix_ms);
        ended.last_duration = known.map_or(Duration::ZERO, |known| now.saturating_sub(known.began));
    }

    /// A full session that this node coordinates is about to end, and leaves nodes unequal, or
    /// cannot raise the GC threshold.
    pub(super) fn not_done(&self, session: SessionId) {
        lock(&self.state).not_done = Some(session);
    }

    /// A session has ended in which this node took no part to the end.
    pub(super) fn left(&self, session: SessionId) {
        lock(&self.state).take_running(session);
    }

    /// A session that this node coordinated is over. This node's own part in it may have failed
    /// before; the next session is not due any earlier for that. `is_done`: all nodes took
    /// part, all are equal, and the GC threshold is as high as it may be.
    pub(super) fn coordinated(&self, kind: RepairKind, is_done: bool) {
        let (now, now_unix_ms) = (self.clock.monotonic(), self.clock.unix_ms());
        lock(&self.state).mark_end(kind, is_done, now, now_unix_ms);
    }

    /// A session that this node was to coordinate has given way to another one.
    pub(super) fn preempted(&self) {
        let now = self.clock.monotonic();
        lock(&self.state).preempted = Some(now);
    }

    /// A full session of a change of the members has shown facts.
    pub(super) fn shown(&self, facts: Facts) {
        let mut state = lock(&self.state);
        state.facts = Some(facts.added_to(state.facts));
    }

    /// The facts that hold for this store.
    pub(super) fn facts(&self, incarnation: Incarnation) -> Option<Facts> {
        let facts = lock(&self.state).facts;
        facts.filter(|facts| facts.hold_for(incarnation))
    }

    /// Counts something that this node has done for repair.
    pub(super) fn count(&self, count: impl FnOnce(&mut RepairCounts)) {
        count(&mut lock(&self.state).counts);
    }

    /// Whether the last session of a kind ended so long ago. A full session counts as an
    /// incremental one, too.
    pub(super) fn is_due(&self, kind: RepairKind, interval: Duration) -> bool {
        let state = lock(&self.state);
        let (ended, ended_unix_ms) = match kind {
            RepairKind::Incremental => (state.last_end, None),
            RepairKind::Full => (state.last_full_end, Some(state.last_full_end_unix_ms)),
        };
        // The wall clock goes on while this node is down. It may be set back; the other
        // one may not.
        let since_ms = ended_unix_ms.map(|ended| self.clock.unix_ms().saturating_sub(ended));
        self.clock.monotonic().saturating_sub(ended) >= interval
            || since_ms.is_some_and(|since_ms| Duration::from_millis(since_ms) >= interval)
    }

    /// The full session that this node takes part in, and for how long nobody has asked for
    /// anything in it.
    pub(super) fn running_full(&self) -> Option<(Token, Duration)> {
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        state.running.iter().find_map(|known| match known.session {
            SessionId::Full(token) => Some((token, now.saturating_sub(known.last_asked))),
            SessionId::Incremental(_) => None,
        })
    }

    /// Whether a full session of another coordinator is under way, as far as this node knows: it
    /// takes part in one, or one of its own has given way to one. One that is silent has ended.
    pub(super) fn is_other_full_running(&self) -> bool {
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        let is_full = |known: &KnownSession| {
            known.session.kind() == RepairKind::Full && !known.is_silent(now)
        };
        let has_given_way = state
            .preempted
            .is_some_and(|since| now.saturating_sub(since) < PREEMPTED_FOR);
        has_given_way || state.running.iter().any(is_full)
    }

    /// Whether the last full session did not do everything, and ended so long ago.
    pub(super) fn is_retry_due(&self, period: Duration) -> bool {
        let is_unequal = lock(&self.state).is_full_unequal;
        is_unequal && self.is_due(RepairKind::Full, period)
    }

    /// What survives a restart.
    pub(super) fn to_file(&self, checkpoint: Option<Checkpoint>) -> RepairFile {
        let state = lock(&self.state);
        RepairFile {
            // After a restart one that found nodes unequal does not count.
            last_equal_full_unix_ms: Some(state.last_equal_full_unix_ms),
            last_equal: state.last_equal.clone(),
            single_copies: state.single_copies.clone(),
            checkpoint,
            facts: state.facts,
        }
    }

    /// What is known now.
    pub(super) fn status(&self, rebuild: &Rebuild) -> RepairStatus {
        let (streamed_keys_received, streamed_bytes_received) = rebuild.totals();
        let now = self.clock.monotonic();
        let state = lock(&self.state);
        let rebuild = rebuild.progress();
        let running = state.running.iter().filter(|known| !known.is_silent(now));
        let shown = |known: &KnownSession| {
            // An incremental session passes over most of what it comes past, and one that rebuilds
            // a store goes on while that is empty.
            let is_way = known.shown.kind == RepairKind::Full && rebuild.is_none();
            RunningSession {
                progress: known.way.filter(|_| is_way).and_then(|way| way.progress()),
                ..known.shown
            }
        };
        RepairStatus {
            running: running.map(shown).collect(),
            ended: state.ended,
            last_equal: state.last_equal.clone(),
            single_copies: state.single_copies.clone(),
            counts: RepairCounts {
                streamed_keys_received,
                streamed_bytes_received,
                ..state.counts
            },
            rebuild,
        }
    }
}

impl RecordState {
    /// A session is over, for this node at least.
    fn take_running(&mut self, session: SessionId) -> Option<KnownSession> {
        if session.kind() == RepairKind::Full {
            self.preempted = None;
        }
        let index = self
            .running
            .iter()
            .position(|known| known.session == session);
        index.map(|index| self.running.remove(index))
    }

    fn mark_end(&mut self, kind: RepairKind, is_done: bool, now: Duration, now_unix_ms: u64) {
        self.last_end = now;
        if kind == RepairKind::Full {
            self.last_full_end = now;
            self.last_full_end_unix_ms = now_unix_ms;
            self.is_full_unequal = !is_done;
            if is_done {
                self.last_equal_full_unix_ms = now_unix_ms;
            }
        }
    }
}

impl KnownSession {
    fn is_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_asked) >= SESSION_IDLE_MAX
    }
}
