//! The options of `dev`, and the commands to a running cluster.

use crate::logging::{LogFormat, LogLevel};
use crate::values::count;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// The number of nodes, and the port of the first one, unless the options or the folder say them.
pub(super) const NODES: u8 = 3;
pub(super) const PORT: u16 = 8080;

/// The folder of a cluster by default.
const DATA: &str = "./kvorum-dev";

/// The options of `dev`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DevOptions {
    /// A command to a node of a running cluster, instead of running one.
    #[command(subcommand)]
    pub(super) instead: Option<NodeCommand>,
    /// Number of nodes, up to 255 [default: 3, or those that the folder has]
    #[arg(long, value_name = "COUNT", value_parser = count(1..=u8::MAX))]
    pub(super) nodes: Option<u8>,
    /// The port of the first node on 127.0.0.1; the other nodes use the
    /// following ports. Nodes keep their ports once one was added or removed [default: 8080]
    #[arg(long, value_name = "PORT", value_parser = count(1..=u16::MAX))]
    pub(super) port: Option<u16>,
    /// The folder for the data of all nodes
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
    /// Use TLS: make an authority in the folder and certificates for the nodes, whose URLs are then
    /// https://
    #[arg(long)]
    pub(super) tls: bool,
    /// Require tokens: make one with all rights in the folder, and a tokens file for the nodes
    #[arg(long)]
    pub(super) tokens: bool,
    /// The lowest level that the nodes log [default: info]
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "Log")]
    pub(super) log: Option<LogLevel>,
    /// text for people; json for programs, one object per line [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Log")]
    pub(super) log_format: Option<LogFormat>,
    /// Options of 'serve' for all nodes, after '--'
    #[arg(last = true, value_name = "OPTIONS")]
    pub(super) serve: Vec<OsString>,
}

/// A command to a node of a running cluster.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum NodeCommand {
    /// Print the nodes, their URLs and states, the faults they were given, and the address of the
    /// console
    Status(StatusOptions),
    /// Add a node while the cluster serves, and show how its part of the data is brought to it
    Add(AddOptions),
    /// Remove a node while the cluster serves: the others get its data, then its process is stopped
    Remove(RemoveOptions),
    /// Kill a node as a crash would (SIGKILL); it restarts by itself
    Kill(NodeOptions),
    /// Stop a node gracefully (SIGTERM); it stays stopped until 'kvorum dev
    /// start'
    Stop(NodeOptions),
    /// Start a stopped node, or a killed one without waiting for its restart
    Start(NodeOptions),
    /// Freeze a node: it stops running, but its connections stay open (SIGSTOP)
    Freeze(NodeOptions),
    /// Resume a frozen node (SIGCONT)
    Thaw(NodeOptions),
    /// Kill a node, delete its data as if its disk had died, and start it again
    Wipe(NodeOptions),
    /// Set the clock of a node 90 minutes ahead, beyond --clock-drift-max, so that it refuses writes
    Skew(NodeOptions),
    /// Correct the clock of a node again
    Unskew(NodeOptions),
    /// Cut a node off from the other nodes; clients still reach it
    Cut(NodeOptions),
    /// Reconnect a node that was cut off
    Join(NodeOptions),
    /// Slow a node's network: messages of the other nodes reach it 250 ms late
    Slow(NodeOptions),
    /// Give a node its normal network speed again
    Unslow(NodeOptions),
}

/// The options of 'dev status'.
#[derive(Args, Clone, Debug)]
pub(super) struct StatusOptions {
    /// Print JSON for programs instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// The folder of the cluster: the --data of 'kvorum dev'
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
}

/// The options of 'dev add'.
#[derive(Args, Clone, Debug)]
pub(super) struct AddOptions {
    /// The folder of the cluster: the --data of 'kvorum dev'
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
}

/// The options of 'dev remove'.
#[derive(Args, Clone, Debug)]
pub(super) struct RemoveOptions {
    /// The number of the node: 2 or node-2 [default: the greatest]
    #[arg(value_name = "NODE", value_parser = number)]
    pub(super) node: Option<u8>,
    /// The folder of the cluster: the --data of 'kvorum dev'
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
}

/// The node that a command is for.
#[derive(Args, Clone, Debug)]
pub(super) struct NodeOptions {
    /// The number of the node: 2 or node-2
    #[arg(value_name = "NODE", value_parser = number)]
    pub(super) node: u8,
    /// The folder of the cluster: the --data of 'kvorum dev'
    #[arg(long, value_name = "DIR", default_value = DATA)]
    pub(super) data: PathBuf,
}

impl DevOptions {
    /// The options with which a command finds the cluster in `data`: none for
    /// the default folder.
    pub(super) fn data_option(data: &std::path::Path) -> String {
        if data.as_os_str() == DATA {
            String::new()
        } else {
            format!(" --data {}", data.display())
        }
    }
}

/// Parses the number of a node.
fn number(text: &str) -> Result<u8, String> {
    let number = text.strip_prefix("node-").unwrap_or(text);
    match number.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("write the number of a node, such as 2; the first is 1".to_owned()),
    }
}
