//! Chooses the next rate of a search for the breaking point.
//!
//! Rates double until one fails. Then the gap between the highest rate that
//! held and the lowest that failed is halved, on a logarithmic scale, until it
//! is a few percent. A machine that stalls for a moment fails a rate that the
//! store would hold, so a rate fails only if two of three tries fail. A stall
//! never makes a rate hold, so the first try that holds is enough. The failed
//! rate that ends the search decides its result and may have been tried long
//! ago, so it must fail once more: three of five tries.

/// The factor by which rates grow until one fails.
const GROWTH: f64 = 2.0;

/// The factor after a rate held that had counted as failed.
const GROWTH_AFTER_MISTAKE: f64 = 1.2;

/// The search ends when the bounds differ by this factor: 5%.
const PRECISION: f64 = 1.05;

/// The lowest rate that is tried, in requests per second.
const RATE_MIN: f64 = 1.0;

/// The most probes of a search.
pub(super) const PROBES_MAX: u32 = 60;

/// The state of a search, a function of the probes so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateSearch {
    /// The highest rate that held.
    held: Option<f64>,
    /// The lowest rate that failed, if it is above `held`.
    failed: Option<f64>,
    /// The rate of the next probe.
    rate: f64,
    tries: Tries,
    growth: f64,
    probes: u32,
}

/// The tries at one rate.
#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    held: u32,
    failed: u32,
    /// How many tries of one kind decide.
    needed: u32,
}

/// What the tries at a rate have decided.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RateDecision {
    Held,
    Failed,
    Open,
}

impl Tries {
    fn decision(self) -> RateDecision {
        if self.failed >= self.needed {
            RateDecision::Failed
        } else if self.held >= self.needed || (self.held > 0 && self.failed == 0) {
            RateDecision::Held
        } else {
            RateDecision::Open
        }
    }
}

/// Two of three tries decide.
const FIRST_TRIES: Tries = Tries {
    held: 0,
    failed: 0,
    needed: 2,
};

/// Three of five tries decide, and two have failed already.
const LAST_TRIES: Tries = Tries {
    held: 0,
    failed: 2,
    needed: 3,
};

impl RateSearch {
    /// Begins a search at `rate`.
    pub(super) fn new(rate: f64) -> Self {
        Self {
            held: None,
            failed: None,
            rate,
            tries: FIRST_TRIES,
            growth: GROWTH,
            probes: 0,
        }
    }

    /// The rate to try; [`None`] if the search is over.
    pub(super) fn next(&self) -> Option<f64> {
        let is_decided = self.tries.decision() != RateDecision::Open;
        let is_over = self.probes >= PROBES_MAX || self.rate < RATE_MIN || is_decided;
        (!is_over).then_some(self.rate)
    }

    /// The highest rate that held.
    pub(super) fn result(&self) -> Option<f64> {
        self.held
    }

    /// Records whether the rate of the last probe held.
    pub(super) fn record_probe(&mut self, held: bool) {
        self.probes += 1;
        if held {
            self.tries.held += 1;
        } else {
            self.tries.failed += 1;
        }
        let is_last = self.tries.needed == LAST_TRIES.needed;
        match self.tries.decision() {
            RateDecision::Open => return,
            // The bounds are close, and the upper one has failed often enough.
            RateDecision::Failed if is_last => return,
            RateDecision::Failed => self.failed = Some(self.rate),
            RateDecision::Held => {
                self.held = Some(self.rate);
                if is_last {
                    self.failed = None;
                    self.growth = GROWTH_AFTER_MISTAKE;
                }
            }
        }
        self.tries = FIRST_TRIES;
        self.rate = match (self.held, self.failed) {
            (None, _) => self.rate / self.growth,
            (Some(held), None) => held * self.growth,
            (Some(held), Some(failed)) if failed / held <= PRECISION => {
                self.tries = LAST_TRIES;
                failed
            }
            (Some(held), Some(failed)) => (held * failed).sqrt(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for the breaking point of a server that holds rates up to
    /// `capacity`, on a machine where a share `noise` of all probes fails for
    /// no reason. Returns the result and the number of probes.
    fn search(start: f64, capacity: f64, noise: f64, seed: u64) -> (Option<f64>, u32) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut search = RateSearch::new(start);
        while let Some(rate) = search.next() {
            // Near its capacity a server holds a rate in some probes only.
            let slack = 0.02 * (random.f64() - 0.5);
            search.record_probe(rate <= capacity * (1.0 + slack) && random.f64() >= noise);
        }
        (search.result(), search.probes)
    }

    #[test]
    fn a_quiet_machine_finds_the_capacity_in_few_probes() {
        for start in [10.0, 1_000.0, 60_000.0, 5_000_000.0] {
            for capacity in [37.0, 1_000.0, 43_210.0, 1_234_567.0] {
                let (rate, probes) = search(start, capacity, 0.0, 1);
                let share = rate.unwrap() / capacity;
                assert!((0.94..1.02).contains(&share), "{start} {capacity}: {share}");
                assert!(probes <= PROBES_MAX - 10, "{start} {capacity}: {probes}");
            }
        }
        let (_, probes) = search(1_000.0, 43_210.0, 0.0, 1);
        assert!(probes <= 20, "{probes}");
    }

    #[test]
    fn random_failures_rarely_change_the_result() {
        let right = (0..1_000).filter(|seed| {
            let (rate, probes) = search(1_000.0, 43_210.0, 0.1, *seed);
            assert!(probes <= PROBES_MAX);
            rate.is_some_and(|rate| (0.93..1.02).contains(&(rate / 43_210.0)))
        });
        let right = right.count();
        assert!(right >= 950, "{right} of 1000");
    }

    #[test]
    fn a_server_that_holds_nothing_has_no_breaking_point() {
        let (rate, probes) = search(1_000.0, 0.0, 0.0, 1);
        assert_eq!(rate, None);
        assert!(probes <= 20, "{probes}");
    }

    #[test]
    fn a_server_that_holds_everything_ends_the_search_too() {
        let (rate, probes) = search(1_000.0, f64::INFINITY, 0.0, 1);
        assert_eq!(probes, PROBES_MAX);
        assert!(rate.is_some());
    }
}
