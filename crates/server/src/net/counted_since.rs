//! Records since when the node's store counts.

use profile::lock;
use std::sync::Mutex;
use std::time::Duration;

/// Since when the store has counted, as far as anyone has looked.
#[derive(Debug, Default)]
pub(crate) struct CountedSince(Mutex<Option<Duration>>);

impl CountedSince {
    /// For how long it has counted without a break, by those who looked; `counts`: whether it
    /// does now, on the monotonic clock.
    pub(crate) fn duration(&self, counts: bool, now: Duration) -> Duration {
        let mut since = lock(&self.0);
        if counts {
            now.saturating_sub(*since.get_or_insert(now))
        } else {
            *since = None;
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_the_first_look_and_anew_behind_a_break() {
        let since = CountedSince::default();
        for (counts, now, expected) in [
            (true, 5, 0),
            (true, 9, 4),
            (false, 10, 0),
            (true, 12, 0),
            (true, 13, 1),
        ] {
            let lasts = since.duration(counts, Duration::from_secs(now));
            assert_eq!(lasts, Duration::from_secs(expected), "{now}");
        }
    }
}
