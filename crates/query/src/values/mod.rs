//! The values that parts of an expression have.
//!
//! `json` finds parts of a JSON text without making values of the others; `text` is what is cheap
//! to copy; `times` reads times and durations; `pattern` compiles regular expressions.

pub(crate) mod json;
pub(crate) mod pattern;
pub(crate) mod text;
pub(crate) mod times;

use std::sync::Arc;
use text::Text;

/// A value. Those of an entity borrow from it, so most take no allocation.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Text<'a>),
    /// A key that is not UTF-8.
    Bytes(&'a [u8]),
    /// Microseconds since the Unix epoch.
    Time(i64),
    /// Microseconds.
    Duration(i64),
    /// The text of a JSON array or object.
    Json(&'a str),
    List(Arc<[Value<'a>]>),
    Map(Arc<[(Value<'a>, Value<'a>)]>),
}

impl<'a> Value<'a> {
    /// The same value, which borrows what is long.
    pub(crate) fn borrowed(&'a self) -> Self {
        match self {
            Self::Text(text) => Self::Text(Text::Borrowed(text)),
            other => other.clone(),
        }
    }

    /// The bytes of a text.
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A key as a value.
    pub(crate) fn of_bytes(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(Text::Borrowed(text)),
            Err(_) => Self::Bytes(bytes),
        }
    }
}
