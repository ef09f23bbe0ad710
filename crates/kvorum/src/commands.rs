//! The commands.

use crate::admin::AdminOptions;
use crate::dev::DevOptions;
use crate::entities::EntityCommand;
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
    /// Record where a running node spends its time or memory, as a flame graph
    #[command(allow_negative_numbers = true)]
    Profile(ProfileOptions),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_all_commands_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_refusal_of_the_parser_becomes_one_readable_line() {
        let error = Cli::try_parse_from(["kvorum", "profile"]).unwrap_err();
        let failure = Failure::from_clap(&error);
        assert_eq!(
            failure.line(),
            "the following required arguments were not provided: --url <URL>; \
             'kvorum profile --help' lists what there is"
        );
        for (words, line) in [
            (
                ["dev", "--gc-grace=5s"],
                "unexpected argument '--gc-grace' found; 'kvorum dev --help' lists the options, and \
                 options of 'serve' follow behind '--'",
            ),
            (
                ["admin", "qqqq"],
                "unrecognized subcommand 'qqqq'; 'kvorum admin --help' lists the commands",
            ),
            (
                ["serve", "--port=1"],
                "unexpected argument '--port' found; 'kvorum serve --help' lists the options",
            ),
            (
                ["serve", "--memori=1"],
                "unexpected argument '--memori' found; tip: a similar argument exists: '--memory'",
            ),
        ] {
            let error = Cli::try_parse_from(["kvorum"].iter().chain(&words)).unwrap_err();
            assert_eq!(Failure::from_clap(&error).line(), line);
        }
    }
}
