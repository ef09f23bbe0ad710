//! Times of expiry as text (RFC 3339, UTC).

use jiff::SignedDuration;
use jiff::civil::DateTime;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// The last time that RFC 3339 can write, to the millisecond.
const LAST: DateTime = DateTime::constant(9999, 12, 31, 23, 59, 59, 999_000_000);

/// The time of a millisecond since the Unix epoch, with milliseconds unless it is a whole
/// second. A time after the year 9999, which RFC 3339 cannot write, is written as the last that
/// can be written.
#[must_use]
pub fn of_unix_ms(unix_ms: u64) -> String {
    let since = i64::try_from(unix_ms).map(SignedDuration::from_millis);
    let time = since.ok().and_then(|since| EPOCH.checked_add(since).ok());
    let time = time.unwrap_or(LAST);
    match time.subsec_nanosecond() {
        0 => format!("{time}Z"),
        _ => format!("{time:.3}Z"),
    }
}

/// What is wrong with an `expires` that [`unix_ms_of`] does not know.
pub const NO_TIME: &str = "`expires` is not a time as in RFC 3339, such as 2026-11-22T16:00:00Z";

/// The greatest expiry that a request may give, in milliseconds since the Unix epoch: the
/// range of a timestamp.
const UNIX_MS_MAX: u64 = (1 << 48) - 1;

/// The millisecond since the Unix epoch of a time with any offset; `None` for a text that
/// is none, and for a time before the epoch.
#[must_use]
pub fn unix_ms_of(text: &str) -> Option<u64> {
    let (time, offset) = split(text)?;
    let since_epoch = time.duration_since(EPOCH).checked_sub(offset)?;
    let unix_ms = u64::try_from(since_epoch.as_millis()).ok()?;
    (!since_epoch.is_negative() && unix_ms <= UNIX_MS_MAX).then_some(unix_ms)
}

/// The time that a text names, and how much it is ahead of UTC:
///
/// ```text
/// 2026-11-22T16:00:00.25+01:00    the fraction may be missing; Z stands for +00:00
/// ```
fn split(text: &str) -> Option<(DateTime, SignedDuration)> {
    let (head, rest) = text.split_at_checked(19)?;
    let is_separator = matches!(head.as_bytes()[10], b'T' | b't' | b' ');
    let (date, time) = (head.get(..10)?, head.get(11..)?);
    let is_whole = has_form(date, "0000-00-00") && has_form(time, "00:00:00");
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|sign: char| !sign.is_ascii_digit())?;
            (Some(rest.get(..end)?), rest.get(end..)?)
        }
        None => (None, rest),
    };
    if !is_separator || !is_whole || fraction.is_some_and(str::is_empty) {
        return None;
    }
    // What is finer than a nanosecond is cut off. It also takes the 61st second of a minute,
    // as the one before.
    let fraction: String = fraction.unwrap_or("0").chars().take(9).collect();
    let time: DateTime = format!("{date}T{time}.{fraction}").parse().ok()?;
    Some((time, offset_of(offset)?))
}

fn offset_of(text: &str) -> Option<SignedDuration> {
    if matches!(text, "Z" | "z") {
        return Some(SignedDuration::ZERO);
    }
    let (sign, size) = text.split_at_checked(1)?;
    let sign = match sign {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    if !has_form(size, "00:00") {
        return None;
    }
    let hours: i64 = size.get(..2)?.parse().ok()?;
    let minutes: i64 = size.get(3..)?.parse().ok()?;
    let is_offset = hours < 24 && minutes < 60;
    is_offset.then(|| SignedDuration::from_mins(sign * (hours * 60 + minutes)))
}

/// Whether a text has a digit where the form has one, and else the same signs.
fn has_form(text: &str, form: &str) -> bool {
    let signs = text.bytes().zip(form.bytes());
    let mut same = signs.map(|(sign, form)| match form {
        b'0' => sign.is_ascii_digit(),
        other => sign == other,
    });
    text.len() == form.len() && same.all(|is_same| is_same)
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
            (253_402_300_799_000, "9999-12-31T23:59:59Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
            (1 << 48, "9999-12-31T23:59:59.999Z"),
            (u64::MAX - 1, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(of_unix_ms(unix_ms), text, "{unix_ms}");
        }
    }

    #[test]
    fn a_time_may_have_any_offset() {
        for (text, unix_ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-22T16:00:00Z", Some(1_795_363_200_000)),
            ("2026-11-22T16:00:00.25Z", Some(1_795_363_200_250)),
            ("2026-11-22T17:00:00+01:00", Some(1_795_363_200_000)),
            ("2026-11-22T15:30:00-00:30", Some(1_795_363_200_000)),
            ("2026-11-23T15:59:00+23:59", Some(1_795_363_200_000)),
            ("2026-11-22t16:00:00z", Some(1_795_363_200_000)),
            ("2026-11-22 16:00:00Z", Some(1_795_363_200_000)),
            ("2026-11-22T16:00:00.0009Z", Some(1_795_363_200_000)),
            (
                "2026-11-22T16:00:00.0000000009999Z",
                Some(1_795_363_200_000),
            ),
            ("2026-11-22T16:00:60Z", Some(1_795_363_259_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("9999-12-31T23:59:59.999999999Z", Some(253_402_300_799_999)),
            ("9999-12-31T23:59:59-23:59", Some(253_402_387_139_000)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1970-01-01T00:59:59.999+01:00", None),
            ("1969-12-31T23:59:59Z", None),
            ("1969-12-31T23:59:59.9999Z", None),
            ("2026-11-22T16:00:00+24:00", None),
            ("2026-11-22T16:00:00+25:00", None),
            ("2026-11-22T16:00:00-00:60", None),
            ("2026-11-22T16:00:00+1:00", None),
            ("2026-11-22T16:00:00+0100", None),
            ("2026-11-22T16:00:00+01", None),
            ("2026-11-22T16:00:00+01:00:00", None),
            ("2026-11-22T16:00:00Z[UTC]", None),
            ("2026-11-22T16:00:00.Z", None),
            ("2026-11-22T16:00:00.5", None),
            ("2026-11-22T16:00:61Z", None),
            ("2026-11-22T16:60:00Z", None),
            ("2026-11-22T24:00:00Z", None),
            ("2026-13-22T16:00:00Z", None),
            ("2026-11-22T16:00Z", None),
            ("20261122T160000Z", None),
            ("+002026-11-22T16:00:00Z", None),
            ("2026-11-22T16:00:0\u{e9}Z", None),
            ("10000-01-01T00:00:00Z", None),
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
