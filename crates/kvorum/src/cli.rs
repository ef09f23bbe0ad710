//! The commands.

use crate::admin::AdminOptions;
use crate::dev::DevOptions;
use crate::entities::EntityCommand;
use crate::lab::LabOptions;
use crate::load::{self, LoadOptions};
use crate::profiling::ProfileOptions;
use crate::serve::ServeCommand;
use clap::{Parser, Subcommand};

/// A replicated key-value store over HTTP
#[derive(Debug, Parser)]
#[command(
    name = "kvorum",
    version,
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a node.
    #[command(flatten)]
    Node(ServeCommand),
    /// Works with entities.
    #[command(flatten)]
    Entities(EntityCommand),
    /// Run a local cluster to try things out; Ctrl-C stops it, and its data is kept
    #[command(allow_negative_numbers = true)]
    Dev(DevOptions),
    /// See how the nodes of a running cluster are, and have them compared or compacted
    Admin(AdminOptions),
    /// Run an experiment on nodes of its own and write a page about the results
    Lab(LabOptions),
    /// Record where a running node spends its time or memory, as a flame graph
    #[command(allow_negative_numbers = true)]
    Profile(ProfileOptions),
    /// Generate load on nodes and measure the results
    #[command(after_help = load::AFTER_HELP, allow_negative_numbers = true)]
    Load(Box<LoadOptions>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_all_commands_is_consistent() {
        Cli::command().debug_assert();
    }
}
