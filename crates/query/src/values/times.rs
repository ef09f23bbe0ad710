//! Times and durations, in microseconds.

use jiff::Timestamp;

/// The time that a text names (RFC 3339), in microseconds since the Unix epoch.
pub(crate) fn time_of(text: &str) -> Option<i64> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_microsecond())
}

/// A time as text (RFC 3339, UTC).
pub(crate) fn text_of(time: i64) -> Option<String> {
    Some(Timestamp::from_microsecond(time).ok()?.to_string())
}

/// The duration that a text names: numbers with units, such as `1h30m` or `-1.5s`.
pub(crate) fn duration_of(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !sign.is_ascii_digit() && sign != '.')?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        let unit = rest.get(end..)?;
        let units = [
            ("ms", 1e3),
            ("us", 1.0),
            ("ns", 1e-3),
            ("h", 3600e6),
            ("m", 60e6),
            ("s", 1e6),
        ];
        let (name, size) = units.iter().find(|(name, _)| unit.starts_with(name))?;
        let part = (number * size).round();
        // Beyond 2^53 microseconds, which are 285 years, they are not exact any more.
        if part >= 9e15 {
            return None;
        }
        sum = sum.checked_add(part as i64)?;
        rest = unit.get(name.len()..)?;
    }
    Some(sign * sum)
}
