//! The bound below which values have expired by the clocks of all nodes, so that compaction may
//! drop them.
//!
//! A value that compaction has freed does not come back when a wrong clock is corrected.
//! So the value must have expired by every clock that a node of the cluster may have,
//! which is certain after twice the bound on clocks and a margin. Besides, this node's
//! own clock must be proven:
//! - In a cluster it is proven while it is near the clocks of most peers.
//! - For a node alone it is proven once it has run without a jump for twice the bound,
//!   because a clock that is wrong at boot is usually corrected within seconds.

use base::Clock;
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How much longer than twice the bound an expired value is kept, for reads that are
/// still running.
const MARGIN: Duration = Duration::from_secs(60);

/// If the wall clock departs from the monotonic clock by more than this between two
/// readings, it has jumped.
const JUMP: Duration = Duration::from_secs(30);

/// Computes for compaction which values have expired for all nodes.
pub struct ExpiryBound {
    own_clock: OwnClock,
    /// Twice the bound on clocks.
    spread: Duration,
}

/// How a node proves its clock.
pub enum OwnClock {
    /// A node without peers, by the steadiness of its clock.
    Alone {
        /// The clocks of the node.
        clock: Arc<dyn Clock>,
        /// What earlier readings say about the wall clock.
        steady: Mutex<Steady>,
    },
    /// By the peers. Returns the time if the clock is near the clocks of most peers.
    ByPeers(Box<dyn Fn() -> Option<u64> + Send + Sync>),
}

/// How long a wall clock has run steadily.
pub struct Steady {
    /// The wall clock and the monotonic clock at the last reading.
    unix_ms: u64,
    monotonic: Duration,
    /// The last jump of the wall clock, on the monotonic clock.
    since: Duration,
}

impl OwnClock {
    /// The clock of a node without peers, which is not proven yet.
    pub fn alone(clock: Arc<dyn Clock>) -> Self {
        let monotonic = clock.monotonic();
        let steady = Steady {
            unix_ms: clock.unix_ms(),
            monotonic,
            since: monotonic,
        };
        Self::Alone {
            clock,
            steady: Mutex::new(steady),
        }
    }

    /// The time in milliseconds since the Unix epoch, if the clock is proven.
    fn proven_unix_ms(&self, steady_for: Duration) -> Option<u64> {
        match self {
            Self::Alone { clock, steady } => lock(steady).read(&**clock, steady_for),
            Self::ByPeers(proven_unix_ms) => proven_unix_ms(),
        }
    }
}

impl Steady {
    /// Reads the clocks. Returns the wall clock if it has been steady for `steady_for`.
    fn read(&mut self, clock: &dyn Clock, steady_for: Duration) -> Option<u64> {
        let (unix_ms, monotonic) = (clock.unix_ms(), clock.monotonic());
        let passed = monotonic.saturating_sub(self.monotonic);
        let expected_unix_ms = self.unix_ms.saturating_add(whole_ms(passed));
        if unix_ms.abs_diff(expected_unix_ms) > whole_ms(JUMP) {
            self.since = monotonic;
        }
        (self.unix_ms, self.monotonic) = (unix_ms, monotonic);
        (monotonic.saturating_sub(self.since) >= steady_for).then_some(unix_ms)
    }
}

impl ExpiryBound {
    /// The bound that follows from `own_clock` if clocks may be `drift_max` apart.
    pub fn new(own_clock: OwnClock, drift_max: Duration) -> Self {
        Self {
            own_clock,
            spread: drift_max.saturating_mul(2),
        }
    }

    /// Values that expired before this time have expired for all nodes. In milliseconds
    /// since the Unix epoch; 0 while the clock is not proven.
    pub fn expired_before_unix_ms(&self) -> u64 {
        let proven_unix_ms = self.own_clock.proven_unix_ms(self.spread);
        proven_unix_ms.map_or(0, |unix_ms| self.before(unix_ms))
    }

    /// The same by a clock that shows `unix_ms`, if that is proven.
    pub fn before(&self, unix_ms: u64) -> u64 {
        unix_ms.saturating_sub(whole_ms(self.spread.saturating_add(MARGIN)))
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const HOUR_MS: u64 = 3_600_000;
    const DRIFT_MAX: Duration = Duration::from_millis(HOUR_MS);
    const START_UNIX_MS: u64 = 1_000 * HOUR_MS;
    const KEPT_MS: u64 = 2 * HOUR_MS + 60_000;

    /// Two clocks that a test sets.
    #[derive(Default)]
    struct Clocks {
        unix_ms: AtomicU64,
        monotonic_ms: AtomicU64,
    }

    impl Clock for Clocks {
        fn unix_ms(&self) -> u64 {
            self.unix_ms.load(Relaxed)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.monotonic_ms.load(Relaxed))
        }
    }

    #[test]
    fn the_clock_of_a_node_alone_must_have_run_steadily() {
        let clocks = Arc::new(Clocks::default());
        clocks.unix_ms.store(START_UNIX_MS, Relaxed);
        let own_clock = OwnClock::alone(Arc::clone(&clocks) as Arc<dyn Clock>);
        let bound = ExpiryBound::new(own_clock, DRIFT_MAX);
        let pass = |ms| {
            clocks.monotonic_ms.fetch_add(ms, Relaxed);
            clocks.unix_ms.fetch_add(ms, Relaxed) + ms
        };
        assert_eq!(bound.expired_before_unix_ms(), 0);
        pass(2 * HOUR_MS - 1);
        assert_eq!(bound.expired_before_unix_ms(), 0);
        let now = pass(1);
        assert_eq!(bound.expired_before_unix_ms(), now - KEPT_MS);

        // After a jump the time counts from zero, whether the jump was wrong or right.
        for jumped in [START_UNIX_MS + 100_000 * HOUR_MS, START_UNIX_MS] {
            clocks.unix_ms.store(jumped, Relaxed);
            assert_eq!(bound.expired_before_unix_ms(), 0);
            pass(2 * HOUR_MS - 1);
            assert_eq!(bound.expired_before_unix_ms(), 0);
            let now = pass(1);
            assert_eq!(bound.expired_before_unix_ms(), now - KEPT_MS);
        }
        // A clock that is slewed a little has not jumped.
        clocks.unix_ms.fetch_add(20_000, Relaxed);
        assert!(bound.expired_before_unix_ms() > 0);
    }

    #[test]
    fn in_a_cluster_the_peers_must_prove_the_clock() {
        let proven = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&proven);
        let own_clock = OwnClock::ByPeers(Box::new(move || match clock.load(Relaxed) {
            0 => None,
            unix_ms => Some(unix_ms),
        }));
        let bound = ExpiryBound::new(own_clock, DRIFT_MAX);
        assert_eq!(bound.expired_before_unix_ms(), 0);
        proven.store(START_UNIX_MS, Relaxed);
        assert_eq!(bound.expired_before_unix_ms(), START_UNIX_MS - KEPT_MS);
        proven.store(1, Relaxed);
        assert_eq!(bound.expired_before_unix_ms(), 0);
    }

    #[test]
    fn an_infinite_bound_frees_nothing() {
        let own_clock = OwnClock::ByPeers(Box::new(|| Some(START_UNIX_MS)));
        let bound = ExpiryBound::new(own_clock, Duration::MAX);
        assert_eq!(bound.expired_before_unix_ms(), 0);
    }
}
