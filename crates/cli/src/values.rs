//! Values of options: sizes, times and choices.
//!
//! Each type parses what an operator writes and displays what it parses: its
//! `Display` is how `--help` shows a default, and parsing that returns the same
//! value. An error is a sentence that says what to write.
//!
//! They are parsed by hand because crates for this are less exact. `bytesize`
//! parses sizes as floating point, accepts sizes beyond 64 bits as the greatest
//! one, and shows one decimal. `humantime` accepts `1month 2h` and shows `90s`
//! as `1m 30s`. The bounds of numbers in clap refuse with `0 is not in
//! 1..=255`.

use clap::ValueEnum;
use cluster::{Member, MemberError, NodeUrl, NodeUrlError};
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
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

/// How often something happens: `10m`, or `off` for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalOption(pub Option<Duration>);

impl fmt::Display for IntervalOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(interval) => TimeSpan(interval).fmt(f),
            None => f.write_str("off"),
        }
    }
}

/// How many replicas must answer, out of how many: `2/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicasOption(pub cluster::Replicas);

impl FromStr for ReplicasOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text.split_once('/').and_then(|(ack, from)| {
            let ack = ack.parse().ok()?;
            let from = from.parse().ok()?;
            cluster::Replicas::new(ack, from)
        });
        match pair {
            Some(pair) => Ok(Self(pair)),
            None => Err("write ACK/FROM, two whole numbers with 1 <= ACK <= FROM: 2/3".to_owned()),
        }
    }
}

/// Returns a parser of numbers within bounds.
pub fn count<N>(
    bounds: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + fmt::Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| bounds.contains(number));
        let (least, most) = (bounds.start(), bounds.end());
        number.ok_or_else(|| format!("write a whole number from {least} to {most}"))
    }
}

/// Returns a parser of sizes within bounds, in bytes.
pub fn size(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<ByteSize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let size: ByteSize = text.parse()?;
        let (least, most) = (ByteSize(*bounds.start()), ByteSize(*bounds.end()));
        if_within(bounds.contains(&size.0), size, least, most)
    }
}

/// Returns a parser of times within bounds.
pub fn span(
    bounds: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<TimeSpan, String> + Clone + Send + Sync + 'static {
    move |text| {
        let span: TimeSpan = text.parse()?;
        let (least, most) = (TimeSpan(*bounds.start()), TimeSpan(*bounds.end()));
        if_within(bounds.contains(&span.0), span, least, most)
    }
}

/// Returns a parser of intervals: times within bounds, or `off`.
pub fn interval(
    bounds: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<IntervalOption, String> + Clone + Send + Sync + 'static {
    let span = span(bounds);
    move |text| match text {
        "off" => Ok(IntervalOption(None)),
        _ => match span(text) {
            Ok(interval) => Ok(IntervalOption(Some(interval.0))),
            Err(problem) => Err(format!("{problem}, or off")),
        },
    }
}

/// The value, or a refusal that names its bounds.
fn if_within<T: fmt::Display>(is_within: bool, value: T, least: T, most: T) -> Result<T, String> {
    is_within
        .then_some(value)
        .ok_or_else(|| format!("give {least} to {most}"))
}

/// Parses the URL of a node.
pub fn url(text: &str) -> Result<NodeUrl, String> {
    let url = text
        .parse()
        .map_err(|error: NodeUrlError| error.to_string())?;
    with_port(&url)?;
    Ok(url)
}

/// Parses a node of a cluster: `URL` or `NAME=URL`.
pub fn member(text: &str) -> Result<Member, String> {
    let member: Member = text
        .parse()
        .map_err(|error: MemberError| error.to_string())?;
    with_port(member.url())?;
    Ok(member)
}

/// Refuses port 0, because other nodes and clients could not know the real
/// port.
fn with_port(url: &NodeUrl) -> Result<(), String> {
    match url.port() {
        0 => Err(format!("{url} has port 0: give the port that clients use")),
        _ => Ok(()),
    }
}

/// Parses the name of a node.
pub fn name(text: &str) -> Result<String, String> {
    Member::check_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// Parses an address to listen on.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port: 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080".to_owned()
    })
}

/// `on` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "help would repeat the names as sentences")]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// `On` for `true`.
    pub fn from_bool(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
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
mod tests;
