//! When tables that could not be read are tried again.

use std::time::Duration;

/// How long tables that could not be read are left out at first, and at most.
/// Each try may read much before it fails.
const UNREADABLE_PAUSE_MIN: Duration = Duration::from_secs(60);
const UNREADABLE_PAUSE_MAX: Duration = Duration::from_secs(3600);

/// When tables that could not be read are tried again.
#[derive(Default)]
pub(in crate::engine::compaction) struct Unreadable {
    /// On the monotonic clock, if there are such tables.
    pub(in crate::engine::compaction) due: Option<Duration>,
    /// How long the last pause was.
    pause: Duration,
}

impl Unreadable {
    /// Notes that a table could not be read.
    pub(in crate::engine::compaction) fn note(&mut self, now: Duration) {
        self.pause = (self.pause * 2).clamp(UNREADABLE_PAUSE_MIN, UNREADABLE_PAUSE_MAX);
        self.due = Some(now.saturating_add(self.pause));
    }

    /// Whether it is time to try again. Says so only once for each pause.
    pub(in crate::engine::compaction) fn is_due(&mut self, now: Duration) -> bool {
        self.due.take_if(|due| now >= *due).is_some()
    }
}
