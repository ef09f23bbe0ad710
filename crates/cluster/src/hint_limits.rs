//! Decides which hints to drop when there are too many or they are too old.
//!
//! Hints are best effort, so a node drops those that do not fit. It drops the oldest first, because
//! a read has most likely repaired them, or a write replaced them. Hints are kept and dropped in
//! segments.

/// A segment of a log of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintSegment {
    /// Its size.
    pub bytes: u64,
    /// When its newest hint was kept, in milliseconds since the Unix epoch.
    pub newest_append_unix_ms: u64,
}

/// The limits of the hints for all peers together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintLimits {
    /// How many bytes the segments may have.
    pub bytes_max: u64,
    /// How old a hint may be, in milliseconds.
    pub age_ms_max: u64,
}

impl HintLimits {
    /// The segments to drop, oldest first, as indexes into `segments`, which lists the
    /// segments of all peers. Of two equally old segments the first one is dropped first.
    ///
    /// A segment is dropped if even its newest hint is too old, or while the
    /// remaining segments have too many bytes.
    #[must_use]
    pub fn to_drop(self, segments: &[HintSegment], now_unix_ms: u64) -> Vec<usize> {
        let mut oldest_first: Vec<usize> = (0..segments.len()).collect();
        oldest_first.sort_by_key(|index| segments[*index].newest_append_unix_ms);
        let sizes = segments.iter().map(|segment| u128::from(segment.bytes));
        let mut bytes: u128 = sizes.sum();
        let drops = oldest_first.iter().take_while(|index| {
            let segment = segments[**index];
            let age_ms = now_unix_ms.saturating_sub(segment.newest_append_unix_ms);
            let is_dropped = age_ms > self.age_ms_max || bytes > u128::from(self.bytes_max);
            bytes -= u128::from(segment.bytes);
            is_dropped
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
    fn segments_within_the_limits_stay() {
        check(&[], 5_000, &[]);
        check(&[(60, 4_000), (40, 5_000)], 5_000, &[]);
    }

    #[test]
    fn segments_that_are_too_old_are_dropped() {
        check(&[(1, 4_000), (1, 3_999), (1, 3_000)], 5_000, &[2, 1]);
    }

    #[test]
    fn the_oldest_are_dropped_until_the_rest_fits() {
        check(&[(50, 4_900), (50, 4_700), (50, 4_800)], 5_000, &[1]);
        check(&[(50, 4_900), (50, 4_700), (51, 4_800)], 5_000, &[1, 2]);
        check(&[(101, 5_000)], 5_000, &[0]);
        check(&[(u64::MAX, 4_000), (u64::MAX, 5_000)], 5_000, &[0, 1]);
    }

    #[test]
    fn of_equally_old_segments_the_first_is_dropped() {
        check(&[(60, 5_000), (60, 5_000)], 5_000, &[0]);
    }

    #[test]
    fn after_a_step_back_of_the_clock_nothing_is_old() {
        check(&[(60, 9_000), (1, 4_500)], 5_000, &[]);
    }
}
