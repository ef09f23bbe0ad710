//! What a node knows of the passes that it took part in, for its schedule and for its
//! operator.

use super::PASS_IDLE_MAX;
use super::journal::{Checkpoint, SweepFile};
use super::refill::{Refill, RefillProgress};
use base::Clock;
use cluster::NodeNumber;
use cluster::sweep::{PassId, PassKind};
use profile::lock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Running passes that are remembered. More than one is rare, because it takes two
/// drivers.
const RUNNING_MAX: usize = 4;

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
    pub mends_sent: u64,
    /// Versions that peers sent because this node lacked them.
    pub mends_received: u64,
    /// Ranges that were compared.
    pub ranges_compared: u64,
    /// Ranges in which this node differed from another one, once for each of the others.
    pub ranges_differing: u64,
    /// Surplus copies that a replica of their keys lacked, and versions that a node
    /// lacked which kept an older one without being a replica.
    pub surplus_announced: u64,
    /// Versions that peers sent in bulk because this node lacked most of a range.
    pub bulk_keys_received: u64,
    /// The bytes of their keys and values.
    pub bulk_bytes_received: u64,
}

/// What a node remembers of sweeps. Its runtimes share it.
pub(crate) struct Record {
    clock: Arc<dyn Clock>,
    state: Mutex<RecordState>,
    requests: AtomicU64,
    mends_sent: AtomicU64,
    mends_received: AtomicU64,
    ranges_differing: AtomicU64,
    surplus_announced: AtomicU64,
}

