//! The language of the golden files.
//!
//! An empty line separates cases. `#` begins prose. Any other line is
//! `EVENT -> ACTIONS`: what happens, and the actions that the machine returns, in order;
//! `wait` stands for none. Consecutive actions of one kind are written together:
//! `send 0 1 2`.
//!
//! The tests do not rewrite a file: where a line differs, they print the line that the
//! machine produces.

use std::fmt::Write;

/// The lines of a file that are not prose, as (number, event, actions); `None`
/// between cases.
fn lines(text: &str) -> impl Iterator<Item = Option<(usize, &str, &str)>> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.trim();
        match line {
            "" => Some(None),
            _ if line.starts_with('#') => None,
            _ => {
                let Some((event, actions)) = line.split_once("->") else {
                    panic!("line {number} has no arrow: {line}");
                };
                Some(Some((number, event.trim(), actions.trim())))
            }
        }
    })
}

/// Runs every case of a file: `step` takes an event, with the machine that the
/// case has so far, and returns the actions.
pub(crate) fn run<M>(file: &str, text: &str, mut step: impl FnMut(&mut Option<M>, &str) -> String) {
    let mut machine = None;
    let mut events = 0;
    let mut differences = String::new();
    for line in lines(text) {
        let Some((number, event, expected)) = line else {
            machine = None;
            continue;
        };
        events += 1;
        let given = step(&mut machine, event);
        if given != expected {
            let _ = writeln!(
                differences,
                "{file}:{number}: {event} -> {given}\n    but the file says: {expected}"
            );
        }
    }
    assert!(events > 0, "{file} has no events");
    assert!(differences.is_empty(), "\n{differences}");
}
