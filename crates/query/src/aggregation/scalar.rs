//! Values that can be compared across entities.

use crate::evaluation::order_of;
use crate::values::{Value, times};
use std::cmp::Ordering;
use std::io::Write as _;

/// The longest text that is a least or greatest value, or makes a group, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 1024;

/// A least or greatest value.
#[derive(Clone, Debug)]
pub struct Scalar(Value<'static>);

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        order(&self.0, &other.0).is_eq()
    }
}

impl Scalar {
    /// A copy of a number, a text or a time; [`None`] for other values, and for long texts.
    pub(super) fn of(value: &Value<'_>) -> Option<Self> {
        Some(Self(match value {
            Value::Int(number) => Value::Int(*number),
            Value::Double(number) => Value::Double(*number),
            Value::Time(time) => Value::Time(*time),
            Value::Text(text) if text.len() <= TEXT_BYTES_MAX => {
                Value::Text(text.to_string().into())
            }
            _ => return None,
        }))
    }

    /// Whether a value may take its place.
    pub(super) fn is_scalar(value: &Value<'_>) -> bool {
        match value {
            Value::Int(_) | Value::Double(_) | Value::Time(_) => true,
            Value::Text(text) => text.len() <= TEXT_BYTES_MAX,
            _ => false,
        }
    }

    pub(super) fn value(&self) -> &Value<'static> {
        &self.0
    }

    /// The bytes of a text.
    pub(super) fn text_bytes(&self) -> usize {
        self.0.as_bytes().map_or(0, <[u8]>::len)
    }

    /// As JSON: a time is text.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut text = Vec::new();
        append_json(Some(&self.0), &mut text);
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

/// The order of all scalars: numbers, times, texts.
pub(super) fn order(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    let rank = |value: &Value<'_>| match value {
        Value::Int(_) | Value::Double(_) => 0,
        Value::Time(_) => 1,
        _ => 2,
    };
    rank(left)
        .cmp(&rank(right))
        .then_with(|| order_of(left, right).unwrap_or(Ordering::Equal))
}

/// Appends a value as JSON, null for one that no group can be made by. Numbers that are equal have
/// the same text.
pub(super) fn append_json(value: Option<&Value<'_>>, out: &mut Vec<u8>) {
    let written = match value {
        Some(Value::Bool(is)) => write!(out, "{is}"),
        Some(Value::Int(number)) => write!(out, "{number}"),
        Some(Value::Double(number)) => {
            // A whole number of 64 bits has one text as either type.
            const LIMIT: f64 = 9_223_372_036_854_775_808.0;
            if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(number) {
                write!(out, "{}", *number as i64)
            } else {
                serde_json::to_writer(&mut *out, number).map_err(Into::into)
            }
        }
        Some(Value::Text(text)) if text.len() <= TEXT_BYTES_MAX => {
            serde_json::to_writer(&mut *out, &**text).map_err(Into::into)
        }
        Some(Value::Time(time)) => {
            let text = times::text_of(*time).unwrap_or_default();
            write!(out, "\"{text}\"")
        }
        _ => write!(out, "null"),
    };
    debug_assert!(written.is_ok(), "a vector takes all that is written");
}
