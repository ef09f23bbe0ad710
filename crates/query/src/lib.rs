//! Questions about entities: which ones match a condition, how many there are, and the sums, least
//! and greatest values of what they hold.
//!
//! An [`Expression`] is one of CEL, the Common Expression Language, over the key, the version, the
//! expiry, the size and the value of an entity, which is read as JSON. It is checked before it runs
//! ([`ExpressionError`] points at the place). What does not fit an entity is no match: a field that
//! is missing, a text where a number is needed, a value that is not JSON.
//!
//! Evaluation takes at most [`FUEL`] steps for an entity, so no expression keeps a processor for
//! long. An [`Aggregation`] holds at most [`GROUPS_MAX`] groups. Both say so when they stop there.
//!
//! # The language
//!
//! | what | of CEL there are |
//! |---|---|
//! | names | `key` (text), `version` and `size` (numbers), `expires` (a time, or null), `value` (JSON), and `now`, the time of the question, which CEL does not have |
//! | literals | numbers, text as `'…'`, `"…"` and `r'…'`, `true`, `false`, `null`, lists, maps |
//! | operators | `&&`, `\|\|`, `!`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `+`, `-`, `*`, `/`, `%`, `? :`, `.field`, `[…]` |
//! | functions | `has`, `size`, `startsWith`, `endsWith`, `contains`, `matches`, `timestamp`, `duration`, `int`, `double`, `string` |
//! | macros | `exists`, `exists_one`, `all` |
//!
//! It differs from CEL in this: numbers are compared and computed with by what they count, because
//! JSON does not tell whole ones from others. `has(value.a.b)` is false if `value.a` is missing,
//! too. Patterns are of bytes, as `(?-u)` in RE2, unless they say `(?u)`. Unsigned numbers, bytes,
//! messages, `map` and `filter` are missing.
//!
//! `syntax` makes trees of texts, `evaluation` walks them, and `aggregation` counts. There is no
//! I/O, no clock and no chance here.

mod aggregation;
mod error;
mod evaluation;
pub mod fuzzing;
mod syntax;
mod tree;
mod values;

pub use aggregation::{
    Aggregate, Aggregation, AggregationError, GROUP_BYTES_MAX, GROUPS_MAX, Group, OPERANDS_MAX,
    Operation, Partial, Plan, Scalar, Summary,
};
pub use error::ExpressionError;
pub use evaluation::{Entity, Expression, FUEL, OutOfFuel, Subject};
pub use syntax::EXPRESSION_BYTES_MAX;
