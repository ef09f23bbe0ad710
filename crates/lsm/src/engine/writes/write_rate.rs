//! The rate of the writers while flush or compaction is behind.
//!
//! Each group that is committed then is charged the time that its bytes take at the rate,
//! and the next group begins no earlier. So a write waits in proportion to its own bytes
//! and to those before it, and writers of little hardly wait.
//!
//! The rate is what flush or compaction was found to manage, times the room that is left
//! beside the work that is left. At this rate the room lasts just until the work is done,
//! and nobody has to wait for that. If the writers are slower by themselves, no charge adds
//! up. If the work takes longer than it did, the rate falls with the room, and in the end
//! the writers wait ([`backpressure`](crate::engine::jobs::backpressure)).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The longest that a group is held back to slow the writers.
pub(in crate::engine) const SLOWDOWN_MAX: Duration = Duration::from_millis(10);

/// A slowed group may always have this many bytes, because each costs a timer and perhaps
/// a sync.
const SLOWED_GROUP_BYTES_MIN: usize = 16 << 10;

/// What was measured counts half once the work took this long since.
const MEASURED_SPAN: Duration = Duration::from_secs(1);

/// How fast one kind of background work gets done, in bytes of memory of the entries.
/// Only the job that does the work writes it.
#[derive(Default)]
pub(in crate::engine) struct WorkRate {
    bytes: AtomicU64,
    busy_ns: AtomicU64,
}

impl WorkRate {
    /// Notes that work on `bytes` took `busy`, without rests.
    pub(in crate::engine) fn note(&self, bytes: u64, busy: Duration) {
        let mut sums = [&self.bytes, &self.busy_ns].map(|sum| sum.load(Relaxed));
        sums[0] = sums[0].saturating_add(bytes);
        sums[1] = sums[1].saturating_add(nanoseconds(busy));
        if sums[1] > nanoseconds(MEASURED_SPAN) {
            sums = sums.map(|sum| sum / 2);
        }
        self.bytes.store(sums[0], Relaxed);
        self.busy_ns.store(sums[1], Relaxed);
    }

    /// The bytes a second; `unmeasured` before any work was done.
    fn bytes_per_second(&self, unmeasured: f64) -> f64 {
        match (self.bytes.load(Relaxed), self.busy_ns.load(Relaxed)) {
            (0, _) => unmeasured,
            // It takes no time.
            (_, 0) => f64::INFINITY,
            (bytes, busy_ns) => bytes as f64 * 1e9 / busy_ns as f64,
        }
    }
}

/// What flush or compaction still has to do, and the room that writers have meanwhile: both
/// in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::engine) struct Backlog {
    pub(in crate::engine) room: f64,
    pub(in crate::engine) left: f64,
}

impl Backlog {
    /// The rate of writers at which the room lasts until the work is done.
    fn rate(self, work_rate: f64) -> f64 {
        if self.left <= 0.0 {
            return f64::INFINITY;
        }
        work_rate * (self.room / self.left).max(0.0)
    }
}

/// The owner of the pace at which groups are committed. It has no lock; its charges are made
/// under the commit lock.
pub(in crate::engine) struct WriteRate {
    /// Until something is measured, a memtable a second.
    unmeasured: f64,
    pub(in crate::engine) flush: WorkRate,
    pub(in crate::engine) compaction: WorkRate,
    /// How much of the memory of the oldest frozen memtable its flush has read, in bytes.
    flush_done_bytes: AtomicU64,
    /// When the next group is due, in nanoseconds of the monotonic clock.
    due_ns: AtomicU64,
}

impl WriteRate {
    /// The rates of a store that is being opened.
    pub(in crate::engine) fn new(memtable_bytes: usize) -> Self {
        Self {
            unmeasured: memtable_bytes as f64,
            flush: WorkRate::default(),
            compaction: WorkRate::default(),
            flush_done_bytes: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
        }
    }

    /// How much of the memory of the oldest frozen memtable its flush has read, in bytes.
    pub(in crate::engine) fn flush_done_bytes(&self) -> u64 {
        self.flush_done_bytes.load(Relaxed)
    }

    /// Notes that a step of a flush took `busy`, and how far the flush has come since: 0 if
    /// it is complete or given up.
    pub(in crate::engine) fn note_flush(&self, bytes: u64, busy: Duration, done_bytes: u64) {
        self.flush.note(bytes, busy);
        self.flush_done_bytes.store(done_bytes, Relaxed);
    }

    /// The bytes a second at which writers may write while flush and compaction have these
    /// backlogs, `None` for one that is not behind. Returns `None` if neither is.
    pub(in crate::engine) fn rate(
        &self,
        flush: Option<Backlog>,
        compaction: Option<Backlog>,
    ) -> Option<f64> {
        let of = |backlog: Option<Backlog>, work: &WorkRate| {
            backlog.map(|backlog| backlog.rate(work.bytes_per_second(self.unmeasured)))
        };
        let rates = [of(flush, &self.flush), of(compaction, &self.compaction)];
        rates.into_iter().flatten().reduce(f64::min)
    }

