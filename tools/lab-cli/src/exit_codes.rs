//! What the exit codes mean. The help and docs/how-to/load.md say the same, because both come from
//! here.

use cli::exit_codes::{DENIED, Meaning, OF_MOST, WRONG, section};

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

/// What the help of a command says of its codes; `words` are those of the command.
pub(crate) fn of(words: &str) -> String {
    match words.split(' ').next() {
        Some("load") => section("Exit codes", &OF_LOAD),
        _ => section("Exit codes", &OF_MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::exit_codes::table;

    #[test]
    fn the_document_has_the_same_table() {
        let page = include_str!("../../../docs/how-to/load.md");
        let table = table(&OF_LOAD);
        assert!(
            page.contains(&table),
            "put this into docs/how-to/load.md:\n{table}"
        );
    }
}
