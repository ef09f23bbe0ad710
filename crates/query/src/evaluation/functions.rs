//! Functions.

use super::{Evaluated, Stop, Subject};
use crate::tree::Function;
use crate::values::{Value, times};

impl<'a> Subject<'a> {
    /// A function of one argument.
    pub(super) fn call(&self, function: Function, of: &Value<'a>) -> Evaluated<'a> {
        self.spend(of.as_bytes().map_or(0, <[u8]>::len))?;
        let value = match (function, of) {
            (Function::Size, _) => return self.size(of),
            (Function::Timestamp, Value::Text(text)) => times::time_of(text).map(Value::Time),
            (Function::Timestamp, Value::Int(seconds)) => {
                seconds.checked_mul(1_000_000).map(Value::Time)
            }
            (Function::Timestamp, Value::Time(_))
            | (Function::Duration, Value::Duration(_))
            | (Function::Int, Value::Int(_))
            | (Function::Double, Value::Double(_))
            | (Function::String, Value::Text(_)) => Some(of.clone()),
            (Function::Duration, Value::Text(text)) => {
                times::duration_of(text).map(Value::Duration)
            }
            (Function::Int, Value::Double(number)) => whole_part(*number).map(Value::Int),
            (Function::Int, Value::Text(text)) => text.parse().ok().map(Value::Int),
            (Function::Int, Value::Time(time)) => Some(Value::Int(time.div_euclid(1_000_000))),
            (Function::Double, Value::Int(number)) => Some(Value::Double(*number as f64)),
            (Function::Double, Value::Text(text)) => {
                let number: Option<f64> = text.parse().ok();
                number
                    .filter(|number| number.is_finite())
                    .map(Value::Double)
            }
            (Function::String, of) => text_of(of).map(|text| Value::Text(text.into())),
            _ => None,
        };
        value.ok_or(Stop::Unfit)
    }

    /// A function of two texts.
    pub(super) fn call_with(
        &self,
        function: Function,
        of: &Value<'a>,
        with: &Value<'a>,
    ) -> Evaluated<'a> {
        let (Some(text), Some(part)) = (of.as_bytes(), with.as_bytes()) else {
            return Err(Stop::Unfit);
        };
        self.spend(text.len().min(part.len()))?;
        let is = match function {
            Function::StartsWith => text.starts_with(part),
            Function::EndsWith => text.ends_with(part),
            Function::Contains => {
                self.spend(text.len())?;
                memchr::memmem::find(text, part).is_some()
            }
            _ => return Err(Stop::Unfit),
        };
        Ok(Value::Bool(is))
    }

    /// Characters of a text, bytes of a key that is none, elements of a list, keys of a map.
    fn size(&self, of: &Value<'a>) -> Evaluated<'a> {
        let (mut size, mut is_fit) = (0, true);
        match of {
            Value::Text(text) => size = text.chars().count(),
            Value::Bytes(bytes) => size = bytes.len(),
            Value::List(values) => size = values.len(),
            Value::Map(entries) => size = entries.len(),
            _ => self.each(of, |element| {
                size += 1;
                is_fit = is_fit && element.is_some();
                is_fit
            })?,
        }
        if !is_fit {
            return Err(Stop::Unfit);
        }
        i64::try_from(size).map(Value::Int).map_err(|_| Stop::Unfit)
    }
}

/// A number without its fraction, if it has 64 bits.
fn whole_part(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (number.abs() < LIMIT).then_some(number as i64)
}

fn text_of(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Bool(is) => Some(is.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Double(number) => Some(number.to_string()),
        Value::Time(time) => times::text_of(*time),
        _ => None,
    }
}
