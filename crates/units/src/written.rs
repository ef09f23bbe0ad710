//! Sizes and times as people write them in options.
//!
//! Each type parses what an operator writes and displays what it parses: its
//! `Display` is how `--help` shows a default, and parsing that returns the same
//! value. An error is a sentence that says what to write.
//!
//! They are parsed by hand because crates for this are less exact. `bytesize`
//! parses sizes as floating point, accepts sizes beyond 64 bits as the greatest
//! one, and shows one decimal. `humantime` accepts `1month 2h` and shows `90s`
//! as `1m 30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes: `128MiB`, `64KB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// The units of a size, largest first within each family, with their bytes.
const SIZE_UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
    ("", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const RIGHT: &str = "write a size as a whole number with an optional unit, B, KB, MB, GB, \
                             TB, KiB, MiB, GiB or TiB: 128MiB";
        let bytes = scaled(text, &SIZE_UNITS, str::eq_ignore_ascii_case).ok_or(RIGHT)?;
        let bytes = bytes.ok_or("that is more bytes than 64 bits can count")?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for ByteSize {
    /// Writes the largest binary unit that divides the size, or bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS.iter().find(|(name, bytes)| {
            name.ends_with("iB") && self.0 != 0 && self.0.is_multiple_of(*bytes)
        });
        match unit {
            Some((name, bytes)) => write!(f, "{}{name}", self.0 / bytes),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A time of at least 1 ms: `1s`, `500ms`, `2m`, `1h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

/// The units of a time, largest first, with their milliseconds.
const SPAN_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const RIGHT: &str = "write a time as a whole number with the unit ms, s, m, h or d: 500ms";
        match scaled(text, &SPAN_UNITS, str::eq).ok_or(RIGHT)? {
            Some(0) => Err("a time is at least 1ms".to_owned()),
            Some(ms) => Ok(Self(Duration::from_millis(ms))),
            None => Err("that is more milliseconds than 64 bits can count".to_owned()),
        }
    }
}

impl fmt::Display for TimeSpan {
    /// Writes the largest unit that divides the time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms_all = self.0.as_millis();
        for (name, ms) in SPAN_UNITS {
            if ms_all.is_multiple_of(u128::from(ms)) {
                return write!(f, "{}{name}", ms_all / u128::from(ms));
            }
        }
        // One millisecond divides each time, so the loop has returned.
        Ok(())
    }
}

/// The number in a text such as `128MiB`, times its unit. The outer [`None`] stands for a text
/// that is no number with one of the units, the inner one for more than 64 bits can count.
fn scaled(
    text: &str,
    units: &[(&str, u64)],
    is_same: fn(&str, &str) -> bool,
) -> Option<Option<u64>> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return None;
    }
    let (_, factor) = units.iter().find(|(name, _)| is_same(name, unit))?;
    let number = number.parse::<u64>().ok();
    Some(number.and_then(|number| number.checked_mul(*factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table = [
            ("0", 0),
            ("4096", 4096),
            ("1B", 1),
            ("64KB", 64_000),
            ("64KiB", 65_536),
            ("128MiB", 128 << 20),
            ("128mib", 128 << 20),
            ("3GB", 3_000_000_000),
            ("2TiB", 2 << 40),
        ];
        for (text, bytes) in table {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in [
            "", "MiB", "-1", "1.5GiB", "12x", "1 MiB", "1e3MiB", "1MiBs", "0x10",
        ] {
            let refused = text.parse::<ByteSize>().unwrap_err();
            assert!(refused.contains("whole number"), "{text}: {refused}");
        }
        for text in [
            "99999999TiB",
            "18446744073709551616",
            "99999999999999999999B",
        ] {
            let refused = text.parse::<ByteSize>().unwrap_err();
            assert!(refused.contains("64 bits"), "{text}: {refused}");
        }
    }

    #[test]
    fn spans() {
        let table = [
            ("1ms", 1),
            ("500ms", 500),
            ("1s", 1_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ];
        for (text, ms) in table {
            assert_eq!(
                text.parse(),
                Ok(TimeSpan(Duration::from_millis(ms))),
                "{text}"
            );
        }
        for text in ["", "1", "0s", "-1s", "1.5s", "1 s", "1w", "1e3s", "1M"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        for text in ["99999999999999999h", "99999999999999999999ms"] {
            let refused = text.parse::<TimeSpan>().unwrap_err();
            assert!(refused.contains("64 bits"), "{text}: {refused}");
        }
    }

    #[test]
    fn a_displayed_value_parses_to_itself() {
        for bytes in [0, 1, 1_000, 1 << 10, 5 << 20, (1 << 30) + 1, u64::MAX] {
            let size = ByteSize(bytes);
            assert_eq!(size.to_string().parse(), Ok(size), "{size}");
        }
        for ms in [1, 999, 1_000, 1_500, 60_000, 3_600_000, 86_400_000] {
            let span = TimeSpan(Duration::from_millis(ms));
            assert_eq!(span.to_string().parse(), Ok(span), "{span}");
        }
    }
}
