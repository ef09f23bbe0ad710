//! The commands of the program.

use crate::about::AboutCommand;
use crate::admin::AdminOptions;
use crate::context::{self, ContextCommand};
use crate::dev::DevOptions;
use crate::entities::EntityCommand;
use crate::profiling::ProfileOptions;
use crate::serve::{RESTORE_HELP, RestoreOptions, ServeCommand};
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
    /// Show the state of a running cluster, change its members, back it up, repair or compact it, make
    /// tokens
    Admin(AdminOptions),
    /// Make the data folder of a node of a new cluster of a backup; the node must not run
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreOptions),
    /// Save clusters by name, and choose the one that commands use
    #[command(subcommand, after_help = context::HELP)]
    Context(ContextCommand),
    /// Record where a running node spends its time or memory, as a flame graph
    #[command(allow_negative_numbers = true)]
    Profile(ProfileOptions),
    /// Says something of the program.
    #[command(flatten)]
    About(AboutCommand),
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
    fn commands_to_nodes_share_their_options_and_no_heading_has_those_of_another() {
        const ACCESS: [&str; 6] = [
            "context",
            "ca",
            "client-cert",
            "client-key",
            "token-file",
            "token-in-clear",
        ];
        const WITHOUT_NODES: [&str; 9] = [
            "serve",
            "dev",
            "cert",
            "check",
            "context",
            "version",
            "completions",
            "man",
            "help",
        ];
        fn check(command: &clap::Command) {
            let name = command.get_name();
            let is_offline = command
                .get_arguments()
                .any(|one| one.get_id() == "from_place");
            if WITHOUT_NODES.contains(&name) || is_offline {
                return;
            }
            if command.has_subcommands() {
                return command.get_subcommands().for_each(check);
            }
            let options = |heading: &str| -> Vec<&str> {
                let arguments = command.get_arguments();
                let below = arguments.filter(|one| one.get_help_heading() == Some(heading));
                below.filter_map(clap::Arg::get_long).collect()
            };
            assert_eq!(options("Access"), ACCESS, "{name}");
            assert!(options("Nodes").contains(&"url"), "{name}");
            let json = command.get_arguments().find(|one| one.get_id() == "json");
            assert!(
                json.is_none_or(|json| json.get_help_heading().is_none()),
                "{name}"
            );
        }
        check(&Cli::command());
    }

    #[test]
    fn the_help_of_a_command_names_its_own_default_of_the_timeout() {
        let mut commands = Cli::command();
        for (name, default) in [
            ("get", "[default: 15s]"),
            ("put", "[default: 15s]"),
            ("scan", "[default: 60s; 1h while it counts]"),
            ("export", "[default: 60s; 1h while it counts]"),
        ] {
            let command = commands.find_subcommand_mut(name).unwrap();
            let help = command.render_long_help().to_string();
            assert!(help.contains(&format!("silent {default}\n")), "{help}");
        }
    }

    #[test]
    fn the_interval_of_watch_may_stand_behind_a_space_or_be_left_out() {
        for words in [&["--watch"][..], &["--watch", "5s"], &["--watch=5s"]] {
            let program = ["kvorum", "admin", "status"].iter().chain(words);
            Cli::try_parse_from(program).unwrap();
        }
    }

    #[test]
    fn a_refusal_of_the_parser_becomes_one_readable_line() {
        let error = Cli::try_parse_from(["kvorum", "get"]).unwrap_err();
        let failure = Failure::from_clap(&error);
        assert_eq!(
            failure.line(),
            "the following required arguments were not provided: <KEY>...; 'kvorum get --help' lists \
             what there is"
        );
        let error = Cli::try_parse_from(["kvorum", "status"]).unwrap_err();
        let line = Failure::from_clap(&error).line().to_owned();
        assert!(
            line.contains("; 'kvorum admin status' is a command"),
            "{line}"
        );
        for (words, line) in [
            (
                ["scan", "--limit=0"],
                "invalid value '0' for '--limit <N>': write a whole number, at least 1",
            ),
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
        for (words, line) in [
            (
                ["put", "key", "-v"],
                "unexpected argument '-v' found; tip: to pass '-v' as a value, use '-- -v'",
            ),
            (
                ["put", "key", "--qqqq"],
                "unexpected argument '--qqqq' found; 'kvorum put --help' lists the options",
            ),
            (
                ["profile", "--url", "http://a:1,http://b:1"],
                "invalid value 'http://a:1,http://b:1' for '--url <URL>': it names several nodes: \
                 name one",
            ),
        ] {
            let error = Cli::try_parse_from(["kvorum"].iter().chain(&words)).unwrap_err();
            assert_eq!(Failure::from_clap(&error).line(), line);
        }
    }
}
