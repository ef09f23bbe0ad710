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
}
