//! Times of expiry as text (RFC 3339, UTC).

use base::Expiry;
use jiff::Timestamp;

/// The time of an expiry, with milliseconds unless it is a whole second; `None` for one
/// that never comes. A time after the year 9999, which RFC 3339 cannot write, is written as
/// the last that can be written.
pub(crate) fn of_expiry(expiry: Expiry) -> Option<String> {
    if expiry == Expiry::NEVER {
        return None;
    }
    let unix_ms = i64::try_from(expiry.unix_ms()).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::MAX);
    Some(match time.subsec_nanosecond() {
        0 => time.to_string(),
        _ => format!("{time:.3}"),
    })
}

/// The greatest expiry that a request may give, in milliseconds since the Unix epoch: the
/// range of a timestamp.
const UNIX_MS_MAX: u64 = (1 << 48) - 1;

/// The millisecond since the Unix epoch of a time with any offset; `None` for a text that
/// is none, and for a time before the epoch or out of range.
pub(crate) fn unix_ms_of(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    let unix_ms = u64::try_from(time.as_millisecond()).ok()?;
    (unix_ms <= UNIX_MS_MAX).then_some(unix_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_milliseconds_unless_it_is_a_whole_second() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_795_363_200_000, "2026-11-22T16:00:00Z"),
            (1_795_363_200_001, "2026-11-22T16:00:00.001Z"),
            (1_795_363_200_120, "2026-11-22T16:00:00.120Z"),
            (1 << 48, "9999-12-30T22:00:00.999Z"),
            (u64::MAX - 1, "9999-12-30T22:00:00.999Z"),
        ] {
            let expiry = Expiry::at_unix_ms(unix_ms);
            assert_eq!(of_expiry(expiry).as_deref(), Some(text), "{unix_ms}");
        }
        assert_eq!(of_expiry(Expiry::NEVER), None);
    }

    #[test]
    fn a_time_may_have_any_offset() {
        for (text, unix_ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-22T16:00:00Z", Some(1_795_363_200_000)),
            ("2026-11-22T16:00:00.25Z", Some(1_795_363_200_250)),
            ("2026-11-22T17:00:00+01:00", Some(1_795_363_200_000)),
            ("2026-11-22t16:00:00z", Some(1_795_363_200_000)),
            ("2026-11-22T16:00:00.0009Z", Some(1_795_363_200_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-11-22", None),
            ("2026-11-22T16:00:00", None),
            ("2026-02-30T16:00:00Z", None),
            ("1795363200000", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(unix_ms_of(text), unix_ms, "{text}");
        }
    }
}
