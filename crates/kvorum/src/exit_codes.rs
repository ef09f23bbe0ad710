//! The meaning of the exit codes. The help of every command and docs/reference/command-line.md say
//! the same, word for word, because both come from here.

use clap::Command;
use cli::exit_codes::{self, DENIED, Meaning, OF_MOST, SUCCESS, WRONG, section};

/// The commands that read and write entities, which tell most failures apart.
const ENTITY_COMMANDS: [&str; 7] = [
    "get", "put", "delete", "replicas", "scan", "import", "export",
];

/// The codes of these.
const OF_ENTITY_COMMANDS: [Meaning; 6] = [
    SUCCESS,
    (1, "the key has no value"),
    WRONG,
    (
        3,
        "too few replicas answered, or no node did: try again later",
    ),
    (4, "any other failure: the line on stderr says why"),
    DENIED,
];

/// The codes of `serve`, by which a supervisor knows whether to start the node again.
const OF_SERVE: [Meaning; 3] = [
    (0, "a signal stopped it in order"),
    (
        1,
        "it failed: a restart may help, because an address or a folder was in use, or the system \
         refused something",
    ),
    (
        2,
        "it refuses to start: a restart does not help before an option, a certificate or the data \
         folder has changed",
    ),
];

/// The command with the exit codes in the help of it and of all below it.
pub(crate) fn in_help(command: Command) -> Command {
    exit_codes::in_help(command, &codes_of)
}

fn codes_of(command: &str) -> String {
    let of_entities = |title: &str| section(title, &OF_ENTITY_COMMANDS);
    match command {
        "kvorum" => format!(
            "{}\n\n{}",
            of_entities(&format!("Exit codes of {}", ENTITY_COMMANDS.join(", "))),
            section("Exit codes of the others", &OF_MOST)
        ),
        "serve" => section("Exit codes", &OF_SERVE),
        name if ENTITY_COMMANDS.contains(&name) => of_entities("Exit codes"),
        _ => section("Exit codes", &OF_MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_documents_have_the_same_tables() {
        let page = include_str!("../../../docs/reference/command-line.md");
        for meanings in [&OF_ENTITY_COMMANDS[..], &OF_SERVE, &OF_MOST] {
            let table = exit_codes::table(meanings);
            assert!(
                page.contains(&table),
                "put this into docs/reference/command-line.md:\n{table}"
            );
        }
    }

    #[test]
    fn the_help_of_every_command_lists_its_codes() {
        fn check(mut command: Command) {
            let help = command.render_long_help().to_string();
            let name = command.get_name();
            let asks_nodes = name != "serve";
            for code in ["0", "1", "2"].into_iter().chain(asks_nodes.then_some("5")) {
                assert!(help.contains(&format!("\n  {code}  ")), "{name}: {help}");
            }
            let tells_apart = ENTITY_COMMANDS.contains(&name) || name == "kvorum";
            assert_eq!(help.contains("\n  3  "), tells_apart, "{name}: {help}");
            assert!(
                !help.contains("Exit codes: "),
                "a second list, {name}: {help}"
            );
            let below = command.get_subcommands().cloned();
            below
                .filter(|below| below.get_name() != "help")
                .for_each(check);
        }
        let program = in_help(Cli::command());
        for name in ENTITY_COMMANDS {
            assert!(program.find_subcommand(name).is_some(), "{name}");
        }
        check(program);
    }
}
