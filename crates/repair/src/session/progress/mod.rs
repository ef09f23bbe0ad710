//! How far a full session has come through the store of a node, and when it will be done.

mod rebuild;

pub use rebuild::RebuildProgress;

pub(super) use rebuild::Rebuild;

use std::time::Duration;

/// The part of a store that a session has come past, in bytes of keys and values of all versions in
/// tables, about: what one more pass reads, whatever is in the ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreRead {
    pub(super) bytes: u64,
    /// Of so many.
    pub(super) of_bytes: u64,
}

impl StoreRead {
    /// In thousandths. Only the end is all.
    pub(super) fn permille(self) -> u16 {
        let permille = self.bytes.saturating_mul(1000) / self.of_bytes.max(1);
        permille.min(999) as u16
    }
}

/// How far a session has come through the store of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProgress {
    /// About, in thousandths of the bytes of the store.
    pub position_permille: u16,
    /// How many bytes of the store it comes past in a second, since this node takes part in it;
    /// [`None`] as long as that cannot be told.
    pub bytes_per_second: Option<u64>,
    /// How long it still takes if it goes on as fast; [`None`] as long as that cannot be told.
    pub time_left: Option<Duration>,
}

/// Follows a session, from where this node began to take part in it: an attempt goes on in the
/// middle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    first: (Duration, StoreRead),
    last: (Duration, StoreRead),
}

impl Way {
    /// The session is here, at a time of the monotonic clock.
    pub(super) fn begins_at(now: Duration, read: StoreRead) -> Self {
        Self {
            first: (now, read),
            last: (now, read),
        }
    }

    /// It has come so far.
    pub(super) fn goes_on(&mut self, now: Duration, read: StoreRead) {
        self.last = (now, read);
    }

    /// How far it is; [`None`] for a store without tables.
    pub(super) fn progress(&self) -> Option<SessionProgress> {
        let ((began, first), (now, last)) = (self.first, self.last);
        let came = last.bytes.saturating_sub(first.bytes);
        let took = now.saturating_sub(began);
        let left = last.of_bytes.saturating_sub(last.bytes);
        (last.of_bytes > 0).then(|| SessionProgress {
            position_permille: last.permille(),
            bytes_per_second: rate(came, took),
            time_left: time_left(came, left, took),
        })
    }
}

/// How many a second so many are that came in a time.
pub(super) fn rate(came: u64, took: Duration) -> Option<u64> {
    let seconds = took.as_secs_f64();
    (came > 0 && seconds > 0.0).then(|| (came as f64 / seconds) as u64)
}

/// How long it takes until what is left has come, if it comes as fast as what came in a time.
pub(super) fn time_left(came: u64, left: u64, took: Duration) -> Option<Duration> {
    let times = left as f64 / came as f64;
    (came > 0).then(|| Duration::try_from_secs_f64(took.as_secs_f64() * times).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: u64) -> StoreRead {
        StoreRead {
            bytes,
            of_bytes: 1_000_000,
        }
    }

    #[test]
    fn the_time_left_follows_from_the_bytes_since_an_attempt_has_begun() {
        let second = Duration::from_secs(1);
        // It goes on in the middle.
        let mut way = Way::begins_at(100 * second, at(500_000));
        let expected = SessionProgress {
            position_permille: 500,
            bytes_per_second: None,
            time_left: None,
        };
        assert_eq!(way.progress(), Some(expected));
        way.goes_on(110 * second, at(600_000));
        let expected = SessionProgress {
            position_permille: 600,
            bytes_per_second: Some(10_000),
            time_left: Some(40 * second),
        };
        assert_eq!(way.progress(), Some(expected));
        // Compactions have made the store smaller meanwhile.
        way.goes_on(120 * second, at(400_000));
        assert_eq!(way.progress().unwrap().time_left, None);
        let empty = Way::begins_at(second, StoreRead::default());
        assert_eq!(empty.progress(), None);
    }
}
