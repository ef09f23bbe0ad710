//! `kvorum admin status`.

use super::overview::Overview;
use super::screen::{self, Line, Tone};
use super::target::{ANSWER_BYTES_MAX, Target};
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::{print, print_json};
use crate::text::of_lines;
use crate::values::{TimeSpan, span};
use api::cluster::{Advice, Cluster, Severity};
use clap::Args;
use cli::exit_codes::WRONG;
use cluster::NodeUrl;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::env;
use std::io::{self, IsTerminal};
use std::ops::RangeInclusive;
use std::thread::park_timeout;
use std::time::Duration;

/// What `--watch` may be.
const WATCH_INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// The most nodes of a cluster.
const MEMBERS_MAX: usize = u8::MAX as usize;

/// How long a node may take to answer: it asks the others.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The options of `admin status`.
#[derive(Args, Clone, Debug)]
pub(super) struct StatusOptions {
    /// Print JSON for programs instead of a table
    #[arg(long)]
    json: bool,
    /// Show it anew every TIME until Ctrl-C [default if no TIME is given: 2s]
    #[arg(long, value_name = "TIME", value_parser = span(WATCH_INTERVALS), num_args = 0..=1,
        default_missing_value = "2s", conflicts_with = "json")]
    watch: Option<TimeSpan>,
    #[command(flatten)]
    target: Target,
}

/// Prints how the nodes of a cluster are.
///
/// # Errors
/// The node of the options cannot be reached, or is no node; something needs attention.
pub(super) fn run(options: &StatusOptions) -> Result<(), Failure> {
    if let Some(interval) = options.watch {
        return watch(&options.target, interval.0);
    }
    let overview = overview(&options.target)?;
    if options.json {
        print_json(&overview)?;
    } else {
        let has_colors = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none();
        print(&text(&screen::lines(&overview), has_colors))?;
    }
    fail_on_advice(&overview.advice, options.json)
}

/// Asks the first node that answers for all of them.
fn overview(target: &Target) -> Result<Overview, Failure> {
    let (node, access) = target.choose()?;
    let cluster: Cluster = fetch(&node, "/v0/cluster", &access)?;
    Ok(Overview::of(&cluster))
}

/// Shows it until a signal ends the command. A failure is shown, too, because it may pass.
fn watch(target: &Target, interval: Duration) -> Result<(), Failure> {
    let is_terminal = io::stdout().is_terminal();
    let has_colors = is_terminal && env::var_os("NO_COLOR").is_none();
    loop {
        let lines = match overview(target) {
            Ok(overview) => screen::lines(&overview),
            // A wrong command line stays wrong, and so does a token.
            Err(failure) if failure.code() == WRONG.0 || failure.is_denied() => {
                return Err(failure);
            }
            Err(failure) => vec![Line {
                text: failure.line().to_owned(),
                tone: Tone::Bad,
            }],
        };
        let begin = if is_terminal { CLEAR } else { "" };
        let end = if is_terminal { "" } else { "\n" };
        print(&format!("{begin}{}{end}", text(&lines, has_colors)))?;
        park_timeout(interval);
    }
}

/// Clears the screen of a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The lines as they are written. What they say steers no terminal; only their colours do.
fn text(lines: &[Line], has_colors: bool) -> String {
    let lines = lines.iter().map(|Line { text, tone }| {
        let line = of_lines([text]);
        let color = match tone {
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Plain => return line,
        };
        if has_colors {
            format!("\x1b[{color}m{}\x1b[0m\n", line.trim_end_matches('\n'))
        } else {
            line
        }
    });
    lines.collect()
}

/// Fails if there is anything to do, so that a script need not read it. Warnings alone are told
/// apart.
fn fail_on_advice(advice: &[Advice], is_json: bool) -> Result<(), Failure> {
    let count = |severity| {
        let of_it = advice.iter().filter(|advice| advice.severity == severity);
        of_it.count()
    };
    let (bad, warnings) = (count(Severity::Bad), count(Severity::Warn));
    let what = match bad + warnings {
        0 => return Ok(()),
        1 => "something needs attention".to_owned(),
        number => format!("{number} things need attention"),
    };
    let line = if is_json {
        format!("{what}: see `advice`")
    } else {
        format!("{what}: see each line with !")
    };
    Err(if bad > 0 {
        Failure::failed(line)
    } else {
        Failure::warning(line)
    })
}

/// A node of a cluster, as far as one has to know it to ask it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) url: String,
}

/// The part of a status that is used.
#[derive(Deserialize)]
struct MembersPage {
    cluster: Vec<Member>,
}

/// All nodes of the cluster of the node that the user has named.
///
/// # Errors
/// The node cannot be reached, or is no node.
pub(super) fn members(node: &NodeUrl, access: &Access) -> Result<Vec<Member>, Failure> {
    let MembersPage { cluster } = fetch(node, "/v0/status", access)?;
    match cluster.len() {
        ..=MEMBERS_MAX => Ok(cluster),
        // Each is asked by a thread of its own.
        members => Err(is_other(node, &format!("it names {members} nodes"))),
    }
}

fn fetch<T: DeserializeOwned>(node: &NodeUrl, path: &str, access: &Access) -> Result<T, Failure> {
    let answer = NodeRequest {
        node,
        access,
        is_named: true,
        method: "GET",
        target: path,
        headers: &[],
        time_max: ANSWER_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    }
    .send()?;
    if answer.status != 200 {
        return Err(refusal(node, answer.status, &answer.body));
    }
    serde_json::from_slice(&answer.body).map_err(|error| is_other(node, &error))
}

fn is_other(node: &NodeUrl, problem: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!(
        "{node} does not answer as a Kvorum node of this version ({problem}): ask it with the \
         program that it runs"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_gets_colours_and_no_node_steers_it() {
        let lines = [(Tone::Bad, "a\x1b[2J"), (Tone::Plain, "b")].map(|(tone, text)| Line {
            text: text.to_owned(),
            tone,
        });
        let plain = text(&lines, false);
        assert!(!plain.contains('\x1b'), "{plain}");
        let colored = text(&lines, true);
        assert!(colored.starts_with("\x1b[31ma") && colored.ends_with("\x1b[0m\nb\n"));
        assert_eq!(colored.matches('\x1b').count(), 2);
    }

    #[test]
    fn a_status_with_advice_is_a_failure() {
        assert_eq!(fail_on_advice(&[], false), Ok(()));
        let advice = [Severity::Note, Severity::Bad, Severity::Warn].map(|severity| Advice {
            severity,
            node: None,
            what: String::new(),
            remedy: String::new(),
            runbook: String::new(),
            runbook_url: String::new(),
        });
        assert_eq!(
            fail_on_advice(&advice[..1], false),
            Ok(()),
            "nothing is to be done"
        );
        let one = fail_on_advice(&advice[..2], true).unwrap_err();
        assert_eq!(
            one,
            Failure::failed("something needs attention: see `advice`")
        );
        let two = fail_on_advice(&advice, false).unwrap_err();
        assert_eq!(two.code(), 1);
        assert_eq!(two.line(), "2 things need attention: see each line with !");
        let warning = fail_on_advice(&advice[2..], false).unwrap_err();
        assert_eq!(warning.code(), 6, "nothing fails yet");
    }
}
