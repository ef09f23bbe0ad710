//! The fields of a line.
//!
//! Serde's own errors repeat a name or a string that they do not expect, however long it is,
//! and with escapes in place of what cannot be printed. A line may be as long as the longest
//! value, so names and strings are taken by visitors here that do not repeat them.

use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// The names of the fields, as errors list them.
const NAMES: &[&str] = &[
    "op",
    "key",
    "key_base64",
    "value",
    "value_base64",
    "ttl",
    "expires",
];

/// A name that is longer is not repeated in an error.
const NAME_BYTES_SHOWN_MAX: usize = 64;

/// A line as JSON.
pub(super) struct Fields<'a> {
    pub(super) op: Text<'a>,
    pub(super) key: Option<Text<'a>>,
    pub(super) key_base64: Option<Text<'a>>,
    pub(super) value: Option<Text<'a>>,
    pub(super) value_base64: Option<Text<'a>>,
    pub(super) ttl: Option<u64>,
    pub(super) expires: Option<Text<'a>>,
}

/// A string that is borrowed from the line unless it has escapes. (Serde copies the
/// strings of an optional `Cow`.)
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

/// A number without a sign.
struct Number(u64);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut op, mut key, mut key_base64) = (None, None, None);
        let (mut value, mut value_base64) = (None, None);
        let (mut ttl, mut expires) = (None, None);
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "op" => take(&mut map, "op", &mut op)?,
                "key" => take(&mut map, "key", &mut key)?,
                "key_base64" => take(&mut map, "key_base64", &mut key_base64)?,
                "value" => take(&mut map, "value", &mut value)?,
                "value_base64" => take(&mut map, "value_base64", &mut value_base64)?,
                "ttl" => take(&mut map, "ttl", &mut ttl)?,
                "expires" => take(&mut map, "expires", &mut expires)?,
                _ => {
                    let is_shown = name.len() <= NAME_BYTES_SHOWN_MAX;
                    let shown = if is_shown { &*name } else { "…" };
                    return Err(A::Error::unknown_field(shown, NAMES));
                }
            }
        }
        Ok(Fields {
            op: op.ok_or_else(|| A::Error::missing_field("op"))?,
            key: key.flatten(),
            key_base64: key_base64.flatten(),
            value: value.flatten(),
            value_base64: value_base64.flatten(),
            ttl: ttl.flatten().map(|Number(number)| number),
            expires: expires.flatten(),
        })
    }
}

/// Takes the value of a field, which may be given once.
fn take<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut A,
    name: &'static str,
    field: &mut Option<T>,
) -> Result<(), A::Error> {
    if field.is_some() {
        return Err(A::Error::duplicate_field(name));
    }
    *field = Some(map.next_value()?);
    Ok(())
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Who asks for a number alone gets an error with all of a string that comes instead.
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("u64")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Number(number))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }
}
