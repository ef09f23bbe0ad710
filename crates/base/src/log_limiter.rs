//! Limits how many log lines of one kind are written, so that nobody can fill a disk with them or
//! hide others of their kind for long. Lines left out are counted, and the next line of the kind
//! says how many there were.
//!
//! [`LogLimiter`] limits one kind of line. [`LimitedLog`] has one for each key, such as a kind of
//! line or a peer, and the clock.

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

/// How many lines a [`LimitedLog`] admits.
#[derive(Clone, Copy, Debug)]
pub struct LogBounds {
    /// How many lines of each key.
    pub each: LogRate,
    /// How many lines without a key, and of further keys than `keys_max`, all together.
    pub others: LogRate,
    /// How many keys have a limit of their own, which stays.
    pub keys_max: usize,
}

impl LogBounds {
    /// For lines that requests cause, by their kind, of which the code has a few.
    pub const REQUESTS: Self = Self {
        each: LogRate::REQUESTS,
        others: LogRate::REQUESTS,
        keys_max: 64,
    };
}

/// Limits lines by their key, so that those of one key take nothing from others. What comes
/// without a key, or with one too many, shares a limit.
pub struct LimitedLog<K = &'static str> {
    clock: Arc<dyn Clock>,
    bounds: LogBounds,
    limiters: Mutex<BTreeMap<Option<K>, LogLimiter>>,
}

impl<K: Ord> LimitedLog<K> {
    /// Limits lines by this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, bounds: LogBounds) -> Self {
        Self {
            clock,
            bounds,
            limiters: Mutex::default(),
        }
    }

    /// Calls `write` to write a line with this key, unless there were too many. It gets how many
    /// were left out before, if any were.
    pub fn line(&self, key: K, write: impl FnOnce(Option<u64>)) {
        self.write(Some(key), LogLimiter::admits, write);
    }

    /// Calls `write` as [`LimitedLog::line`] does, unless the failure repeats the last one with
    /// its key: many requests may meet it.
    pub fn failure(&self, key: K, text: &str, write: impl FnOnce(Option<u64>)) {
        let admits = |limiter: &mut LogLimiter, now| limiter.admits_failure(text, now);
        self.write(Some(key), admits, write);
    }

    /// Calls `write` as [`LimitedLog::line`] does, unless the problem is that of the last line
    /// with this key, or without one, and was not forgotten since.
    pub fn problem(&self, key: Option<K>, text: &str, write: impl FnOnce(Option<u64>)) {
        let admits = |limiter: &mut LogLimiter, now| limiter.admits_news(text, now, Duration::MAX);
        self.write(key, admits, write);
    }

    /// Forgets what the last line with this key said, because it is over. Returns whether there
    /// was one.
    pub fn forget_last(&self, key: K) -> bool {
        let mut limiters = lock(&self.limiters);
        let limiter = limiters.get_mut(&Some(key));
        limiter.is_some_and(LogLimiter::forget_last)
    }

    fn write(
        &self,
        key: Option<K>,
        admits: impl FnOnce(&mut LogLimiter, Duration) -> bool,
        write: impl FnOnce(Option<u64>),
    ) {
        let left_out = {
            let mut limiters = lock(&self.limiters);
            let has_own = limiters.len() < self.bounds.keys_max || limiters.contains_key(&key);
            let key = key.filter(|_| has_own);
            let rate = if key.is_some() {
                self.bounds.each
            } else {
                self.bounds.others
            };
            let limiter = limiters.entry(key).or_insert_with(|| LogLimiter::new(rate));
            if !admits(limiter, self.clock.monotonic()) {
                return;
            }
            limiter.take_left_out()
        };
        write((left_out > 0).then_some(left_out));
    }
}

impl<K: fmt::Debug> fmt::Debug for LimitedLog<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedLog")
            .field("limiters", &self.limiters)
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

    /// What a log says of a problem: `None` for nothing, or how many lines were left out.
    fn told(log: &LimitedLog<u32>, key: Option<u32>, problem: &str) -> Option<Option<u64>> {
        let mut written = None;
        log.problem(key, problem, |left_out| written = Some(left_out));
        written
    }

    fn log_of_peers() -> (Arc<ManualClock>, LimitedLog<u32>) {
        let clock = Arc::new(ManualClock::new(0));
        let bounds = LogBounds {
            each: LogRate::FAILURES,
            others: LogRate {
                burst: 1,
                period: Duration::from_secs(10),
            },
            keys_max: 5,
        };
        let log = LimitedLog::new(Arc::clone(&clock) as Arc<dyn Clock>, bounds);
        (clock, log)
    }

    #[test]
    fn each_key_has_its_own_room_and_says_what_was_left_out() {
        let clock = Arc::new(ManualClock::new(0));
        let log = LimitedLog::new(Arc::clone(&clock) as Arc<dyn Clock>, LogBounds::REQUESTS);
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

    #[test]
    fn a_problem_is_logged_once_until_it_is_over_or_another_takes_its_place() {
        let (clock, log) = log_of_peers();
        for problem in ["secret", "list", "secret"] {
            assert_eq!(told(&log, Some(1), problem), Some(None));
            clock.advance(Duration::from_secs(3600));
            assert_eq!(told(&log, Some(1), problem), None);
        }
        assert!(log.forget_last(1) && !log.forget_last(1));
        assert_eq!(told(&log, Some(1), "secret"), Some(None));
    }

    #[test]
    fn a_problem_that_is_over_each_time_has_a_few_lines_and_takes_none_from_others() {
        let (clock, log) = log_of_peers();
        let again = || {
            log.forget_last(1);
            told(&log, Some(1), "malformed")
        };
        assert_eq!((0..1000).filter_map(|_| again()).count(), 10);
        assert_eq!(told(&log, Some(2), "malformed"), Some(None));
        clock.advance(Duration::from_secs(10));
        assert_eq!(again(), Some(Some(990)));
    }

    #[test]
    fn lines_without_a_key_and_keys_without_end_share_one_limit() {
        let (clock, log) = log_of_peers();
        let keys = 0..1000;
        assert_eq!(keys.filter_map(|key| told(&log, Some(key), "a")).count(), 6);
        assert_eq!(lock(&log.limiters).len(), 6);
        assert_eq!(told(&log, None, "b"), None);
        clock.advance(Duration::from_secs(10));
        assert_eq!(told(&log, None, "c"), Some(Some(1)));
        assert_eq!(told(&log, Some(4), "b"), Some(None), "a key from before");
    }
}
