//! Keeps repeated failures out of the log: on a full disk a flush and a compaction may be tried
//! each second, for days, and many requests may meet one failure.

use crate::sync::lock;
use std::sync::Mutex;
use std::time::Duration;

/// How long a failure that repeats itself stays out of the log.
const REPEATED_EVERY: Duration = Duration::from_secs(60);

/// How many different failures are logged in that time. More name other files, no other trouble.
const DIFFERENT_MAX: usize = 8;

/// The last failures of some work that were logged, each with its text and its time on the
/// monotonic clock.
#[derive(Default)]
pub(super) struct FailureLog(Mutex<Vec<(String, Duration)>>);

impl FailureLog {
    /// Whether to log a failure, which is `text`: it was not logged for a while, and neither
    /// were many others.
    #[must_use]
    pub(super) fn is_news(&self, text: String, now: Duration) -> bool {
        let mut logged = lock(&self.0);
        logged.retain(|(_, at)| now < at.saturating_add(REPEATED_EVERY));
        let is_news = logged.len() < DIFFERENT_MAX && logged.iter().all(|(it, _)| *it != text);
        if is_news {
            logged.push((text, now));
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_failure_is_logged_once_a_minute_unless_it_is_another_one() {
        let log = FailureLog::default();
        let seconds = Duration::from_secs;
        let full = || Error::DiskFull.to_string();
        assert!(log.is_news(full(), seconds(5)));
        for second in 5..65 {
            assert!(!log.is_news(full(), seconds(second)));
        }
        assert!(log.is_news(full(), seconds(65)));
        for number in 1..100 {
            let is_news = log.is_news(number.to_string(), seconds(66));
            assert_eq!(is_news, number < DIFFERENT_MAX, "{number}");
        }
        assert!(!log.is_news(full(), seconds(67)));
    }
}
