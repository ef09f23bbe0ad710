//! The options of `dev`, and the commands to a cluster that runs.

use crate::logging::{LogFormat, LogLevel};
use crate::values::port;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of a cluster unless another is given.
const DATA: &str = "./kvorum-dev";

/// The options of `dev`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DevOptions {
    /// What to do to a node of a cluster that runs, instead of running one.
    #[command(subcommand)]
    pub(super) instead: Option<NodeCommand>,
    /// How many nodes, up to 255
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) nodes: u8,
    /// The port of the first node on 127.0.0.1; the others take the next ones
    #[arg(long, value_name = "PORT", default_value_t = 8080, value_parser = port)]
    pub(super) port: u16,
    /// The folder that holds a folder for each node
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
    /// The least level that the nodes log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "Log")]
    pub(super) log: Option<LogLevel>,
    /// text for people, json for machines: one object a line [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Log")]
    pub(super) log_format: Option<LogFormat>,
    /// Options of 'serve' for every node, after '--'
    #[arg(last = true, value_name = "OPTIONS")]
    pub(super) serve: Vec<OsString>,
}

/// What to do to a node of a cluster that runs.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum NodeCommand {
    /// Kill a node at once, as a crash would (SIGKILL); it starts again by itself
    Kill(NodeOptions),
    /// Stop a node in order (SIGTERM); it stays away until it is started
    Stop(NodeOptions),
    /// Start a node that was stopped, or killed
    Start(NodeOptions),
    /// Freeze a node: it runs no more, and its connections stay (SIGSTOP)
    Freeze(NodeOptions),
    /// Let a frozen node go on (SIGCONT)
    Thaw(NodeOptions),
}

/// Which node is meant.
#[derive(Args, Clone, Debug)]
pub(super) struct NodeOptions {
    /// The number of the node: 2, or node-2
    #[arg(value_name = "NODE", value_parser = number)]
    pub(super) node: u8,
    /// The folder of the cluster, as 'kvorum dev' was given it
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
}

impl DevOptions {
    /// The options that reach the cluster of this one by its folder; nothing
    /// where it is the usual one.
    pub(super) fn data_option(data: &std::path::Path) -> String {
        if data.as_os_str() == DATA {
            String::new()
        } else {
            format!(" --data {}", data.display())
        }
    }
}

/// Reads the number of a node.
fn number(text: &str) -> Result<u8, String> {
    let number = text.strip_prefix("node-").unwrap_or(text);
    match number.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("write the number of a node, from 1: 2".to_owned()),
    }
}
