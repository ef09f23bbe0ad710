//! Keeps repeated failures of background work out of the log: on a full disk a flush and a
//! compaction may be tried each second, for days.

use crate::sync::lock;
use std::sync::Mutex;
use std::time::Duration;

/// How long a failure that repeats itself stays out of the log.
const REPEATED_EVERY: Duration = Duration::from_secs(60);

/// The last failure of some work that was logged.
#[derive(Default)]
pub(super) struct FailureLog(Mutex<Option<LoggedFailure>>);

struct LoggedFailure {
    text: String,
    /// On the monotonic clock.
    logged: Duration,
}

impl FailureLog {
    /// Whether to log a failure, which is `text`: it is another one than the last, or that was
    /// logged a while ago.
    #[must_use]
    pub(super) fn is_news(&self, text: String, now: Duration) -> bool {
        let mut last = lock(&self.0);
        if let Some(last) = &*last
            && last.text == text
            && now < last.logged.saturating_add(REPEATED_EVERY)
        {
            return false;
        }
        *last = Some(LoggedFailure { text, logged: now });
        true
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
        assert!(log.is_news("another".to_owned(), seconds(66)));
        assert!(log.is_news(full(), seconds(67)));
    }
}
