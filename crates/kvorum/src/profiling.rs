//! `kvorum profile`: records a profile of a running node and saves it.

use crate::access::AccessOptions;
use crate::failure::Failure;
use crate::node_client::{self, NodeRequest};
use crate::stdout::print_bytes;
use crate::text::report_line;
use crate::values::{count, url};
use api::Problem;
use api::problem_type::UNKNOWN_PATH;
use clap::{Args, ValueEnum};
use cli::progress::{Progress, Stage};
use cluster::NodeUrl;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the node may take to turn its recording into a profile.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// How often the progress is shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(500);

/// The longest response that is read, in bytes: far above any profile.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The name that stands for stdout.
const STDOUT: &str = "-";

/// The options of `profile`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProfileOptions {
    /// The node, which must run with --debug-endpoints [default: KVORUM_URL, or http://127.0.0.1:8080]
    #[arg(long, value_parser = url, value_name = "URL", help_heading = "Nodes")]
    url: Option<NodeUrl>,
    /// cpu: where CPU time is spent; alloc: where memory is allocated; wait: waits for locks, in queues, for disks and for peers
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProfileKind::Cpu)]
    pub(crate) kind: ProfileKind,
    /// How many seconds to record, up to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = count(1..=60_u64))]
    pub(crate) seconds: u64,
    /// svg: a flame graph for a browser; folded: one line per stack, for other
    /// tools
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ProfileFormat::Svg)]
    pub(crate) format: ProfileFormat,
    /// The file for the profile; - for stdout [default: profile-KIND.FORMAT]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: AccessOptions,
}

/// The kinds of profiles, with the names that a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileKind {
    Cpu,
    Alloc,
    Wait,
}

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileFormat {
    Svg,
    Folded,
}

/// Records a profile and saves it.
///
/// # Errors
/// An output that cannot be written, a node that cannot be reached or serves no
/// profiles, a profile that cannot be recorded.
pub(crate) fn run(options: &ProfileOptions) -> Result<(), Failure> {
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| default_output(options));
    check_output(&output)?;
    let profile = fetch(options)?;
    if output == Path::new(STDOUT) {
        return print_bytes(&profile);
    }
    write(&output, &profile)?;
    report_line(&format!("the profile is in {}", output.display()));
    Ok(())
}

fn default_output(options: &ProfileOptions) -> PathBuf {
    let extension = match options.format {
        ProfileFormat::Svg => "svg",
        ProfileFormat::Folded => "folded",
    };
    format!("profile-{}.{extension}", word(&options.kind)).into()
}

fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses an output that cannot be written before a minute is spent on the
/// recording.
fn check_output(output: &Path) -> Result<(), Failure> {
    let folder = output
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let refuse = |problem: &str| {
        let output = output.display();
        Err(Failure::usage(format!("--output: {output} {problem}")))
    };
    if output.is_dir() {
        return refuse("is a folder: name a file");
    }
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return refuse("is in a folder that does not exist: create it first");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a profile is no part of a store")]
fn write(output: &Path, profile: &[u8]) -> Result<(), Failure> {
    std::fs::write(output, profile)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", output.display())))
}

/// Requests the profile from the node and waits for it.
fn fetch(options: &ProfileOptions) -> Result<Vec<u8>, Failure> {
    let (nodes, access) = options.access.reach(options.url.as_slice())?;
    let [url] = &*nodes else {
        return Err(Failure::usage(
            "a profile is of one node, and KVORUM_URL or the context names several: name the node \
             with --url, and with --context NAME too if it needs the token of a context",
        ));
    };
    let accept = match options.format {
        ProfileFormat::Svg => "image/svg+xml",
        ProfileFormat::Folded => "text/plain",
    };
    let target = format!(
        "/debug/profile?kind={kind}&seconds={seconds}",
        kind = word(&options.kind),
        seconds = options.seconds,
    );
    let request = NodeRequest {
        node: url,
        access: &access,
        is_named: true,
        method: "GET",
        target: &target,
        headers: &[("Accept", accept)],
        time_max: Duration::from_secs(options.seconds) + FINISH_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = request.send_beside(show(options.seconds))?;
    match answer.status {
        200 if answer.media_type.starts_with(accept) => Ok(answer.body),
        status => Err(refusal(url, status, &answer.body)),
    }
}

/// Shows how much of the time has passed.
async fn show(seconds_all: u64) -> Infallible {
    let mut progress = Progress::new();
    loop {
        tokio::time::sleep(SHOW_INTERVAL).await;
        progress.show(|seconds| Stage {
            share: Some(seconds / seconds_all as f64),
            text: "recording".to_owned(),
        });
    }
}

/// The failure for an unsuccessful response.
fn refusal(url: &NodeUrl, status: u16, body: &[u8]) -> Failure {
    if Problem::parse(body).is(&UNKNOWN_PATH) {
        return Failure::failed(format!(
            "{url} serves no profiles: start the node with --debug-endpoints"
        ));
    }
    node_client::refusal(url, status, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let url: NodeUrl = "http://localhost:8080".parse().unwrap();
        let unknown = br#"{"type":"urn:kvorum:problem:unknown-path","detail":"d"}"#;
        let line = |status, body| refusal(&url, status, body).line().to_owned();
        assert!(line(400, unknown).contains("--debug-endpoints"));
        let busy = br#"{"type":"urn:kvorum:problem:profile-running","detail":"try again"}"#;
        assert!(line(409, busy).ends_with("refuses: try again"));
        assert!(line(404, b"<html>").contains("404"));
    }
}
