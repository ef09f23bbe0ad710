//! The meaning of the exit codes. The help of every command and docs/reference/command-line.md say
//! the same, word for word, because both come from here.

use clap::Command;
use cli::exit_codes::{self, DENIED, Meaning, OF_MOST, SUCCESS, WRONG, section};

/// The commands that read and write entities, which tell most failures apart.
const ENTITY_COMMANDS: [&str; 8] = [
    "get", "put", "touch", "delete", "replicas", "scan", "import", "export",
];

/// The codes of these.
const OF_ENTITY_COMMANDS: [Meaning; 8] = [
    SUCCESS,
    (1, "the key has no value (get, touch)"),
    WRONG,
    (
        3,
        "too few replicas answered, or no node did: try again later",
    ),
    (4, "any other failure: the line on stderr says why"),
    DENIED,
    (
        6,
        "the condition of a write does not hold: nothing was written",
    ),
    (
        7,
        "a write with a condition may have taken effect, or may still: read the key",
    ),
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

/// The codes of `admin status`, by which a script knows whether something has to be done.
const OF_STATUS: [Meaning; 5] = [
    SUCCESS,
    (
        1,
        "something needs attention now, or no node answers: the line on stderr says which",
    ),
    WRONG,
    DENIED,
    (
        6,
        "there are only warnings, such as a certificate that expires soon",
    ),
];

/// The program with the exit codes in the help of it and of all of its commands.
pub(crate) fn in_help(program: Command) -> Command {
    exit_codes::in_help(program, &codes_of)
}

fn codes_of(words: &str) -> String {
    let of_entities = |title: &str| section(title, &OF_ENTITY_COMMANDS);
    match words {
        "" => format!(
            "{}\n\n{}",
            of_entities(&format!("Exit codes of {}", ENTITY_COMMANDS.join(", "))),
            section("Exit codes of the others", &OF_MOST)
        ),
        "serve" => section("Exit codes", &OF_SERVE),
        "admin status" => section("Exit codes", &OF_STATUS),
        words if ENTITY_COMMANDS.contains(&words) => of_entities("Exit codes"),
        _ => section("Exit codes", &OF_MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;

    /// The table of the documents: a column for each kind of command, a row for each code.
    fn table() -> String {
        let entity_commands = ENTITY_COMMANDS.map(|name| format!("`{name}`")).join(", ");
        let kinds = [
            (&*entity_commands, &OF_ENTITY_COMMANDS[..]),
            ("`serve`", &OF_SERVE),
            ("`admin status`", &OF_STATUS),
            ("all others", &OF_MOST),
        ];
        let heads = kinds.map(|(commands, _)| commands).join(" | ");
        let mut table = format!("| code | {heads} |\n|---|---|---|---|---|\n");
        for code in 0..=7 {
            let meanings = kinds.map(|(_, meanings)| {
                let meaning = meanings.iter().find(|(of, _)| *of == code);
                meaning.map_or("", |(_, meaning)| *meaning)
            });
            table += &format!("| {code} | {} |\n", meanings.join(" | "));
        }
        table
    }

    #[test]
    fn the_documents_have_the_same_table() {
        let page = include_str!("../../../docs/reference/command-line.md");
        let table = table();
        assert!(
            page.contains(&table),
            "put this into docs/reference/command-line.md:\n{table}"
        );
    }

    #[test]
    fn the_help_of_every_command_lists_its_codes() {
        fn check(mut command: Command, words: &str) {
            let help = command.render_long_help().to_string();
            let asks_nodes = words != "serve";
            for code in ["0", "1", "2"].into_iter().chain(asks_nodes.then_some("5")) {
                assert!(help.contains(&format!("\n  {code}  ")), "{words}: {help}");
            }
            let tells_apart = ENTITY_COMMANDS.contains(&words) || words.is_empty();
            assert_eq!(help.contains("\n  3  "), tells_apart, "{words}: {help}");
            let has_more = tells_apart || words == "admin status";
            assert_eq!(help.contains("\n  6  "), has_more, "{words}: {help}");
            assert!(
                !help.contains("Exit codes: "),
                "a second list, {words}: {help}"
            );
            let below = command.get_subcommands().cloned();
            for below in below.filter(|below| below.get_name() != "help") {
                let words = format!("{words} {}", below.get_name());
                check(below, words.trim_start());
            }
        }
        let program = in_help(Cli::command());
        for name in ENTITY_COMMANDS {
            assert!(program.find_subcommand(name).is_some(), "{name}");
        }
        check(program, "");
    }
}