    /// Charges a group of `bytes` bytes of memory that was committed at `now`.
    pub(in crate::engine) fn charge(&self, bytes: u64, rate: f64, now: Duration) {
        let cost = Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(SLOWDOWN_MAX);
        let now_ns = nanoseconds(now);
        let due_ns = self.due_ns.load(Relaxed).max(now_ns);
        let due_ns = due_ns.saturating_add(nanoseconds(cost));
        let latest_ns = now_ns.saturating_add(nanoseconds(SLOWDOWN_MAX));
        self.due_ns.store(due_ns.min(latest_ns), Relaxed);
    }

    /// How long the next group is held back at `now`.
    pub(in crate::engine) fn wait(&self, now: Duration) -> Duration {
        let wait_ns = self.due_ns.load(Relaxed).saturating_sub(nanoseconds(now));
        Duration::from_nanos(wait_ns)
    }
}

/// The most bytes of memory of a group at this rate. Its charge is about the longest that a
/// group is held back, unless even a small group costs more.
pub(in crate::engine) fn group_bytes_max(rate: f64) -> usize {
    let bytes = rate * SLOWDOWN_MAX.as_secs_f64();
    (bytes as usize).max(SLOWED_GROUP_BYTES_MIN)
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_room_lasts_until_the_work_is_done() {
        let backlog = |room, left| Some(Backlog { room, left });
        let infinite = f64::INFINITY;
        // The work gets done at 10 bytes a second.
        for (flush, compaction, rate) in [
            (None, None, None),
            (backlog(100.0, 100.0), None, Some(10.0)),
            (backlog(50.0, 100.0), None, Some(5.0)),
            (backlog(100.0, 50.0), None, Some(20.0)),
            (backlog(0.0, 100.0), None, Some(0.0)),
            (backlog(-3.0, 100.0), None, Some(0.0)),
            (backlog(100.0, 0.0), None, Some(infinite)),
            (None, backlog(35.0, 1.0), Some(350.0)),
            (None, backlog(18.0, 18.0), Some(10.0)),
            (backlog(100.0, 50.0), backlog(1.0, 2.0), Some(5.0)),
            (backlog(50.0, 100.0), backlog(2.0, 1.0), Some(5.0)),
        ] {
            let rates = WriteRate::new(77);
            rates.note_flush(10, Duration::from_secs(1), 0);
            rates.compaction.note(5, Duration::from_millis(500));
            assert_eq!(
                rates.rate(flush, compaction),
                rate,
                "{flush:?} {compaction:?}"
            );
        }
        let unmeasured = WriteRate::new(77);
        assert_eq!(unmeasured.rate(backlog(1.0, 1.0), None), Some(77.0));
    }

    #[test]
    fn what_was_measured_lately_counts_most() {
        let work = WorkRate::default();
        work.note(5, Duration::ZERO);
        assert_eq!(work.bytes_per_second(1.0), f64::INFINITY);
        for _ in 0..20 {
            work.note(100 * MIB, Duration::from_secs(1));
        }
        let fast = work.bytes_per_second(1.0);
        assert!((fast / (100 * MIB) as f64 - 1.0).abs() < 0.01, "{fast}");
        for _ in 0..20 {
            work.note(MIB, Duration::from_secs(1));
        }
        let slow = work.bytes_per_second(1.0);
        assert!((slow / MIB as f64 - 1.0).abs() < 0.01, "{slow}");
    }

    #[test]
    fn a_group_waits_in_proportion_to_the_bytes_before_it() {
        let now = Duration::from_secs(5);
        let rate = MIB as f64;
        let waits = [1024, 2048, 4096].map(|bytes| {
            let rates = WriteRate::new(1);
            rates.charge(bytes, rate, now);
            rates.wait(now).as_micros()
        });
        assert_eq!(waits, [976, 1953, 3906]);
        // Small charges add up, and what has waited owes nothing.
        let rates = WriteRate::new(1);
        for _ in 0..4 {
            rates.charge(1024, rate, now);
        }
        assert_eq!(rates.wait(now).as_micros(), 3906);
        let later = now + Duration::from_millis(3);
        assert_eq!(rates.wait(later).as_micros(), 906);
        let rested = now + Duration::from_secs(1);
        assert_eq!(rates.wait(rested), Duration::ZERO);
        rates.charge(1024, rate, rested);
        assert_eq!(rates.wait(rested).as_micros(), 976);
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        for (bytes, rate) in [(u64::MAX, 1.0), (1, 0.0), (100 * MIB, MIB as f64)] {
            let rates = WriteRate::new(1);
            for _ in 0..3 {
                rates.charge(bytes, rate, Duration::from_secs(5));
            }
            assert_eq!(rates.wait(Duration::from_secs(5)), SLOWDOWN_MAX);
        }
        let rates = WriteRate::new(1);
        rates.charge(1, f64::INFINITY, Duration::from_secs(5));
        assert_eq!(rates.wait(Duration::from_secs(5)), Duration::ZERO);
        // A group is so long that the longest wait pays for it.
        assert_eq!(group_bytes_max(100.0 * MIB as f64), MIB as usize);
        assert_eq!(group_bytes_max(0.0), SLOWED_GROUP_BYTES_MIN);
        assert_eq!(group_bytes_max(f64::INFINITY), usize::MAX);
    }
}
