//! When the records of a table expire, in a bounded summary.
//!
//! Bytes are added up by expiry, which is rounded up to a small part of the
//! time that the record had to live, so that nothing counts as expired too
//! early. Where there are too many expiries still, they are rounded to twice as
//! long a time, and so on. The lengths are powers of two: who is rounded twice
//! comes no later than by the longer of the two.

use base::{Entry, Expiry};
use std::collections::BTreeMap;

/// An expiry is late by less than one such part of the time to live.
const PART_OF_TTL: u64 = 128;

/// With more expiries than this they are rounded more.
const EXPIRIES_MAX: usize = 2048;

/// The bytes that expire, by their rounded expiry.
#[derive(Debug)]
pub(super) struct Expiries {
    bytes: BTreeMap<u64, u64>,
    /// What all expiries are multiples of, in milliseconds.
    grain_ms: u64,
}

impl Expiries {
    /// Nothing expires yet.
    pub(super) fn new() -> Self {
        Self {
            bytes: BTreeMap::new(),
            grain_ms: 1,
        }
    }

    /// Counts the bytes of an entry if it expires.
    pub(super) fn add(&mut self, entry: &Entry) {
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
        *self.bytes.entry(rounded_ms).or_default() += entry.data_bytes() as u64;
        while self.bytes.len() > EXPIRIES_MAX {
            self.round_more();
        }
    }

    /// When so many bytes have expired, or a little later; never where fewer expire.
    pub(super) fn when_expired(&self, bytes: u64) -> Expiry {
        let mut expired = 0;
        let mut by_expiry = self.bytes.iter();
        let reaches = by_expiry.find(|(_, bytes_then)| {
            expired += **bytes_then;
            expired >= bytes
        });
        reaches.map_or(Expiry::NEVER, |(unix_ms, _)| Expiry::at_unix_ms(*unix_ms))
    }

    fn round_more(&mut self) {
        self.grain_ms = self.grain_ms.saturating_mul(2);
        for (unix_ms, bytes) in std::mem::take(&mut self.bytes) {
            let rounded_ms = rounded_up(unix_ms, self.grain_ms);
            *self.bytes.entry(rounded_ms).or_default() += bytes;
        }
    }
}

/// The end of time, which is never, where there is no such multiple.
fn rounded_up(unix_ms: u64, grain_ms: u64) -> u64 {
    unix_ms
        .checked_next_multiple_of(grain_ms)
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;

    const WRITTEN_UNIX_MS: u64 = 1_800_000_000_000;

    /// An entry that has so long to live, of so many bytes.
    fn entry(written_ms: u64, ttl_ms: u64, bytes: usize) -> Entry {
        let unix_ms = WRITTEN_UNIX_MS + written_ms;
        let expiry = Expiry::at_unix_ms(unix_ms.saturating_add(ttl_ms));
        let timestamp = Timestamp::from_unix_ms(unix_ms);
        Entry::value(b"k", timestamp, &vec![7; bytes - 1], expiry, 1)
    }

    fn summary<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Expiries {
        let mut summary = Expiries::new();
        for entry in entries {
            summary.add(entry);
        }
        summary
    }

    /// When so many bytes have expired, from all the entries.
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
    fn short_lives_are_told_exactly() {
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
    fn long_lives_are_told_a_part_of_them_late_at_most() {
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
    fn any_lives_are_told_in_bounded_memory_and_never_early() {
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
