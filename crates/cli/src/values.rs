//! Values of options: choices, and numbers within bounds. An error is a sentence that says what
//! to write. The bounds of numbers in clap refuse with `0 is not in 1..=255`.

use clap::ValueEnum;
use cluster::{Member, MemberError, NodeUrl, NodeUrlError};
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

pub use units::{ByteSize, TimeSpan};

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

/// Returns a parser of numbers from `least` on.
pub fn count_from(
    least: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| format!("write a whole number, at least {least}"))
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

/// Parses the time after which a value expires, in whole seconds: `300` or `5m`.
pub fn ttl(text: &str) -> Result<u64, String> {
    let seconds = text.parse().ok().or_else(|| {
        let span: TimeSpan = text.parse().ok()?;
        (span.0.subsec_nanos() == 0).then_some(span.0.as_secs())
    });
    let seconds = seconds.filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| "write whole seconds, such as 300, or a time: 5m, 12h, 30d".to_owned())
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
    if text.contains(',') {
        return Err("it names several nodes: name one".to_owned());
    }
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

#[cfg(test)]
mod tests;
