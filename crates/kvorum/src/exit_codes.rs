//! What the exit codes mean. The help of every command and docs/reference/command-line.md say the same, word for
//! word, because both come from here.

use clap::Command;

/// A code and what it means.
type Meaning = (u8, &'static str);

const SUCCESS: Meaning = (0, "success");
const WRONG: Meaning = (
    2,
    "the command line is wrong, or a node refuses a parameter of it",
);
const DENIED: Meaning = (5, "a certificate or a token is not accepted");

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
    (4, "anything else: the line on stderr says what"),
    DENIED,
];

/// The codes of `load`.
const OF_LOAD: [Meaning; 4] = [
    (0, "the load was made, whatever the nodes refused"),
    (
        1,
        "a value was wrong, no request succeeded, a fill was incomplete, no rate held, or no node \
         could be reached",
    ),
    WRONG,
    DENIED,
];

/// The codes of all others.
const OF_OTHERS: [Meaning; 4] = [
    SUCCESS,
    (1, "it failed: the line on stderr says why"),
    WRONG,
    DENIED,
];

/// What all commands have in common.
const SIGNALS: &str = "130 after Ctrl-C and 143 after SIGTERM, if that ended it early";

/// The command with the exit codes in the help of it and of all below it.
pub(crate) fn in_help(command: Command) -> Command {
    let command = command.mut_subcommands(in_help);
    let before = command.get_after_help().map(|help| format!("{help}\n\n"));
    let codes = match command.get_name() {
        "kvorum" => format!(
            "{}\n\n{}",
            section(
                &format!("Exit codes of {}", ENTITY_COMMANDS.join(", ")),
                &OF_ENTITY_COMMANDS
            ),
            section("Exit codes of the others", &OF_OTHERS)
        ),
        "load" => section("Exit codes", &OF_LOAD),
        name if ENTITY_COMMANDS.contains(&name) => section("Exit codes", &OF_ENTITY_COMMANDS),
        _ => section("Exit codes", &OF_OTHERS),
    };
    command.after_help(before.unwrap_or_default() + &codes)
}

fn section(title: &str, meanings: &[Meaning]) -> String {
    let lines = meanings.iter();
    let lines: String = lines
        .map(|(code, meaning)| format!("  {code}  {meaning}\n"))
        .collect();
    format!("{title}:\n{lines}  {SIGNALS}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    /// The table of codes as the documents have it.
    fn table(meanings: &[Meaning]) -> String {
        let rows = meanings.iter();
        let rows = rows.map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
        format!(
            "| code | meaning |\n|---|---|\n{}",
            rows.collect::<String>()
        )
    }

    #[test]
    fn the_documents_have_the_same_tables() {
        let page = include_str!("../../../docs/reference/command-line.md");
        for meanings in [&OF_ENTITY_COMMANDS[..], &OF_OTHERS, &OF_LOAD] {
            let table = table(meanings);
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
            for code in ["0", "1", "2", "5"] {
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
