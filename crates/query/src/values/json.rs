//! Finds parts of a JSON text.
//!
//! A part is a piece of the text. What does not lead to it is passed over, and nothing is allocated
//! for it. The text is read to its end even so: one that is not JSON as a whole has no parts. Of
//! fields with the same name the last one counts.

use super::Value;
use super::text::Text;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A step into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Element(usize),
}

/// The part that the steps lead to, unless the text is not JSON or has no such part.
pub(crate) fn find<'a>(text: &'a str, steps: &[Step]) -> Option<&'a str> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = Find(steps).deserialize(&mut json).ok()??;
    json.end().ok()?;
    Some(found.get())
}

/// The value of a part: that of an array or an object is its text.
pub(crate) fn value_of(part: &str) -> Option<Value<'_>> {
    Some(match part.as_bytes().first()? {
        b'{' | b'[' => Value::Json(part),
        b'n' => Value::Null,
        b't' => Value::Bool(true),
        b'f' => Value::Bool(false),
        b'"' => Value::Text(text_of(part)?),
        _ => return number_of(part),
    })
}

fn text_of(part: &str) -> Option<Text<'_>> {
    let inner = part.get(1..part.len().checked_sub(1)?)?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Text::Borrowed(inner));
    }
    let text: String = serde_json::from_str(part).ok()?;
    Some(text.into())
}

fn number_of(part: &str) -> Option<Value<'_>> {
    if let Ok(number) = part.parse() {
        return Some(Value::Int(number));
    }
    let number: f64 = part.parse().ok()?;
    number.is_finite().then_some(Value::Double(number))
}

/// Gives each element of an array, or each name in an object, to `take`, until that says `false`;
/// [`None`] for one that has no value, such as a number that is too great.
pub(crate) fn each<'a>(text: &'a str, mut take: impl FnMut(Option<Value<'a>>) -> bool) {
    let mut json = serde_json::Deserializer::from_str(text);
    // The text is a part of one that was read to its end, so only a name may have no value.
    if json.deserialize_any(Each(&mut take)).is_err() {
        take(None);
    }
}

/// Gives each name in an object and its part to `take`. Returns whether all names are text.
#[must_use]
pub(crate) fn each_field<'a>(text: &'a str, take: impl FnMut(Text<'a>, &'a str)) -> bool {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(EachField(take)).is_ok()
}

struct Find<'s>(&'s [Step]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        match self.0.split_first() {
            None => serde::Deserialize::deserialize(json).map(Some),
            Some((step, rest)) => json.deserialize_any(FindBehind { step, rest }),
        }
    }
}

struct FindBehind<'s> {
    step: &'s Step,
    rest: &'s [Step],
}

/// What has no parts.
macro_rules! no_part {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, _: $type) -> Result<Self::Value, E> {
            Ok(None)
        })*
    };
}

impl<'de> Visitor<'de> for FindBehind<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    no_part!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let name = match self.step {
            Step::Field(name) => Some(name.as_str()),
            Step::Element(_) => None,
        };
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(IsName(name))? {
            if is_it {
                found = map.next_value_seed(Find(self.rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        if let Step::Element(number) = self.step {
            for _ in 0..*number {
                if list.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(None);
                }
            }
            found = list.next_element_seed(Find(self.rest))?.flatten();
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Whether a name is the one that is looked for.
struct IsName<'s>(Option<&'s str>);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == Some(name))
    }
}

struct Each<F>(F);

impl<'de, F: FnMut(Option<Value<'de>>) -> bool> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(part) = list.next_element::<&RawValue>()? {
            if !(self.0)(value_of(part.get())) {
                break;
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut wants_more = true;
        while let Some(name) = map.next_key_seed(Name)? {
            map.next_value::<IgnoredAny>()?;
            wants_more = wants_more && (self.0)(Some(Value::Text(name.into())));
        }
        Ok(())
    }
}

struct EachField<F>(F);

impl<'de, F: FnMut(Text<'de>, &'de str)> Visitor<'de> for EachField<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let part = map.next_value::<&RawValue>()?;
            (self.0)(name.into(), part.get());
        }
        Ok(())
    }
}

/// A name, borrowed unless it has escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}
