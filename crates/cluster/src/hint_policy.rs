//! Which hints to give up when there are too many or they are too old.
//!
//! Hints are best effort, so what does not fit goes, the oldest first: it is
//! the likeliest to have been repaired by a read or to be written over. Hints
//! go by the segment, as they are kept.

/// A segment of a log of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintSegment {
    /// Its size.
    pub bytes: u64,
    /// When its newest hint was kept, in milliseconds since the Unix epoch.
    pub newest_append_unix_ms: u64,
}

/// How much is kept in hints, over all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintLimits {
    /// The most bytes.
    pub bytes_max: u64,
    /// The greatest age, in milliseconds.
    pub age_ms_max: u64,
}

impl HintLimits {
    /// The places in `segments`, which are those of all peers, of the ones to
    /// drop, the oldest first; of equally old ones the one that is listed first.
    ///
    /// A segment goes when even its newest hint is too old, and as long as the
    /// rest holds too many bytes.
    #[must_use]
    pub fn to_drop(self, segments: &[HintSegment], now_unix_ms: u64) -> Vec<usize> {
        let mut oldest_first: Vec<usize> = (0..segments.len()).collect();
        oldest_first.sort_by_key(|place| segments[*place].newest_append_unix_ms);
        let sizes = segments.iter().map(|segment| u128::from(segment.bytes));
        let mut bytes: u128 = sizes.sum();
        let drops = oldest_first.iter().take_while(|place| {
            let segment = segments[**place];
            let age_ms = now_unix_ms.saturating_sub(segment.newest_append_unix_ms);
            let goes = age_ms > self.age_ms_max || bytes > u128::from(self.bytes_max);
            bytes -= u128::from(segment.bytes);
            goes
        });
        drops.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HintLimits = HintLimits {
        bytes_max: 100,
        age_ms_max: 1_000,
    };

    #[track_caller]
    fn check(segments: &[(u64, u64)], now_unix_ms: u64, drops: &[usize]) {
        let segment = |(bytes, newest_append_unix_ms): &(u64, u64)| HintSegment {
            bytes: *bytes,
            newest_append_unix_ms: *newest_append_unix_ms,
        };
        let segments: Vec<_> = segments.iter().map(segment).collect();
        assert_eq!(LIMITS.to_drop(&segments, now_unix_ms), drops);
    }

    #[test]
    fn what_fits_stays() {
        check(&[], 5_000, &[]);
        check(&[(60, 4_000), (40, 5_000)], 5_000, &[]);
    }

    #[test]
    fn what_is_too_old_goes() {
        check(&[(1, 4_000), (1, 3_999), (1, 3_000)], 5_000, &[2, 1]);
    }

    #[test]
    fn the_oldest_go_until_the_rest_fits() {
        check(&[(50, 4_900), (50, 4_700), (50, 4_800)], 5_000, &[1]);
        check(&[(50, 4_900), (50, 4_700), (51, 4_800)], 5_000, &[1, 2]);
        check(&[(101, 5_000)], 5_000, &[0]);
        check(&[(u64::MAX, 4_000), (u64::MAX, 5_000)], 5_000, &[0, 1]);
    }

    #[test]
    fn of_equally_old_ones_the_first_goes() {
        check(&[(60, 5_000), (60, 5_000)], 5_000, &[0]);
    }

    #[test]
    fn a_clock_that_went_back_makes_nothing_old() {
        check(&[(60, 9_000), (1, 4_500)], 5_000, &[]);
    }
}
