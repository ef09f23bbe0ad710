//! The commands of the program.

use crate::exit_codes;
use crate::lab::{LabOptions, ReportOptions};
use crate::load::{self, LoadOptions};
use clap::{CommandFactory, Parser, Subcommand};

/// Measure Kvorum nodes: generate load on them, and run experiments
#[derive(Debug, Parser)]
#[command(
    name = "kvorum-lab",
    version,
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Generate load on nodes and measure the results
    #[command(after_help = load::AFTER_HELP, allow_negative_numbers = true)]
    Load(Box<LoadOptions>),
    /// Run an experiment on nodes of its own and write a page about the results
    Lab(LabOptions),
    /// Rewrite the page of an earlier run from its saved results, with the current text
    Report(ReportOptions),
}

/// The definition of all commands, with the exit codes in their help.
pub(crate) fn with_help() -> clap::Command {
    cli::exit_codes::in_help(Program::command(), &exit_codes::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_all_commands_is_consistent() {
        with_help().debug_assert();
    }
}
