//! The slowest requests of a run, one by one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

/// A request that was among the slowest of a run. Its times are those of the system's
/// monotonic clock, so they fit to what a node of the same machine says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlowRequest {
    /// When it was due.
    pub due: Duration,
    /// When it was sent: later than due if the generator was late, or no connection was free.
    pub sent: Duration,
    /// When the generator woke to read its answer.
    pub woke: Duration,
    /// When its answer was read.
    pub received: Duration,
    /// The number of its target in the plan.
    pub target: usize,
    /// The port of its connection on the generator's side.
    pub port: u16,
    /// When the request before it on the connection was sent, if it waited for that one: it
    /// was due before, and no other connection was free.
    pub waited_for: Option<Duration>,
}

impl SlowRequest {
    /// From when it was due until its answer was read.
    pub fn latency(&self) -> Duration {
        self.received.saturating_sub(self.due)
    }
}

/// The slowest requests so far, at most a number of them.
pub(crate) struct Slowest {
    most: usize,
    /// The one of the least latency is on top.
    kept: BinaryHeap<LeastFirst>,
}

struct LeastFirst(SlowRequest);

impl Ord for LeastFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.latency().cmp(&self.0.latency())
    }
}

impl PartialOrd for LeastFirst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LeastFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for LeastFirst {}

impl Slowest {
    /// Keeps the `most` slowest.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            kept: BinaryHeap::with_capacity(most.saturating_add(1)),
        }
    }

    /// Whether a request of this latency is among the slowest so far.
    pub(crate) fn admits(&self, latency: Duration) -> bool {
        match self.kept.peek() {
            Some(least) if self.kept.len() >= self.most => latency > least.0.latency(),
            _ => self.most > 0,
        }
    }

    /// Adds a request, and forgets the fastest beyond the number.
    pub(crate) fn add(&mut self, request: SlowRequest) {
        self.kept.push(LeastFirst(request));
        if self.kept.len() > self.most {
            self.kept.pop();
        }
    }

    /// All of them, the slowest first.
    pub(crate) fn into_sorted(self) -> Vec<SlowRequest> {
        let sorted = self.kept.into_sorted_vec();
        sorted.into_iter().map(|request| request.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(latency_ms: u64) -> SlowRequest {
        let due = Duration::from_secs(7);
        SlowRequest {
            due,
            sent: due,
            woke: due,
            received: due + Duration::from_millis(latency_ms),
            target: 0,
            port: 1,
            waited_for: None,
        }
    }

    #[test]
    fn the_slowest_are_kept_in_order() {
        let mut slowest = Slowest::new(3);
        for latency_ms in [5, 1, 9, 3, 7, 7, 2] {
            let request = request(latency_ms);
            if slowest.admits(request.latency()) {
                slowest.add(request);
            }
        }
        let kept = slowest.into_sorted();
        let kept: Vec<u128> = kept.iter().map(|kept| kept.latency().as_millis()).collect();
        assert_eq!(kept, [9, 7, 7]);
        assert!(!Slowest::new(0).admits(Duration::MAX));
    }
}
