//! Formats figures for people: `812 us`, `29,997/s`, `99.99%`, `12.3 MiB`.
//!
//! The terminal, pages and plots share one format for each kind of figure.
//! Figures in text and tables have three significant digits; ticks of an axis
//! have no trailing zeros. A value that is not a number is a dash.

/// The text for a missing figure.
pub const NONE: &str = "–";

/// A latency, given in milliseconds: `0.8 us`, `812 us`, `1.63 ms`, `32.1 ms`, `3.60 s`.
pub fn latency(ms: f64) -> String {
    let (value, unit) = in_unit_of_time(ms);
    match three_digits(value) {
        Some(digits) => format!("{digits} {unit}"),
        None => NONE.to_owned(),
    }
}

/// A whole number with separated thousands: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of things: `1 node`, `1,234 nodes`.
pub fn counted(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        number => format!("{} {thing}s", count(number)),
    }
}

/// A rate per second: `29,997/s`, or `0.4/s` for a low one.
pub fn rate(per_second: f64) -> String {
    if !per_second.is_finite() {
        return NONE.to_owned();
    }
    if per_second.abs() < 100.0 {
        return format!("{}/s", trimmed(&format!("{per_second:.2}")));
    }
    // A cast from a float saturates, so an absurd rate is only shown as
    // absurdly large.
    format!("{}/s", count(per_second.round() as u64))
}

/// Bytes: `512 B`, `12.3 MiB`.
pub fn bytes(bytes: f64) -> String {
    let (value, unit) = in_unit_of_bytes(bytes);
    if unit == "B" && value.fract() == 0.0 {
        return format!("{value} B");
    }
    match three_digits(value) {
        Some(digits) => format!("{digits} {unit}"),
        None => NONE.to_owned(),
    }
}

/// A share of one as a percentage, with enough digits to show its distance from
/// 0% or 100%: `12.3%`, `99.99%`, `0.0098%`.
pub fn share(share: f64) -> String {
    if !share.is_finite() {
        return NONE.to_owned();
    }
    let to_the_edge = share.abs().min((1.0 - share).abs());
    let decimals = match to_the_edge {
        0.0 => 0,
        edge if edge < 0.000_1 => 4,
        edge if edge < 0.01 => 2,
        _ => 1,
    };
    format!("{}%", trimmed(&format!("{:.decimals$}", share * 100.0)))
}

/// A percentile from 0 to 100: `50%`, `99.9%`.
pub fn percentile(percentile: f64) -> String {
    if !percentile.is_finite() {
        return NONE.to_owned();
    }
    format!("{}%", trimmed(&format!("{percentile:.6}")))
}

/// Seconds of a run: `30 s`, `2.5 s`.
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NONE.to_owned();
    }
    format!("{} s", trimmed(&format!("{seconds:.1}")))
}

/// A time, roughly: `45s`, `12m`, `3h`, `9d`.
pub fn rough_span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A time in milliseconds since 1970: `2026-11-22 17:36:05 UTC`. 0 stands for
/// an unknown time and is a dash.
pub fn moment(unix_ms: u64) -> String {
    if unix_ms == 0 {
        return NONE.to_owned();
    }
    let seconds = unix_ms / 1_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The year, month and day of a day since 1970, after Howard Hinnant's
/// `civil_from_days`: its years begin in March, so that a leap day is the last
/// day of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    let since_0 = days + 719_468;
    let era = since_0 / 146_097;
    let of_era = since_0 % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// The unit of an axis, which decides how its ticks are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Plain numbers: `64`, `10k`.
    Count,
    /// Events per second: `10k/s`.
    PerSecond,
    /// Latencies, in milliseconds: `10 us`, `1 ms`, `1 s`.
    Milliseconds,
    /// A time or a duration, in seconds: `30 s`.
    Seconds,
    /// Bytes, counted in powers of 1,024: `64 KiB`.
    Bytes,
    /// A share of one: `99%`.
    Share,
    /// A percentile, from 0 to 100: `99.9%`.
    Percentile,
}

impl Unit {
    /// The text of a tick, without trailing zeros.
    pub fn tick(self, value: f64) -> String {
        match self {
            _ if value == 0.0 => "0".to_owned(),
            Self::Count => compact(value),
            Self::PerSecond => format!("{}/s", compact(value)),
            Self::Milliseconds => {
                let (value, unit) = in_unit_of_time(value);
                format!("{} {unit}", compact(value))
            }
            Self::Seconds => format!("{} s", compact(value)),
            Self::Bytes => {
                let (value, unit) = in_unit_of_bytes(value);
                format!("{} {unit}", compact(value))
            }
            Self::Share => format!("{}%", compact(value * 100.0)),
            Self::Percentile => percentile(value),
        }
    }

    /// The text of a measured value, with three significant digits.
    pub fn figure(self, value: f64) -> String {
        match self {
            Self::Count => rounded(value),
            Self::PerSecond => format!("{}/s", rounded(value)),
            Self::Milliseconds => latency(value),
            Self::Seconds => format!("{} s", rounded(value)),
            Self::Bytes => bytes(value),
            Self::Share => share(value),
            Self::Percentile => percentile(value),
        }
    }
}

/// A short text of a number with at most three significant digits: `0.5`, `64`,
/// `29.9k`.
fn rounded(value: f64) -> String {
    if value == 0.0 || !value.is_finite() || value.abs() >= 1e18 {
        return compact(value);
    }
    let digits = 10f64.powf(value.abs().log10().floor() - 2.0);
    compact((value / digits).round() * digits)
}

