//! The fields of a line: of an entity, or of an operation of a batch.
//!
//! Serde's own errors repeat a name or a string that they do not expect, however long it is,
//! and with escapes in place of what cannot be printed. A line may be as long as the longest
//! value, so names and strings are taken by visitors here that do not repeat them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use std::borrow::Cow;
use std::fmt;

/// A name that is longer is not repeated in an error.
const NAME_BYTES_SHOWN_MAX: usize = 64;

/// The fields of a line. Strings are borrowed from the line unless they have escapes.
#[derive(Debug, Default)]
pub struct Fields<'a> {
    /// What an operation does.
    pub op: Option<Cow<'a, str>>,
    /// The key as text.
    pub key: Option<Cow<'a, str>>,
    /// The key in base64.
    pub key_base64: Option<Cow<'a, str>>,
    /// The value as text.
    pub value: Option<Cow<'a, str>>,
    /// The value in base64.
    pub value_base64: Option<Cow<'a, str>>,
    /// The version, a decimal number.
    pub version: Option<Cow<'a, str>>,
    /// After how many seconds the entity expires.
    pub ttl: Option<u64>,
    /// When it expires (RFC 3339).
    pub expires: Option<Cow<'a, str>>,
    /// A common prefix of keys as text.
    pub prefix: Option<Cow<'a, str>>,
    /// A common prefix of keys in base64.
    pub prefix_base64: Option<Cow<'a, str>>,
    /// The version that a write replaces, a decimal number.
    pub if_version: Option<Cow<'a, str>>,
    /// Whether a write needs a key without a value.
    pub if_absent: Option<bool>,
    /// Whether a put keeps the value and changes its expiry.
    pub touch: Option<bool>,
}

impl<'a> Fields<'a> {
    /// Reads a line, with or without its end. A field that is given twice or has none of the
    /// `names` makes the line wrong: a typing error must not change what is stored.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub fn read(line: &'a [u8], names: &'static [&'static str]) -> Result<Self, String> {
        // Serde's error would repeat all of a string.
        let kind = match line.trim_ascii_start().first() {
            Some(b'[') => Some("an array"),
            Some(b'"') => Some("a string"),
            _ => None,
        };
        if let Some(kind) = kind {
            let first = names.first().copied().unwrap_or_default();
            return Err(format!("it is {kind}: write an object, {{\"{first}\":…}}"));
        }
        let mut json = serde_json::Deserializer::from_slice(line);
        let fields = FieldsOf(names).deserialize(&mut json);
        fields
            .and_then(|fields| json.end().map(|()| fields))
            .map_err(|error| shown(&error))
    }
}

/// What is wrong with the JSON of a line. Serde counts lines, too, but sees only this one.
fn shown(error: &serde_json::Error) -> String {
    let column = error.column();
    match error.classify() {
        Category::Eof => "it is not a line of JSON: it ends too early".to_owned(),
        Category::Syntax | Category::Io => {
            format!("it is not a line of JSON: see column {column}")
        }
        Category::Data => {
            let text = error.to_string();
            let place = format!(" at line {} column {column}", error.line());
            let what = text.strip_suffix(&place).unwrap_or(&text);
            // Of another type serde says what came, and then what the visitor expects: a sentence.
            let what = what
                .split_once(", expected ")
                .map_or(what, |(_, what)| what);
            format!("{what} (column {column})")
        }
    }
}

/// The bytes of a field that is given as text or in base64.
///
/// # Errors
/// Both are given, or the base64 is none.
pub fn bytes_of<'a>(
    name: &str,
    text: Option<Cow<'a, str>>,
    base64: Option<Cow<'a, str>>,
) -> Result<Option<Cow<'a, [u8]>>, String> {
    match (text, base64) {
        (Some(Cow::Borrowed(text)), None) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
        (Some(Cow::Owned(text)), None) => Ok(Some(Cow::Owned(text.into_bytes()))),
        (None, Some(base64)) => match BASE64.decode(&*base64) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) => Err(format!("`{name}_base64` is not base64: {error}")),
        },
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(format!(
            "it has `{name}` and `{name}_base64`: give one of them"
        )),
    }
}

