//! From the text of an expression to its tree.
//!
//! `lexer` makes tokens, `parser` the tree, whose names and functions are known then; `types`
//! refuses what can never be of use, because its types do not fit.

mod calls;
mod lexer;
mod parser;
mod types;

use crate::error::{ExpressionError, Fault};
use crate::tree::Node;
use crate::values::pattern::PatternBudget;
use types::Type;

/// The longest expression, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It says whether an entity matches.
    Condition,
    /// Its value is summed, compared or grouped by.
    Operand,
}

/// The tree of an expression that was checked. Its patterns count against `patterns`.
pub(crate) fn compile(
    source: &str,
    purpose: Purpose,
    patterns: &mut PatternBudget,
) -> Result<Node, ExpressionError> {
    compiled(source, purpose, patterns)
        .map_err(|fault| ExpressionError::at(source, fault.at, fault.problem))
}

fn compiled(source: &str, purpose: Purpose, patterns: &mut PatternBudget) -> Result<Node, Fault> {
    if source.len() > EXPRESSION_BYTES_MAX {
        let bytes = source.len();
        let problem = format!("it has {bytes} bytes: give at most {EXPRESSION_BYTES_MAX}");
        return Err(Fault::new(0, problem));
    }
    let tree = parser::parse(source, patterns)?;
    let found = types::type_of(&tree)?;
    if purpose == Purpose::Condition && !found.may_be(Type::Bool) {
        let problem =
            format!("it is {found}, not a condition: compare it, as in `value.total > 100`");
        return Err(Fault::new(tree.at, problem));
    }
    Ok(tree)
}
