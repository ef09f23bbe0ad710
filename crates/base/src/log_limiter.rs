//! Limits how many log lines of one kind are written, so that nobody can fill a disk with them or
//! hide others of their kind for long. Lines left out are counted, and the next line of the kind
//! says how many there were.
//!
//! [`LogLimiter`] limits one kind of line. [`LimitedLog`] has one for each kind, and the clock.

use crate::Clock;
use profile::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a failure that repeats itself stays out of the log.
const FAILURE_REPEATED_EVERY: Duration = Duration::from_secs(60);

/// How many lines may come at once, and after how long one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRate {
    /// How many lines may come at once.
    pub burst: u32,
    /// For a long time one line may come in each of these periods.
    pub period: Duration,
}

impl LogRate {
    /// For lines that requests cause.
    pub const REQUESTS: Self = Self {
        burst: 50,
        period: Duration::from_millis(100),
    };

    /// For failures of work that is tried again and again, and of peers.
    pub const FAILURES: Self = Self {
        burst: 10,
        period: Duration::from_secs(10),
    };
}

/// Admits lines of one kind, and counts those that it does not.
#[derive(Debug)]
pub struct LogLimiter {
    rate: LogRate,
    /// How many lines may come now.
    room: f64,
    /// When that was last reckoned, on the monotonic clock.
    reckoned: Duration,
    /// What the last line said that [`LogLimiter::admits_news`] has admitted, and when.
    last: Option<(String, Duration)>,
    left_out: u64,
}

impl Default for LogLimiter {
    fn default() -> Self {
        Self::new(LogRate::REQUESTS)
    }
}

impl LogLimiter {
    /// Admits lines at this rate.
    #[must_use]
    pub fn new(rate: LogRate) -> Self {
        Self {
            rate,
            room: f64::from(rate.burst),
            reckoned: Duration::ZERO,
            last: None,
            left_out: 0,
        }
    }

    /// Whether a line may be written now; otherwise it counts as left out.
    pub fn admits(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.reckoned).as_secs_f64();
        let more = passed / self.rate.period.as_secs_f64();
        self.room = (self.room + more).min(f64::from(self.rate.burst));
        self.reckoned = self.reckoned.max(now);
        if self.room < 1.0 {
            self.left_out += 1;
            return false;
        }
        self.room -= 1.0;
        true
    }

    /// Whether a line with this text may be written now: the last one said something else, or
    /// is as old as `repeated_every`. What only repeats itself does not count as left out.
    pub fn admits_news(&mut self, text: &str, now: Duration, repeated_every: Duration) -> bool {
        let repeats = self.last.as_ref().is_some_and(|(last, logged)| {
            last == text && now < logged.saturating_add(repeated_every)
        });
        if repeats || !self.admits(now) {
            return false;
        }
        self.last = Some((text.to_owned(), now));
        true
    }

    /// Whether a failure of work that is tried again and again may be logged now: it is another
    /// one than the last, or that was logged a while ago.
    pub fn admits_failure(&mut self, text: &str, now: Duration) -> bool {
        self.admits_news(text, now, FAILURE_REPEATED_EVERY)
    }

    /// Forgets what the last line said, because it is over, but not how many lines there were.
    /// Returns whether there was one.
    pub fn forget_last(&mut self) -> bool {
        self.last.take().is_some()
    }

    /// Counts a line that was admitted and could not be written.
    pub fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// How many lines were left out since [`LogLimiter::take_left_out`].
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How many lines were left out since the last call.
    pub fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

/// Limits the lines that requests cause, each kind on its own.
pub struct LimitedLog {
    clock: Arc<dyn Clock>,
    kinds: Mutex<BTreeMap<&'static str, LogLimiter>>,
}

impl LimitedLog {
    /// Limits lines by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            kinds: Mutex::default(),
        }
    }

    /// Calls `write` to write a line of this kind, unless there were too many. It gets how many
    /// were left out before, if any were.
    pub fn line(&self, kind: &'static str, write: impl FnOnce(Option<u64>)) {
        self.write(kind, |limiter, now| limiter.admits(now), write);
    }

    /// Calls `write` as [`LimitedLog::line`] does, unless the failure repeats the last one of
    /// its kind: many requests may meet it.
    pub fn failure(&self, kind: &'static str, text: &str, write: impl FnOnce(Option<u64>)) {
        let admits = |limiter: &mut LogLimiter, now| limiter.admits_failure(text, now);
        self.write(kind, admits, write);
    }

    fn write(
        &self,
        kind: &'static str,
        admits: impl FnOnce(&mut LogLimiter, Duration) -> bool,
        write: impl FnOnce(Option<u64>),
    ) {
        let left_out = {
            let mut kinds = lock(&self.kinds);
            let limiter = kinds.entry(kind).or_default();
            if !admits(limiter, self.clock.monotonic()) {
                return;
            }
            limiter.take_left_out()
        };
        write((left_out > 0).then_some(left_out));
    }
}

impl fmt::Debug for LimitedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedLog")
            .field("kinds", &self.kinds)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    const NEVER: Duration = Duration::MAX;

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let mut limiter = LogLimiter::default();
        let mut admitted = |seconds: u64, lines: usize| {
            let now = Duration::from_secs(seconds);
            (0..lines).filter(|_| limiter.admits(now)).count()
        };
        assert_eq!(admitted(0, 200), 50);
        assert_eq!(admitted(1, 200), 10);
        assert_eq!(admitted(3, 15), 15);
        assert_eq!(admitted(3, 10), 5);
        assert_eq!(admitted(2, 10), 0, "a time that is older adds nothing");
        assert_eq!(admitted(1000, 200), 50);
        let left_out = 150 + 190 + 5 + 10 + 150;
        assert_eq!(limiter.take_left_out(), left_out);
        assert_eq!(limiter.take_left_out(), 0);
    }

    #[test]
    fn what_repeats_itself_is_logged_once_in_a_while_and_what_changes_is_news() {
        let mut limiter = LogLimiter::new(LogRate::FAILURES);
        let mut is_news =
            |text, seconds| limiter.admits_failure(text, Duration::from_secs(seconds));
        assert!(is_news("full", 5));
        assert!((5..65).all(|second| !is_news("full", second)));
        assert!(is_news("full", 65) && is_news("another", 66) && is_news("full", 67));
        assert_eq!(limiter.left_out(), 0);
    }

    #[test]
    fn texts_in_turn_are_no_way_around_the_rate() {
        let mut limiter = LogLimiter::new(LogRate::FAILURES);
        let texts = (0..100).map(|line| ["one", "two"][line % 2]);
        let logged = texts.filter(|text| limiter.admits_news(text, Duration::ZERO, NEVER));
        assert_eq!(logged.count(), 10);
        assert_eq!(limiter.left_out(), 45, "the others repeat the last line");
        assert!(limiter.forget_last() && !limiter.forget_last());
        assert!(
            !limiter.admits_news("three", Duration::ZERO, NEVER),
            "what is over has still taken its room"
        );
    }

    #[test]
    fn each_kind_has_its_own_room_and_says_what_was_left_out() {
        let clock = Arc::new(ManualClock::new(0));
        let log = LimitedLog::new(Arc::clone(&clock) as Arc<dyn Clock>);
        let mut told = Vec::new();
        for _ in 0..60 {
            log.line("flood", |left_out| told.push(left_out));
        }
        assert_eq!(told, [None; 50]);
        log.line("other", |left_out| assert_eq!(left_out, None));
        clock.advance(Duration::from_secs(1));
        log.line("flood", |left_out| told.push(left_out));
        assert_eq!(told.last(), Some(&Some(10)));
    }
}
