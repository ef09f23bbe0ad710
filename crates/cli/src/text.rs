//! Text for people, on stdout and stderr. What it says may come from a node, and whoever answers
//! at its address may be somebody else; so every line goes through here, and none steers the
//! terminal or pretends to be several.

use std::io::{self, Write as _};
use std::sync::OnceLock;

/// What writes lines to stderr, where this process has something of its own for that.
static SAY: OnceLock<fn(&str)> = OnceLock::new();

/// Has `say` write to stderr what is reported from now on.
pub fn report_through(say: fn(&str)) {
    let _is_first = SAY.set(say);
}

/// The program whose lines these are, where it is not `kvorum`.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Has lines on stderr begin with the name of this program from now on.
pub fn report_as(program: &'static str) {
    let _is_first = PROGRAM.set(program);
}

/// Lines as they are printed.
pub fn of_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&client::one_line(line.as_ref()));
        text.push('\n');
    }
    text
}

/// Writes a line to stderr. A closed stderr is ignored.
pub fn report_line(line: &str) {
    let program = PROGRAM.get().copied().unwrap_or("kvorum");
    let line = of_lines([format!("{program}: {line}")]);
    match SAY.get() {
        Some(say) => say(&line),
        None => {
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}
