//! `kvorum admin check`: what would keep a node from starting, or from working with the others, before it
//! is started. The steps are those of a start; only the other nodes are asked here, as a client asks
//! them, because a node that has not started has no links.

use super::{check_folder, check_memory, options::ServeOptions};
use crate::failure::Failure;
use crate::files;
use crate::logging::{self, LogLevel, LogOptions};
use crate::option_sources::Parsed;
use crate::resources;
use crate::stdout::print_lines;
use client::{Limits, Node, SingleRequest, SingleResponse};
use cluster::{Member, NodeUrl};
use jiff::fmt::rfc2822;
use server::{Outcome, Seams, Server, ServerConfig};
use std::time::Duration;
use tls::NodeTls;
use units::{Columns, TimeSpan, lines_of};

/// How long another node may take to answer.
const PEER_MAX: Duration = Duration::from_secs(5);

/// What a date of HTTP leaves open, and an answer takes.
const DATE_PRECISION: Duration = Duration::from_secs(2);

/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 16;

/// A line of the report: how something is, what it is, and more of it.
type Line = [String; 3];

/// How something is.
const FINE: &str = "ok";
const WARNING: &str = "warning";
const REFUSAL: &str = "wrong";

/// Checks what the node that `options` describe needs, and prints it.
///
/// # Errors
/// What keeps the node from starting; another node whose certificate or clock is wrong, or by which
/// this one's are.
pub(crate) fn run<P>(options: &ServeOptions, parsed: &Parsed<P>) -> Result<(), Failure> {
    let config = options
        .server_config(&files::read)
        .and_then(|config| check_folder(&config.node.data).map(|()| config))
        .map_err(|error| parsed.refuse(&error))?;
    let memory = check_memory(config.memory_bytes, resources::memory_bytes_of_system())
        .map_err(|error| parsed.refuse(&error))?;
    let log = LogOptions {
        level: LogLevel::Warn,
        ..options.log
    };
    logging::install(log, None).map_err(|error| Failure::failed(error.to_string()))?;
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |how: &str, what: &str, more: &str| {
        lines.push([how.to_owned(), what.to_owned(), more.to_owned()]);
    };
    for warning in &parsed.warnings {
        add(WARNING, "environment", warning);
    }
    if let Some(warning) = &memory {
        add(WARNING, "memory", warning);
    }
    let seams = Seams::real().map_err(|error| Failure::failed(error.to_string()))?;
    let found = Server::check(config.clone(), &seams);
    for checked in &found.checked {
        match &checked.outcome {
            Outcome::Fine(more) => add(FINE, checked.what, more),
            Outcome::Warning(more) => add(WARNING, checked.what, more),
            Outcome::Refusal(error) => add(REFUSAL, checked.what, &error.to_string()),
        }
    }
    let now = || Duration::from_millis(seams.clock.unix_ms());
    for (name, url) in others(&config) {
        let (how, more) = match ask(url, found.tls.as_deref()) {
            Asked::Answered(answer) => clock_of(&answer, now(), config.node.clock_drift_max),
            Asked::Absent => (FINE, format!("it does not answer at {url}, or not yet")),
            Asked::Failed(problem) => (REFUSAL, problem),
        };
        add(how, name, &more);
    }
    let wrong = lines.iter().filter(|[how, ..]| how == REFUSAL).count();
    print_lines(lines_of(Columns::Left, &lines))?;
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::failed(format!(
            "{} wrong: correct that, then start the node",
            if wrong == 1 {
                "one line is".to_owned()
            } else {
                format!("{wrong} lines are")
            }
        ))),
    }
}

/// The other nodes that this one is told of, with their names.
fn others(config: &ServerConfig) -> impl Iterator<Item = (&str, &NodeUrl)> {
    let members = config.node.members.others();
    let members = members.map(|(_, member): (_, &Member)| (member.name(), member.url()));
    members.chain(config.node.join.iter().map(|url| ("join", url)))
}

/// What came of asking another node.
enum Asked {
    Answered(SingleResponse),
    /// It is not there, as at the first start of a cluster.
    Absent,
    Failed(String),
}

/// Asks another node whether it is there.
fn ask(url: &NodeUrl, tls: Option<&NodeTls>) -> Asked {
    let mut node = Node::new(url.host(), url.port());
    if url.is_https()
        && let Some(config) = tls.and_then(NodeTls::client)
    {
        node = match node.with_tls(config) {
            Ok(node) => node,
            Err(error) => return Asked::Failed(error.to_string()),
        };
    }
    let asked = SingleRequest {
        method: "GET",
        target: "/health/live",
        headers: &[],
        limits: Limits {
            connect_max: PEER_MAX,
            silence_max: PEER_MAX,
        },
        bytes_max: ANSWER_BYTES_MAX,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Asked::Failed(error.to_string()),
    };
    match runtime.block_on(client::fetch(&node, &asked)) {
        Ok(answer) => Asked::Answered(answer),
        Err(client::Error::Unreachable { .. } | client::Error::Silent { .. }) => Asked::Absent,
        Err(error) => Asked::Failed(error.to_string()),
    }
}

/// How the clock of a node that has answered differs from this one, which says `now` since 1970.
fn clock_of(answer: &SingleResponse, now: Duration, drift_max: Duration) -> (&'static str, String) {
    let at = rfc2822::parse(&answer.date).ok();
    let at = at.and_then(|at| u64::try_from(at.timestamp().as_second()).ok());
    let Some(at) = at.map(Duration::from_secs) else {
        return (WARNING, "it answers, and not as a node does".to_owned());
    };
    let apart = at.abs_diff(now);
    if apart <= DATE_PRECISION {
        return (
            FINE,
            "it answers, and its clock shows the same time".to_owned(),
        );
    }
    let apart_s = Duration::from_secs(apart.as_secs());
    let how = if apart > drift_max { REFUSAL } else { WARNING };
    let which = if at > now { "ahead of" } else { "behind" };
    let more = format!(
        "its clock is {} {which} this one: have both take the time from NTP (--clock-drift-max is {})",
        TimeSpan(apart_s),
        TimeSpan(drift_max)
    );
    (how, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_apart_are_told_and_wrong_beyond_the_bound() {
        let answer = |date: &str| SingleResponse {
            status: 200,
            media_type: String::new(),
            date: date.to_owned(),
            body: Vec::new(),
        };
        let drift_max = Duration::from_secs(60);
        let date = "Mon, 30 Nov 2026 07:00:00 GMT";
        let at = Duration::from_secs(1_796_022_000);
        for (now, how, words) in [
            (at, FINE, "same time"),
            (at + Duration::from_millis(1900), FINE, "same time"),
            (at + Duration::from_secs(5), WARNING, "5s behind"),
            (at - Duration::from_secs(60), WARNING, "1m ahead of"),
            (at + Duration::from_secs(3600), REFUSAL, "1h behind"),
        ] {
            let found = clock_of(&answer(date), now, drift_max);
            assert_eq!(found.0, how, "{now:?}: {}", found.1);
            assert!(found.1.contains(words), "{}", found.1);
        }
        assert_eq!(clock_of(&answer(""), at, drift_max).0, WARNING);
    }
}
