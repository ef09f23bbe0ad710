//! Whether a peer is alive, how fast it answers, and what its clock says.
//!
//! Pure: times are parameters, on the monotonic clock.

use std::time::Duration;

/// How often a link pings.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(100);

/// A peer that was silent for so long, though it was pinged, is suspected.
pub(super) const SUSPECT_AFTER: Duration = Duration::from_millis(400);

/// A connection that was silent for so long is closed and dialled anew: the
/// peer's machine may have lost it, and nobody else would ever tell.
pub(super) const CLOSE_AFTER: Duration = Duration::from_secs(5);

/// A heartbeat that is so late says that this node itself stood still.
const LATE_AFTER: Duration = Duration::from_millis(200);

/// How long a peer has been silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Not long enough to mean anything.
    Short,
    /// LongMessage enough to stop waiting for it.
    Suspicious,
    /// LongMessage enough to give up the connection.
    Dead,
}

/// When a peer was last heard of.
#[derive(Debug)]
pub(super) struct Pulse {
    last_beat: Duration,
    silent_since: Duration,
}

impl Pulse {
    /// A connection that begins now.
    pub(super) fn new(now: Duration) -> Self {
        Self {
            last_beat: now,
            silent_since: now,
        }
    }

    /// The peer has sent something.
    pub(super) fn heard(&mut self, now: Duration) {
        self.silent_since = now;
    }

    /// A heartbeat. A late one means that this node stood still (stopped, or
    /// its machine paused): the silence was its own, so the peer gets a fresh period.
    pub(super) fn beat(&mut self, now: Duration) -> Silence {
        if now.saturating_sub(self.last_beat) > LATE_AFTER {
            self.silent_since = now;
        }
        self.last_beat = now;
        match now.saturating_sub(self.silent_since) {
            silence if silence >= CLOSE_AFTER => Silence::Dead,
            silence if silence >= SUSPECT_AFTER => Silence::Suspicious,
            _ => Silence::Short,
        }
    }
}

/// A smoothed estimate of how long answers take, as TCP estimates its
/// retransmission timeout (RFC 6298): a mean and a mean deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    estimate: Option<Estimate>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: Duration,
    deviation: Duration,
}

/// When an answer is slow as long as none has come yet.
const SLOW_AFTER_UNKNOWN: Duration = Duration::from_millis(50);

/// No answer is slow earlier: the runtime's timers are no finer.
const SLOW_AFTER_MIN: Duration = Duration::from_millis(1);

/// Every answer is slow after this.
const SLOW_AFTER_MAX: Duration = Duration::from_secs(1);

impl Latency {
    /// Takes note of an answer.
    pub(super) fn sample(&mut self, took: Duration) {
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
    pub(super) fn mean(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.mean)
    }

    /// After how long an answer is slow: later than nearly all.
    pub(super) fn slow_after(&self) -> Duration {
        match self.estimate {
            None => SLOW_AFTER_UNKNOWN,
            Some(Estimate { mean, deviation }) => {
                (mean + deviation * 4).clamp(SLOW_AFTER_MIN, SLOW_AFTER_MAX)
            }
        }
    }
}

/// How far a peer's wall clock is ahead of our monotonic one, in milliseconds,
/// when it read `theirs_unix_ms` somewhere between a ping and its pong, which
/// came at `now` after `took`. Right to half of `took`; `None` when that is
/// too long to tell anything.
pub(super) fn ahead_ms(theirs_unix_ms: u64, now: Duration, took: Duration) -> Option<i64> {
    if took > SUSPECT_AFTER {
        return None;
    }
    let half_ms = (took / 2).as_millis() as i64;
    let ahead = i128::from(theirs_unix_ms) - now.as_millis() as i128;
    let ahead = ahead.clamp(i128::from(i64::MIN / 2), i128::from(i64::MAX / 2)) as i64;
    Some(ahead + half_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Beats every 100 ms from `from_ms` to `to_ms`; gives the last silence.
    fn beat_until(pulse: &mut Pulse, from_ms: u64, to_ms: u64) -> Silence {
        let mut silence = Silence::Short;
        for at in (from_ms..=to_ms).step_by(100) {
            silence = pulse.beat(ms(at));
        }
        silence
    }

    #[test]
    fn silence_grows_from_short_to_dead() {
        let mut pulse = Pulse::new(ms(1_000));
        assert_eq!(beat_until(&mut pulse, 1_000, 1_300), Silence::Short);
        assert_eq!(pulse.beat(ms(1_400)), Silence::Suspicious);
        pulse.heard(ms(1_450));
        assert_eq!(beat_until(&mut pulse, 1_500, 1_800), Silence::Short);
        assert_eq!(beat_until(&mut pulse, 1_900, 6_400), Silence::Suspicious);
        assert_eq!(pulse.beat(ms(6_500)), Silence::Dead);
    }

    #[test]
    fn who_stood_still_itself_suspects_nobody() {
        let mut pulse = Pulse::new(ms(0));
        beat_until(&mut pulse, 0, 300);
        assert_eq!(pulse.beat(ms(60_000)), Silence::Short);
        assert_eq!(beat_until(&mut pulse, 60_100, 60_300), Silence::Short);
        assert_eq!(pulse.beat(ms(60_400)), Silence::Suspicious);
    }

    #[test]
    fn a_slow_answer_is_one_later_than_nearly_all() {
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

    #[test]
    fn drift_is_right_to_half_the_way() {
        for (theirs, ours, took, drift) in [
            (5_010, 5_020, ms(20), Some(0)),
            (9_000, 5_000, ms(0), Some(4_000)),
            (1_000, 5_000, ms(2), Some(-3_999)),
            (5_000, 5_000, ms(401), None),
            (u64::MAX, 0, ms(0), Some(i64::MAX / 2)),
            (0, u64::MAX, ms(0), Some(i64::MIN / 2)),
        ] {
            let now = Duration::from_millis(ours);
            assert_eq!(ahead_ms(theirs, now, took), drift, "{theirs} {ours}");
        }
    }
}
