//! A bounded summary of when the records of a table expire.
//!
//! The summary adds up bytes by expiry. It rounds each expiry up to a multiple of a
//! **grain**, a small part of the record's time to live, so no byte counts as expired
//! too early. If there are still too many different expiries, it rounds all of them
//! to multiples of a grain twice as long, and again until they are few enough. All
//! grains are powers of two, so an expiry that is rounded twice is late by less than
//! the larger grain.

use base::{EntryRef, Expiry};
use std::collections::BTreeMap;

/// An expiry is rounded up by less than the time to live divided by this.
const PART_OF_TTL: u64 = 128;

/// The number of different expiries above which all are rounded further.
const EXPIRIES_MAX: usize = 2048;

/// The bytes that expire, by rounded expiry.
#[derive(Debug)]
pub(super) struct Expiries {
    bytes: BTreeMap<u64, u64>,
    /// All expiries are multiples of this, in milliseconds.
    grain_ms: u64,
}

impl Expiries {
    /// The summary of no records.
    pub(super) fn new() -> Self {
        Self {
            bytes: BTreeMap::new(),
            grain_ms: 1,
        }
    }

    /// Counts an entry of so many bytes if it expires.
    pub(super) fn add(&mut self, entry: EntryRef<'_>, bytes: u64) {
        if entry.expiry() == Expiry::NEVER {
            return;
        }
        let unix_ms = entry.expiry().unix_ms();
        let ttl_ms = unix_ms.saturating_sub(entry.timestamp().unix_ms());
        let own_grain_ms = match (ttl_ms / PART_OF_TTL).checked_ilog2() {
            Some(power) => 1 << power,
            None => 1,
        };
        let rounded_ms = rounded_up(unix_ms, own_grain_ms.max(self.grain_ms));
        *self.bytes.entry(rounded_ms).or_default() += bytes;
        while self.bytes.len() > EXPIRIES_MAX {
            self.coarsen();
        }
    }

    /// When `bytes` bytes have expired, or a little later; [`Expiry::NEVER`] if fewer
    /// bytes expire at all.
    pub(super) fn when_expired(&self, bytes: u64) -> Expiry {
        let mut expired = 0;
        let mut by_expiry = self.bytes.iter();
        let reaches = by_expiry.find(|(_, bytes_then)| {
            expired += **bytes_then;
            expired >= bytes
        });
        reaches.map_or(Expiry::NEVER, |(unix_ms, _)| Expiry::at_unix_ms(*unix_ms))
    }

    fn coarsen(&mut self) {
        self.grain_ms = self.grain_ms.saturating_mul(2);
        for (unix_ms, bytes) in std::mem::take(&mut self.bytes) {
            let rounded_ms = rounded_up(unix_ms, self.grain_ms);
            *self.bytes.entry(rounded_ms).or_default() += bytes;
        }
    }
}

/// The next multiple; the greatest number, which means "never", if there is none.
fn rounded_up(unix_ms: u64, grain_ms: u64) -> u64 {
    unix_ms
        .checked_next_multiple_of(grain_ms)
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Timestamp};

    const WRITTEN_UNIX_MS: u64 = 1_800_000_000_000;

    /// An entry of `bytes` bytes that lives for `ttl_ms`.
    fn entry(written_ms: u64, ttl_ms: u64, bytes: usize) -> Entry {
        let unix_ms = WRITTEN_UNIX_MS + written_ms;
        let expiry = Expiry::at_unix_ms(unix_ms.saturating_add(ttl_ms));
        let timestamp = Timestamp::from_unix_ms(unix_ms);
        Entry::value(b"k", timestamp, &vec![7; bytes - 1], expiry, 1)
    }

    fn summary<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Expiries {
        let mut summary = Expiries::new();
        for entry in entries {
            summary.add(entry.lend(), entry.data_bytes() as u64);
        }
        summary
    }

    /// When `bytes` bytes have expired, computed from all entries.
    fn exactly(sorted: &[Entry], bytes: u64) -> u64 {
        let mut expired = 0;
        let mut entries = sorted.iter();
        let reaches = entries.find(|entry| {
            expired += entry.data_bytes() as u64;
            expired >= bytes
        });
        reaches.unwrap().expiry().unix_ms()
    }

    #[test]
    fn short_times_to_live_are_summed_exactly() {
        let entries = [entry(0, 30, 5), entry(0, 10, 2), entry(0, 20, 2)];
        let endless = entry(0, u64::MAX, 100);
        let summary = summary(entries.iter().chain([&endless]));
        for (bytes, ttl_ms) in [(1, 10), (2, 10), (3, 20), (4, 20), (5, 30), (9, 30)] {
            let expiry = Expiry::at_unix_ms(WRITTEN_UNIX_MS + ttl_ms);
            assert_eq!(summary.when_expired(bytes), expiry);
        }
        assert_eq!(summary.when_expired(10), Expiry::NEVER);
        assert_eq!(Expiries::new().when_expired(1), Expiry::NEVER);
    }

    #[test]
    fn long_times_to_live_are_late_by_a_small_part_at_most() {
        let mut random = fastrand::Rng::with_seed(3);
        let ttls_ms = [1_000, 3_600_000, 30 * 86_400_000];
        for ttl_ms in ttls_ms {
            // Written within a hundredth of their time to live.
            let mut entry = || entry(random.u64(..ttl_ms / 100), ttl_ms, random.usize(1..100));
            let mut entries: Vec<Entry> = (0..5_000).map(|_| entry()).collect();
            let summary = summary(&entries);
            entries.sort_by_key(Entry::expiry);
            for bytes in (1..200_000).step_by(10_000) {
                let late = summary.when_expired(bytes).unix_ms() - exactly(&entries, bytes);
                assert!(late < ttl_ms / PART_OF_TTL, "{ttl_ms}: {late}");
            }
        }
    }

    #[test]
    fn a_summary_is_bounded_and_never_early() {
        let mut random = fastrand::Rng::with_seed(5);
        const YEAR_MS: u64 = 365 * 86_400_000;
        let mut entries: Vec<Entry> = (0..20_000)
            .map(|_| {
                let power = random.u32(1..44);
                let ttl_ms = random.u64(..1 << power);
                entry(random.u64(..YEAR_MS), ttl_ms, random.usize(1..100))
            })
            .collect();
        entries.push(entry(0, u64::MAX - 1 - WRITTEN_UNIX_MS, 10));
        let summary = summary(&entries);
        assert!(summary.bytes.len() <= EXPIRIES_MAX);
        entries.sort_by_key(Entry::expiry);
        let total: u64 = entries.iter().map(|entry| entry.data_bytes() as u64).sum();
        assert_eq!(summary.bytes.values().sum::<u64>(), total);
        for bytes in (1..total).step_by(20_000) {
            assert!(summary.when_expired(bytes).unix_ms() >= exactly(&entries, bytes));
        }
        let half = total / 2;
        let late = summary.when_expired(half).unix_ms() - exactly(&entries, half);
        assert!(late <= YEAR_MS / 100, "{late}");
    }
}
