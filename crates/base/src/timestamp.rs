//! Timestamps, which order the versions of a key.
//!
//! ```text
//!  63                              20 19          8 7        0
//! +----------------------------------+-------------+----------+
//! | milliseconds since 2020 (UTC)    | counter     | node     |
//! +----------------------------------+-------------+----------+
//! ```
//!
//! The milliseconds last until the year 2577. A node allocates no timestamp twice and puts its own
//! ID into each, so no two writes of a cluster share a timestamp. Only this module knows where
//! the fields are.

use std::fmt;

/// The time of a write from a hybrid logical clock (Kulkarni et al., "Logical Physical
/// Clocks", 2014): milliseconds, a counter, and the ID of the node that issued it.
///
/// The engine compares timestamps but never issues one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

const NODE_BITS: u32 = 8;
const COUNTER_BITS: u32 = 12;
const MS_SHIFT: u32 = NODE_BITS + COUNTER_BITS;
const MS_MAX: u64 = u64::MAX >> MS_SHIFT;

impl Timestamp {
    /// Below every timestamp that a clock issues. As a bound it means "never".
    pub const ZERO: Self = Self(0);
    /// At or above every timestamp.
    pub const MAX: Self = Self(u64::MAX);
    /// The millisecond from which timestamps count, 2020-01-01T00:00:00Z, in
    /// milliseconds since the Unix epoch.
    pub const EPOCH_UNIX_MS: u64 = 1_577_836_800_000;
    /// The greatest counter.
    pub const COUNTER_MAX: u16 = (1 << COUNTER_BITS) - 1;

    /// The timestamp with this number: see [`Timestamp::as_u64`].
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The lowest timestamp of any node in a millisecond since the Unix epoch.
    /// [`Timestamp::ZERO`] for milliseconds before [`Timestamp::EPOCH_UNIX_MS`].
    #[must_use]
    pub const fn from_unix_ms(unix_ms: u64) -> Self {
        Self::new(unix_ms, 0, 0)
    }

    /// The timestamp with these fields. Milliseconds and counters out of range become
    /// the nearest ones in range.
    #[must_use]
    pub const fn new(unix_ms: u64, counter: u16, node: u8) -> Self {
        let ms = unix_ms.saturating_sub(Self::EPOCH_UNIX_MS);
        let ms = if ms < MS_MAX { ms } else { MS_MAX };
        let counter = if counter < Self::COUNTER_MAX {
            counter
        } else {
            Self::COUNTER_MAX
        };
        Self((ms << MS_SHIFT) | ((counter as u64) << NODE_BITS) | node as u64)
    }

    /// The least timestamp of a node that is above this one; [`None`] if there is none.
    /// A counter that overflows carries into the milliseconds.
    #[must_use]
    pub const fn next_of(self, node: u8) -> Option<Self> {
        let node = node as u64;
        let tick = self.0 >> NODE_BITS;
        let tick = if self.node() as u64 >= node {
            tick + 1
        } else {
            tick
        };
        match tick.checked_mul(1 << NODE_BITS) {
            Some(number) => Some(Self(number | node)),
            None => None,
        }
    }

    /// The number by which timestamps are compared, stored and sent.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The milliseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        (self.0 >> MS_SHIFT) + Self::EPOCH_UNIX_MS
    }

    /// The counter that orders the timestamps of one millisecond.
    #[must_use]
    pub const fn counter(self) -> u16 {
        (self.0 >> NODE_BITS) as u16 & Self::COUNTER_MAX
    }

    /// The ID of the node that issued the timestamp: 0 for a node alone, from 1 in a
    /// cluster.
    #[must_use]
    pub const fn node(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = Timestamp::EPOCH_UNIX_MS;

    fn fields(timestamp: Timestamp) -> (u64, u16, u8) {
        (timestamp.unix_ms(), timestamp.counter(), timestamp.node())
    }

    #[test]
    fn the_fields_are_where_the_contract_has_them() {
        let timestamp = Timestamp::new(EPOCH + 5, 3, 7);
        assert_eq!(timestamp.as_u64(), (5 << 20) | (3 << 8) | 7);
        assert_eq!(fields(timestamp), (EPOCH + 5, 3, 7));
        let first = Timestamp::from_unix_ms(EPOCH + 5);
        assert_eq!(first.as_u64(), 5 << 20);
        assert_eq!(fields(Timestamp::ZERO), (EPOCH, 0, 0));
        let last = (EPOCH + (1 << 44) - 1, 4095, 255);
        assert_eq!(fields(Timestamp::MAX), last);
    }

    #[test]
    fn fields_out_of_range_become_the_nearest_in_range() {
        for unix_ms in [0, 1, EPOCH - 1, EPOCH] {
            assert_eq!(Timestamp::from_unix_ms(unix_ms), Timestamp::ZERO);
        }
        let last_ms = Timestamp::MAX.unix_ms();
        for unix_ms in [last_ms, last_ms + 1, u64::MAX] {
            let timestamp = Timestamp::new(unix_ms, u16::MAX, 255);
            assert_eq!(timestamp, Timestamp::MAX);
        }
    }

    #[test]
    fn the_next_timestamp_of_a_node_is_its_least_above() {
        let at = |ms, counter, node| Timestamp::new(EPOCH + ms, counter, node);
        let cases = [
            (Timestamp::ZERO, 0, Some(at(0, 1, 0))),
            (Timestamp::ZERO, 1, Some(at(0, 0, 1))),
            (at(5, 3, 2), 1, Some(at(5, 4, 1))),
            (at(5, 3, 2), 2, Some(at(5, 4, 2))),
            (at(5, 3, 2), 3, Some(at(5, 3, 3))),
            (at(5, 4095, 2), 3, Some(at(5, 4095, 3))),
            (at(5, 4095, 2), 2, Some(at(6, 0, 2))),
            (Timestamp::MAX, 255, None),
            (Timestamp::MAX, 1, None),
        ];
        for (before, node, after) in cases {
            assert_eq!(before.next_of(node), after, "{before} {node}");
        }
        let nearly = Timestamp::from_u64(u64::MAX - 1);
        assert_eq!(nearly.next_of(255), Some(Timestamp::MAX));
    }
}