/// Reads the fields of these names.
#[derive(Clone, Copy)]
struct FieldsOf(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for FieldsOf {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsOf {
    type Value = Fields<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("it has to be an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut seen = 0_u32;
        let mut fields = Fields::default();
        while let Some(Text(name)) = map.next_key()? {
            let known = self.0.iter().enumerate().find(|(_, known)| **known == name);
            let Some((index, known)) = known else {
                return Err(A::Error::custom(unknown(&name, self.0)));
            };
            if seen & 1 << index != 0 {
                return Err(A::Error::custom(format_args!(
                    "it has `{known}` twice: give it once"
                )));
            }
            seen |= 1 << index;
            let (text, number) = (TextOf(known), NumberOf(known));
            match *known {
                "op" => fields.op = map.next_value_seed(text)?,
                "key" => fields.key = map.next_value_seed(text)?,
                "key_base64" => fields.key_base64 = map.next_value_seed(text)?,
                "value" => fields.value = map.next_value_seed(text)?,
                "value_base64" => fields.value_base64 = map.next_value_seed(text)?,
                "version" => fields.version = map.next_value_seed(NumberOrTextOf(known))?,
                "ttl" => fields.ttl = map.next_value_seed(number)?,
                "prefix" => fields.prefix = map.next_value_seed(text)?,
                "prefix_base64" => fields.prefix_base64 = map.next_value_seed(text)?,
                "if_version" => fields.if_version = map.next_value_seed(text)?,
                "if_absent" => fields.if_absent = map.next_value_seed(BoolOf(known))?,
                "touch" => fields.touch = map.next_value_seed(BoolOf(known))?,
                _ => fields.expires = map.next_value_seed(text)?,
            }
        }
        if fields.op.is_none() && self.0.contains(&"op") {
            return Err(A::Error::custom("it has no `op`: give put, get or delete"));
        }
        Ok(fields)
    }
}

/// What is said of a field that has none of the `names`.
fn unknown(name: &str, names: &[&str]) -> String {
    if name == "ttl" {
        return "`ttl` is for a batch: give the time itself in `expires`".to_owned();
    }
    let shown = if name.len() <= NAME_BYTES_SHOWN_MAX {
        name
    } else {
        "…"
    };
    format!(
        "there is no field `{shown}`: a line may have {}",
        names.join(", ")
    )
}

/// The name of a field: a string that is borrowed from the line unless it has escapes. (Serde
/// copies the strings of an optional `Cow`.)
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_str(TextOf("a name"))?;
        Ok(Self(text.unwrap_or_default()))
    }
}

/// Reads the text of the field of this name, which may be `null`; it is borrowed from the line
/// unless it has escapes.
struct TextOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for TextOf<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for TextOf<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` has to be a string", self.0)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text)))
    }
}

/// Reads the number without a sign of the field of this name, which may be `null`.
struct NumberOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for NumberOf<'_> {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        // Who asks for a number alone gets an error with all of a string that comes instead.
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for NumberOf<'_> {
    type Value = Option<u64>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` has to be a whole number", self.0)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }
}

/// Reads the field of this name, `true` or `false`, which may be `null`.
struct BoolOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for BoolOf<'_> {
    type Value = Option<bool>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for BoolOf<'_> {
    type Value = Option<bool>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` has to be true or false", self.0)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Self::Value, E> {
        Ok(Some(is_true))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Err(E::invalid_type(Unexpected::Other("string"), &self))
    }
}

/// Reads the number without a sign, as such or as a string, of the field of this name, which may
/// be `null`.
struct NumberOrTextOf<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for NumberOrTextOf<'_> {
    type Value = Option<Cow<'de, str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NumberOrTextOf<'_> {
    type Value = Option<Cow<'de, str>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` has to be a number in a string", self.0)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number.to_string().into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(Cow::Owned(text.to_owned())))
    }
}
