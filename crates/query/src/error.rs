//! What is wrong with an expression, and where.

use std::fmt;

/// An expression that cannot be evaluated.
///
/// Its text has three lines: the problem, the line of the expression, and a caret below the
/// place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The problem, and what to do.
    pub problem: String,
    /// The line of the expression that has the place.
    pub line: String,
    /// The place in the line, in characters from its beginning.
    pub column: usize,
}

impl ExpressionError {
    /// An error at this byte of `source`.
    pub(crate) fn at(source: &str, at: usize, problem: impl fmt::Display) -> Self {
        let mut at = at.min(source.len());
        while !source.is_char_boundary(at) {
            at -= 1;
        }
        let (before, behind) = source.split_at(at);
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = behind.find('\n').unwrap_or(behind.len());
        Self {
            problem: problem.to_string(),
            line: source[begin..at + end].replace(char::is_control, " "),
            column: before[begin..].chars().count(),
        }
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            problem,
            line,
            column,
        } = self;
        write!(f, "{problem}\n{line}\n{:column$}^", "")
    }
}

impl std::error::Error for ExpressionError {}

/// A problem and the byte of the expression that it is at.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) problem: String,
}

impl Fault {
    pub(crate) fn new(at: usize, problem: impl fmt::Display) -> Self {
        Self {
            at,
            problem: problem.to_string(),
        }
    }
}
