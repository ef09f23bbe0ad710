//! How fast a peer answers.
//!
//! Pure: times are parameters.

use std::time::Duration;

/// A smoothed estimate of how long answers take, as TCP estimates its
/// retransmission timeout (RFC 6298): a mean and a mean deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latency {
    estimate: Option<Estimate>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: Duration,
    deviation: Duration,
}

/// How long an answer may take before it is slow, if none has come yet.
const SLOW_AFTER_UNKNOWN: Duration = Duration::from_millis(50);

/// The least time after which an answer is slow: the runtime's timers are not
/// finer.
const SLOW_AFTER_MIN: Duration = Duration::from_millis(1);

/// The greatest time after which an answer is slow.
const SLOW_AFTER_MAX: Duration = Duration::from_secs(1);

impl Latency {
    /// Adds the time that an answer took.
    pub(crate) fn sample(&mut self, took: Duration) {
        self.estimate = Some(match self.estimate {
            None => Estimate {
                mean: took,
                deviation: took / 2,
            },
            Some(Estimate { mean, deviation }) => Estimate {
                mean: (mean * 7 + took) / 8,
                deviation: (deviation * 3 + mean.abs_diff(took)) / 4,
            },
        });
    }

    /// How long an answer takes on average; `None` before the first.
    pub(crate) fn mean(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.mean)
    }

    /// After how long an answer is slow: nearly all answers come earlier.
    pub(crate) fn slow_after(&self) -> Duration {
        match self.estimate {
            None => SLOW_AFTER_UNKNOWN,
            Some(Estimate { mean, deviation }) => {
                (mean + deviation * 4).clamp(SLOW_AFTER_MIN, SLOW_AFTER_MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn an_answer_is_slow_if_nearly_all_come_earlier() {
        let mut latency = Latency::default();
        assert_eq!(
            (latency.mean(), latency.slow_after()),
            (None, SLOW_AFTER_UNKNOWN)
        );
        latency.sample(ms(10));
        assert_eq!(
            (latency.mean(), latency.slow_after()),
            (Some(ms(10)), ms(30))
        );
        for _ in 0..200 {
            latency.sample(ms(10));
        }
        assert_eq!(latency.slow_after().as_millis(), 10);
        latency.sample(ms(50));
        assert_eq!(
            (latency.mean(), latency.slow_after().as_millis()),
            (Some(ms(15)), 55)
        );
        for _ in 0..200 {
            latency.sample(Duration::from_micros(90));
        }
        assert_eq!(latency.slow_after(), SLOW_AFTER_MIN);
        latency.sample(Duration::from_secs(100));
        assert_eq!(latency.slow_after(), SLOW_AFTER_MAX);
    }
}