/// A short text of a number: `0.5`, `64`, `10k`, `2.5M`.
fn compact(value: f64) -> String {
    const PREFIXES: [(f64, &str); 5] =
        [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let size = value.abs();
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if size >= 1e18 || (size < 1e-3 && size > 0.0) {
        return format!("{value:.0e}");
    }
    // Below ten thousand the plain number is as short, and easier to read.
    let (scaled, prefix) = PREFIXES
        .into_iter()
        .find(|(least, _)| size >= *least && size >= 1e4)
        .map_or((value, ""), |(least, prefix)| (value / least, prefix));
    format!("{}{prefix}", trimmed(&format!("{scaled:.4}")))
}

fn in_unit_of_time(ms: f64) -> (f64, &'static str) {
    match ms.abs() {
        0.0 => (0.0, "ms"),
        // A value that would be rounded up to 1,000 of a unit is written in the
        // next one.
        size if size < 0.999_5 => (ms * 1_000.0, "us"),
        size if size < 999.5 => (ms, "ms"),
        _ => (ms / 1_000.0, "s"),
    }
}

fn in_unit_of_bytes(bytes: f64) -> (f64, &'static str) {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    (value, UNITS[unit])
}

/// Three significant digits, or all digits before the point; none for a value
/// that is not a number.
fn three_digits(value: f64) -> Option<String> {
    let text = match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 1e15 => format!(
            "{}{}",
            if value < 0.0 { "-" } else { "" },
            count(size.round() as u64)
        ),
        size if size.is_finite() => format!("{value:.2e}"),
        _ => return None,
    };
    Some(text)
}

/// Removes trailing zeros of a fraction.
fn trimmed(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let cases = [
            (0.0, "0 ms"),
            (0.000_8, "0.80 us"),
            (0.812, "812 us"),
            (0.999_6, "1.00 ms"),
            (1.634, "1.63 ms"),
            (32.06, "32.1 ms"),
            (999.7, "1.00 s"),
            (3_600.0, "3.60 s"),
            (1e9, "1,000,000 s"),
            (f64::MAX, "1.80e305 s"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ];
        for (ms, text) in cases {
            assert_eq!(latency(ms), text, "{ms} ms");
        }
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(8_589_934_592.0), "8.00 GiB");
        assert_eq!(bytes(12_345_678.0), "11.8 MiB");
        assert_eq!(bytes(f64::NAN), NONE);
    }

    #[test]
    fn counts_and_rates_separate_thousands() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(counted(1, "node"), "1 node");
        assert_eq!(counted(2_000, "node"), "2,000 nodes");
        assert_eq!(rate(29_996.7), "29,997/s");
        assert_eq!(rate(0.4), "0.4/s");
        assert_eq!(rate(f64::NAN), NONE);
    }

    #[test]
    fn shares_show_their_distance_from_0_and_100_percent() {
        let cases = [
            (0.0, "0%"),
            (1.0, "100%"),
            (0.123_4, "12.3%"),
            (0.999_9, "99.99%"),
            (0.000_098, "0.0098%"),
            (1.02, "102%"),
            (f64::NAN, NONE),
        ];
        for (value, text) in cases {
            assert_eq!(share(value), text, "{value}");
        }
        assert_eq!(percentile(50.0), "50%");
        assert_eq!(percentile(99.999), "99.999%");
    }

    #[test]
    fn rough_spans_are_short() {
        for (seconds, short) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7199, "119m"),
            (7200, "2h"),
            (172_800, "2d"),
        ] {
            assert_eq!(rough_span(seconds), short);
        }
    }

    #[test]
    fn times_are_written_with_their_date() {
        for (unix_ms, text) in [
            (0, NONE),
            (1, "1970-01-01 00:00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199_000, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200_000, "2024-03-01 00:00:00 UTC"),
            (1_798_761_599_000, "2026-12-31 23:59:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(unix_ms), text, "{unix_ms}");
        }
        assert!(
            moment(u64::MAX).starts_with("584556019-"),
            "{}",
            moment(u64::MAX)
        );
    }

    #[test]
    fn ticks_have_no_trailing_zeros() {
        let cases = [
            (Unit::Milliseconds, 0.01, "10 us"),
            (Unit::Milliseconds, 1.0, "1 ms"),
            (Unit::Milliseconds, 1_000.0, "1 s"),
            (Unit::Milliseconds, 2.5, "2.5 ms"),
            (Unit::PerSecond, 10_000.0, "10k/s"),
            (Unit::PerSecond, 2_500.0, "2500/s"),
            (Unit::Count, 2_500_000.0, "2.5M"),
            (Unit::Count, 1e20, "1e20"),
            (Unit::Bytes, 65_536.0, "64 KiB"),
            (Unit::Seconds, 30.0, "30 s"),
            (Unit::Share, 0.99, "99%"),
            (Unit::Percentile, 99.9, "99.9%"),
            (Unit::Count, 0.0, "0"),
        ];
        for (unit, value, text) in cases {
            assert_eq!(unit.tick(value), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn figures_of_bars_are_short() {
        assert_eq!(Unit::PerSecond.figure(29_946.3), "29.9k/s");
        assert_eq!(Unit::Count.figure(1_234_567.0), "1.23M");
        assert_eq!(Unit::Count.figure(0.0), "0");
        assert_eq!(Unit::Count.figure(0.123_45), "0.123");
        assert_eq!(Unit::Seconds.figure(9.876), "9.88 s");
        assert_eq!(Unit::Milliseconds.figure(0.68), "680 us");
    }
}
