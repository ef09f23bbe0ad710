//! What has expired for everyone, so that compaction may free it.
//!
//! A value that compaction frees does not come back when a clock is set right.
//! So it must have expired by every clock that a node of the cluster may have,
//! which takes twice the bound on clocks, and a margin; and this node's own clock
//! must be known to be right:
//! - in a cluster, while it is near the clocks of most of its peers;
//! - alone, once it has run without a jump for twice the bound: a clock that is
//!   wrong at boot is mostly set right within seconds.

use base::Clock;
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How much longer than twice the bound a value is kept after it has expired:
/// for reads on their way.
const MARGIN: Duration = Duration::from_secs(60);

/// By how much the wall clock may leave the monotonic clock between two looks
/// without having jumped.
const JUMP: Duration = Duration::from_secs(30);

/// Tells compaction what has expired for everyone.
pub(crate) struct ExpiryBound {
    own_clock: OwnClock,
    /// Twice the bound on clocks.
    spread: Duration,
}

/// How a node knows that its clock is right.
pub(crate) enum OwnClock {
    /// It has no peers.
    Alone {
        /// Its clocks.
        clock: Arc<dyn Clock>,
        /// What was seen of them.
        steady: Mutex<Steady>,
    },
    /// By its peers: the time if the clock is near those of most of them.
    ByPeers(Box<dyn Fn() -> Option<u64> + Send + Sync>),
}

/// How steadily a wall clock runs.
pub(crate) struct Steady {
    /// What the clocks showed at the last look.
    unix_ms: u64,
    monotonic: Duration,
    /// Since when the wall clock has not jumped, by the monotonic clock.
    since: Duration,
}

impl OwnClock {
    /// The clock of a node without peers, which is not known to be right yet.
    pub(crate) fn alone(clock: Arc<dyn Clock>) -> Self {
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

    /// The time in milliseconds since the Unix epoch, if it is known.
    fn known_unix_ms(&self, steady_for: Duration) -> Option<u64> {
        match self {
            Self::Alone { clock, steady } => lock(steady).look(&**clock, steady_for),
            Self::ByPeers(proven_unix_ms) => proven_unix_ms(),
        }
    }
}

impl Steady {
    /// What the wall clock shows, if it has been steady for so long.
    fn look(&mut self, clock: &dyn Clock, steady_for: Duration) -> Option<u64> {
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
    /// The bound that follows from a clock, where clocks may be so far apart.
    pub(crate) fn new(own_clock: OwnClock, drift_max: Duration) -> Self {
        Self {
            own_clock,
            spread: drift_max.saturating_mul(2),
        }
    }

    /// What expired before this time has expired for everyone, in milliseconds
    /// since the Unix epoch; 0 while that is not known.
    pub(crate) fn expired_before_unix_ms(&self) -> u64 {
        let kept_ms = whole_ms(self.spread.saturating_add(MARGIN));
        let known_unix_ms = self.own_clock.known_unix_ms(self.spread);
        known_unix_ms.map_or(0, |unix_ms| unix_ms.saturating_sub(kept_ms))
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

    /// Two clocks that are set by hand.
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
    fn alone_a_clock_must_have_run_steadily() {
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

        // A clock that jumps begins anew, be it set wrong or right.
        for jumped in [START_UNIX_MS + 100_000 * HOUR_MS, START_UNIX_MS] {
            clocks.unix_ms.store(jumped, Relaxed);
            assert_eq!(bound.expired_before_unix_ms(), 0);
            pass(2 * HOUR_MS - 1);
            assert_eq!(bound.expired_before_unix_ms(), 0);
            let now = pass(1);
            assert_eq!(bound.expired_before_unix_ms(), now - KEPT_MS);
        }
        // One that is slewed a little does not.
        clocks.unix_ms.fetch_add(20_000, Relaxed);
        assert!(bound.expired_before_unix_ms() > 0);
    }

    #[test]
    fn in_a_cluster_the_peers_must_prove_it() {
        let proven = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&proven);
        let own_clock = OwnClock::ByPeers(Box::new(move || match told.load(Relaxed) {
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
    fn a_bound_without_end_frees_nothing() {
        let own_clock = OwnClock::ByPeers(Box::new(|| Some(START_UNIX_MS)));
        let bound = ExpiryBound::new(own_clock, Duration::MAX);
        assert_eq!(bound.expired_before_unix_ms(), 0);
    }
}