struct RecordState {
    /// When a pass of any kind last ended, on the monotonic clock; at first, when
    /// this node started.
    last_end: Duration,
    /// When a full one did.
    last_full_end: Duration,
    /// When a full one did, by the wall clock, which goes on while this node is down; at
    /// first, when this node was started for the first time.
    last_full_end_unix_ms: u64,
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
            last_full_end_unix_ms,
            mut last_clean,
            mut single_copies,
            checkpoint: _,
        } = remembered;
        last_clean.resize(nodes, LastClean::default());
        single_copies.resize(nodes, None);
        let state = RecordState {
            last_end: clock.monotonic(),
            last_full_end: clock.monotonic(),
            last_full_end_unix_ms: last_full_end_unix_ms.unwrap_or_else(|| clock.unix_ms()),
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
            mends_sent: AtomicU64::new(0),
            mends_received: AtomicU64::new(0),
            ranges_differing: AtomicU64::new(0),
            surplus_announced: AtomicU64::new(0),
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
    pub(super) fn ended(&self, ended: EndedPass, clean_with: &[NodeNumber], single_copies: &[u64]) {
        let EndedPass {
            pass,
            kind,
            is_conclusive,
        } = ended;
        let now = self.clock.monotonic();
        let now_unix_ms = self.clock.unix_ms();
        let mut state = lock(&self.state);
        state.mark_end(kind, now, now_unix_ms);
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
        let others = state.last_clean.len().saturating_sub(1);
        let ended = &mut state.ended[kind as usize];
        match clean_with.len() >= others {
            true => ended.clean += 1,
            false => ended.incomplete += 1,
        }
        ended.conclusive += u64::from(is_conclusive);
        ended.last_end_unix_ms = Some(now_unix_ms);
        ended.last_duration = known.map_or(Duration::ZERO, |known| now.saturating_sub(known.began));
    }

    /// A pass that this node drove is over. This node's own part in it may have failed
    /// before; the next pass is not due any earlier for that.
    pub(super) fn drive_ended(&self, kind: PassKind) {
        let (now, now_unix_ms) = (self.clock.monotonic(), self.clock.unix_ms());
        lock(&self.state).mark_end(kind, now, now_unix_ms);
    }

    /// A request of a sweep is answered.
    pub(super) fn request_received(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn mends_sent(&self, mends: u32) {
        self.mends_sent.fetch_add(u64::from(mends), Relaxed);
    }

    pub(super) fn mend_received(&self) {
        self.mends_received.fetch_add(1, Relaxed);
    }

    /// This node differs from another one in a range.
    pub(super) fn range_differs(&self) {
        self.ranges_differing.fetch_add(1, Relaxed);
    }

    pub(super) fn surplus_announced(&self, copies: u32) {
        self.surplus_announced.fetch_add(u64::from(copies), Relaxed);
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

    /// What survives a restart.
    pub(super) fn to_file(&self, checkpoint: Option<Checkpoint>) -> SweepFile {
        let state = lock(&self.state);
        SweepFile {
            last_full_end_unix_ms: Some(state.last_full_end_unix_ms),
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
                mends_sent: self.mends_sent.load(Relaxed),
                mends_received: self.mends_received.load(Relaxed),
                ranges_compared: state.ranges_compared,
                ranges_differing: self.ranges_differing.load(Relaxed),
                surplus_announced: self.surplus_announced.load(Relaxed),
                bulk_keys_received,
                bulk_bytes_received,
            },
            refill: refill.progress(),
        }
    }
}

impl RecordState {
    fn mark_end(&mut self, kind: PassKind, now: Duration, now_unix_ms: u64) {
        self.last_end = now;
        if kind == PassKind::Full {
            self.last_full_end = now;
            self.last_full_end_unix_ms = now_unix_ms;
        }
    }
}

impl KnownPass {
    fn is_silent(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_asked) >= PASS_IDLE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ManualClock;

    const START_UNIX_MS: u64 = 1_800_000_000_000;

    fn record() -> (Arc<ManualClock>, Record) {
        let clock = Arc::new(ManualClock::new(START_UNIX_MS));
        let record = Record::new(
            Arc::clone(&clock) as Arc<dyn Clock>,
            3,
            SweepFile::default(),
        );
        (clock, record)
    }

    /// No pass has brought anything in bulk.
    fn nothing() -> Refill {
        Refill::new(Arc::new(ManualClock::new(START_UNIX_MS)))
    }

    fn ended(pass: PassId, kind: PassKind) -> EndedPass {
        EndedPass {
            pass,
            kind,
            is_conclusive: false,
        }
    }

    fn node(number: u8) -> NodeNumber {
        NodeNumber::new(number)
    }

    #[test]
    fn a_pass_runs_from_its_beginning_to_its_end() {
        let (clock, record) = record();
        record.began(PassId(7), PassKind::Full);
        record.range_compared(PassId(7));
        record.range_compared(PassId(7));
        let running = RunningPass {
            kind: PassKind::Full,
            began_unix_ms: START_UNIX_MS,
            ranges: 2,
        };
        assert_eq!(record.status(&nothing()).running, [running]);
        clock.advance(Duration::from_secs(3));
        record.ended(ended(PassId(7), PassKind::Full), &[node(1), node(2)], &[]);
        let status = record.status(&nothing());
        assert_eq!(status.running, []);
        let full = status.ended[PassKind::Full as usize];
        assert_eq!((full.clean, full.incomplete), (1, 0));
        assert_eq!(full.last_end_unix_ms, Some(START_UNIX_MS + 3_000));
        assert_eq!(full.last_duration, Duration::from_secs(3));
        let recent = status.ended[PassKind::Recent as usize];
        assert_eq!(recent, EndedPasses::default());
        assert_eq!(status.counts.ranges_compared, 2);
    }

    #[test]
    fn a_pass_counts_as_clean_only_with_every_other_node() {
        let (clock, record) = record();
        record.began(PassId(1), PassKind::Full);
        record.ended(ended(PassId(1), PassKind::Full), &[node(1)], &[]);
        clock.advance(Duration::from_secs(1));
        record.began(PassId(2), PassKind::Recent);
        record.ended(ended(PassId(2), PassKind::Recent), &[node(2), node(1)], &[]);
        let status = record.status(&nothing());
        let full = status.ended[PassKind::Full as usize];
        assert_eq!((full.clean, full.incomplete), (0, 1));
        let recent = status.ended[PassKind::Recent as usize];
        assert_eq!((recent.clean, recent.incomplete), (1, 0));
        let (first, second) = (START_UNIX_MS, START_UNIX_MS + 1_000);
        let expected = |any, full| LastClean {
            any_unix_ms: any,
            full_unix_ms: full,
        };
        assert_eq!(
            status.last_clean,
            [
                expected(None, None),
                expected(Some(second), Some(first)),
                expected(Some(second), None),
            ]
        );
    }

    #[test]
    fn a_pass_whose_driver_is_silent_is_not_shown_as_running() {
        let (clock, record) = record();
        record.began(PassId(1), PassKind::Recent);
        clock.advance(PASS_IDLE_MAX / 2);
        record.range_compared(PassId(1));
        clock.advance(PASS_IDLE_MAX / 2);
        assert_eq!(record.status(&nothing()).running.len(), 1);
        clock.advance(PASS_IDLE_MAX / 2);
        assert_eq!(record.status(&nothing()).running, []);
    }

    #[test]
    fn a_full_pass_is_a_recent_one_too_and_no_pass_is_due_before_its_interval() {
        let (clock, record) = record();
        let interval = Duration::from_secs(10);
        clock.advance(interval);
        assert!(record.is_due(PassKind::Recent, interval));
        assert!(record.is_due(PassKind::Full, interval));
        record.drive_ended(PassKind::Recent);
        assert!(!record.is_due(PassKind::Recent, interval));
        assert!(record.is_due(PassKind::Full, interval));
        record.ended(ended(PassId(1), PassKind::Full), &[], &[]);
        assert!(!record.is_due(PassKind::Recent, interval));
        assert!(!record.is_due(PassKind::Full, interval));
    }

    #[test]
    fn a_full_pass_is_due_although_the_node_is_restarted_more_often() {
        let (clock, before) = record();
        let interval = Duration::from_secs(7 * 24 * 3600);
        clock.advance(interval / 2);
        before.ended(
            ended(PassId(1), PassKind::Full),
            &[node(1)],
            &[5, u64::MAX, 7],
        );
        clock.advance(interval / 2);
        let restarted = |file| Record::new(Arc::clone(&clock) as Arc<dyn Clock>, 3, file);
        let after = restarted(before.to_file(None));
        assert!(!after.is_due(PassKind::Full, interval));
        assert_eq!(
            after.status(&nothing()).last_clean,
            before.status(&nothing()).last_clean
        );
        assert_eq!(
            after.status(&nothing()).single_copies,
            [Some(5), None, Some(7)]
        );
        clock.advance(interval / 2);
        let again = restarted(after.to_file(None));
        assert!(again.is_due(PassKind::Full, interval));
        assert!(!again.is_due(PassKind::Recent, interval));
    }

    #[test]
    fn mends_and_surplus_are_counted() {
        let (_, record) = record();
        record.request_received();
        record.mends_sent(3);
        record.mend_received();
        record.range_differs();
        record.surplus_announced(2);
        let expected = SweepCounts {
            requests: 1,
            mends_sent: 3,
            mends_received: 1,
            ranges_compared: 0,
            ranges_differing: 1,
            surplus_announced: 2,
            bulk_keys_received: 0,
            bulk_bytes_received: 0,
        };
        assert_eq!(record.status(&nothing()).counts, expected);
    }
}
