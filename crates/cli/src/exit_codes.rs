//! The meaning of the exit codes, for the help of commands and for the documents.

use clap::Command;

/// A code and what it means.
pub type Meaning = (u8, &'static str);

/// The code of success.
pub const SUCCESS: Meaning = (0, "success");
/// The code of a wrong command line.
pub const WRONG: Meaning = (
    2,
    "the command line is wrong, or a node refuses a parameter of it",
);
/// The code of a node and a command that do not trust each other.
pub const DENIED: Meaning = (5, "a certificate or a token is not accepted");

/// The codes of most commands.
pub const OF_MOST: [Meaning; 4] = [
    SUCCESS,
    (1, "it failed: the line on stderr says why"),
    WRONG,
    DENIED,
];

/// What all commands have in common.
const SIGNALS: &str =
    "130 after Ctrl-C and 143 after SIGTERM, if that ended it early; 141 if its output was closed";

/// The program with the exit codes in the help of it and of all of its commands. `codes_of` returns
/// what the help of a command says of them; it is given the words of the command behind the name of
/// the program, such as `admin status`, and no words for the program itself.
pub fn in_help(program: Command, codes_of: &dyn Fn(&str) -> String) -> Command {
    with_codes(program, "", codes_of)
}

fn with_codes(command: Command, words: &str, codes_of: &dyn Fn(&str) -> String) -> Command {
    let command = command.mut_subcommands(|below| {
        let words = format!("{words} {}", below.get_name());
        with_codes(below, words.trim_start(), codes_of)
    });
    let before = command.get_after_help().map(|help| format!("{help}\n\n"));
    let codes = codes_of(words);
    command.after_help(before.unwrap_or_default() + &codes)
}

/// What help says of codes.
pub fn section(title: &str, meanings: &[Meaning]) -> String {
    let lines = meanings.iter();
    let lines: String = lines
        .map(|(code, meaning)| format!("  {code}  {meaning}\n"))
        .collect();
    format!("{title}:\n{lines}  {SIGNALS}")
}

/// The table of codes as the documents have it.
pub fn table(meanings: &[Meaning]) -> String {
    let rows = meanings.iter();
    let rows = rows.map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    format!(
        "| code | meaning |\n|---|---|\n{}",
        rows.collect::<String>()
    )
}
