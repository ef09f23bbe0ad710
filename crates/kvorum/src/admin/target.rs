//! The node that an operator's command asks, and what it writes to stdout.

use crate::access::{Access, AccessOptions};
use crate::failure::Failure;
use crate::node_client::NodeRequest;
use crate::text;
use crate::values::url;
use clap::Args;
use cluster::NodeUrl;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;

/// The longest response that is read, in bytes: far above any status.
pub(super) const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How long one of several nodes may take to say that it is there.
const LIVE_MAX: Duration = Duration::from_secs(5);

/// The nodes that may be asked.
#[derive(Args, Clone, Debug)]
pub(super) struct Target {
    /// A node of the cluster. Of several, with commas or with the option repeated, the first that answers is asked [default: KVORUM_URL, or http://127.0.0.1:8080]
    #[arg(long = "url", value_parser = url, value_name = "URL", value_delimiter = ',', help_heading = "Nodes")]
    urls: Vec<NodeUrl>,
    #[command(flatten)]
    access: AccessOptions,
}

impl Target {
    /// The node to ask, and how to ask nodes.
    ///
    /// # Errors
    /// Those of [`AccessOptions::reach`].
    pub(super) fn choose(&self) -> Result<(NodeUrl, Access), Failure> {
        let (mut nodes, access) = self.access.reach(&self.urls)?;
        let chosen = match nodes.len() {
            1 => 0,
            _ => nodes
                .iter()
                .position(|node| is_live(node, &access))
                .unwrap_or(0),
        };
        Ok((nodes.swap_remove(chosen), access))
    }
}

fn is_live(node: &NodeUrl, access: &Access) -> bool {
    let answer = NodeRequest {
        node,
        access,
        is_named: false,
        method: "GET",
        target: "/health/live",
        headers: &[],
        time_max: LIVE_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    answer.send().is_ok_and(|answer| answer.status == 200)
}

/// Writes JSON for programs to stdout.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// Writes lines for people to stdout.
pub(crate) fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), Failure> {
    print(&text::of_lines(lines))
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::failed(format!("cannot write to stdout: {error}")))
}
