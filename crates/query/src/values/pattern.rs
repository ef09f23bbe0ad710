//! Regular expressions that are compiled to a table: a search takes a step for each byte, whatever
//! the pattern is.
//!
//! As in RE2, `\w`, `\d`, `\s` and `\b` are of ASCII. Patterns whose table would be large are
//! refused, because it is the table that can grow exponentially.

use regex_automata::Input;
use regex_automata::dfa::{Automaton, dense};
use regex_automata::util::syntax;
use std::fmt;

/// The largest table of a pattern, in bytes.
const TABLE_BYTES_MAX: usize = 128 << 10;

/// The memory that compiling a pattern takes at most, in bytes.
const COMPILING_BYTES_MAX: usize = 512 << 10;

/// The most patterns of a question: an expression, or those of an aggregation together.
const PATTERNS_MAX: usize = 8;

/// The largest tables of all patterns of a question together, in bytes.
const TABLES_BYTES_MAX: usize = 512 << 10;

/// What the patterns of a question have taken so far.
#[derive(Debug, Default)]
pub(crate) struct PatternBudget {
    patterns: usize,
    table_bytes: usize,
}

impl PatternBudget {
    /// Compiles a pattern more.
    ///
    /// # Errors
    /// What is wrong with it, or with all patterns together.
    pub(crate) fn compile(&mut self, text: &str) -> Result<Pattern, String> {
        if self.patterns == PATTERNS_MAX {
            return Err(format!(
                "there are more than {PATTERNS_MAX} patterns: join some with `|`, or compare texts"
            ));
        }
        self.patterns += 1;
        let pattern = Pattern::compile(text)?;
        self.table_bytes += pattern.0.memory_usage();
        if self.table_bytes > TABLES_BYTES_MAX {
            return Err(format!(
                "the patterns need tables of more than {TABLES_BYTES_MAX} bytes together: make \
                 their repetitions shorter"
            ));
        }
        Ok(pattern)
    }
}

/// A compiled pattern.
pub(crate) struct Pattern(dense::DFA<Vec<u32>>);

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pattern")
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    fn compile(text: &str) -> Result<Self, String> {
        let syntax = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .nest_limit(24);
        let nfa = regex_automata::nfa::thompson::Config::new()
            .utf8(false)
            .nfa_size_limit(Some(COMPILING_BYTES_MAX))
            .shrink(false)
            .which_captures(regex_automata::nfa::thompson::WhichCaptures::None);
        let dfa = dense::Config::new()
            .dfa_size_limit(Some(TABLE_BYTES_MAX))
            .determinize_size_limit(Some(COMPILING_BYTES_MAX));
        let built = dense::Builder::new()
            .syntax(syntax)
            .thompson(nfa)
            .configure(dfa)
            .build(text);
        built.map(Self).map_err(|error| {
            if error.is_size_limit_exceeded() {
                return format!(
                    "the pattern needs a table of more than {TABLE_BYTES_MAX} bytes: make its \
                     repetitions shorter"
                );
            }
            "the pattern is not a regular expression, or too long: check its brackets, escapes and repetitions \
             (RE2's syntax; `(?u)` before characters that are not ASCII in classes)"
                .to_owned()
        })
    }

    /// Whether it matches somewhere in these bytes.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let input = Input::new(bytes).earliest(true);
        // The table has no byte at which it gives up.
        matches!(self.0.try_search_fwd(&input), Ok(Some(_)))
    }
}
