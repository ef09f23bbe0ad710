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
        let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let drops = oldest_first.iter().take_while(|place| {
            let segment = segments[**place];
            let age_ms = now_unix_ms.saturating_sub(segment.newest_append_unix_ms);
            let goes = age_ms > self.age_ms_max || bytes > self.bytes_max;
            bytes -= segment.bytes;
            goes
        });
        drops.copied().collect()
    }
}
