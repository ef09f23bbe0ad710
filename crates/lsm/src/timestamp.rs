//! Timestamps: what orders the versions of a key.

use std::fmt;

/// The time of a write: 48 bits of milliseconds since the Unix epoch above 16
/// bits of counter, as a hybrid logical clock gives it (Kulkarni et al.,
/// "Logical Physical Clocks", 2014).
///
/// The engine only compares timestamps; it never makes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Below every timestamp that a clock gives. As a bound it means "never".
    pub const ZERO: Self = Self(0);
    /// At or above every timestamp.
    pub const MAX: Self = Self(u64::MAX);

    /// The timestamp with this number.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The first timestamp of a millisecond since the Unix epoch. Bits of
    /// `unix_ms` past the 48th are cut off.
    #[must_use]
    pub const fn from_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms << 16)
    }

    /// The number by which timestamps are compared, stored and sent.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The milliseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        self.0 >> 16
    }

    /// The counter that orders the timestamps of one millisecond.
    #[must_use]
    pub const fn counter(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
