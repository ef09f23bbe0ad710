//! Comparisons, membership and indexes.

use super::{Evaluated, Stop, Subject};
use crate::tree::Comparison;
use crate::values::Value;
use crate::values::json::{self, Step};
use crate::values::text::Text;
use std::cmp::Ordering;
use std::collections::BTreeMap;

impl<'a> Subject<'a> {
    pub(super) fn compare(
        &self,
        comparison: Comparison,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Evaluated<'a> {
        let is = match comparison {
            Comparison::Equal => self.is_equal(left, right)?,
            Comparison::Unequal => !self.is_equal(left, right)?,
            _ => {
                self.spend(left.as_bytes().map_or(0, <[u8]>::len))?;
                let order = order_of(left, right).ok_or(Stop::Unfit)?;
                match comparison {
                    Comparison::Less => order.is_lt(),
                    Comparison::LessOrEqual => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    _ => order.is_ge(),
                }
            }
        };
        Ok(Value::Bool(is))
    }

    /// Whether two values are equal. Those of different types are not, but numbers are by what
    /// they count.
    fn is_equal(&self, left: &Value<'a>, right: &Value<'a>) -> Result<bool, Stop> {
        self.spend(left.as_bytes().map_or(0, <[u8]>::len))?;
        if let Some(order) = order_of(left, right) {
            return Ok(order.is_eq());
        }
        if !(is_map(left) && is_map(right) || is_list(left) && is_list(right)) {
            return Ok(matches!((left, right), (Value::Null, Value::Null)));
        }
        if let (Some(left), Some(right)) = (self.fields(left)?, self.fields(right)?) {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (name, left) in &left {
                match right.get(name) {
                    Some(right) if self.is_equal(left, right)? => {}
                    _ => return Ok(false),
                }
            }
            return Ok(true);
        }
        let (Some(left), Some(right)) = (self.elements(left)?, self.elements(right)?) else {
            return Ok(false);
        };
        if left.len() != right.len() {
            return Ok(false);
        }
        for (left, right) in left.iter().zip(&right) {
            if !self.is_equal(left, right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The fields of a map whose keys are texts.
    fn fields(&self, value: &Value<'a>) -> Result<Option<BTreeMap<Text<'a>, Value<'a>>>, Stop> {
        let mut fields = BTreeMap::new();
        match value {
            Value::Json(text) if text.starts_with('{') => {
                self.spend(text.len() * COST_OF_PARTS)?;
                let mut is_fit = true;
                let is_read = json::each_field(text, |name, part| match json::value_of(part) {
                    Some(value) => {
                        fields.insert(name, value);
                    }
                    None => is_fit = false,
                });
                if !is_read || !is_fit {
                    return Err(Stop::Unfit);
                }
            }
            Value::Map(entries) => {
                for (key, value) in entries.iter() {
                    let Value::Text(key) = key else {
                        return Ok(None);
                    };
                    self.spend(BYTES_PER_FIELD + key.len())?;
                    fields.insert(key.clone(), value.clone());
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(fields))
    }

    /// The elements of a list.
    fn elements(&self, value: &Value<'a>) -> Result<Option<Vec<Value<'a>>>, Stop> {
        if !is_list(value) {
            return Ok(None);
        }
        let mut elements = Some(Vec::new());
        self.each(value, |element| {
            match (&mut elements, element) {
                (Some(elements), Some(element)) => elements.push(element),
                _ => elements = None,
            }
            elements.is_some()
        })?;
        elements.map(Some).ok_or(Stop::Unfit)
    }

    /// Gives each element of a list, or each key of a map, to `take`, until that says `false`;
    /// [`None`] for one that does not fit.
    pub(super) fn each(
        &self,
        range: &Value<'a>,
        mut take: impl FnMut(Option<Value<'a>>) -> bool,
    ) -> Result<(), Stop> {
        match range {
            Value::Json(text) => {
                self.spend(text.len() * COST_OF_PARTS)?;
                json::each(text, take);
            }
            Value::List(values) => {
                self.spend(values.len())?;
                for value in values.iter() {
                    if !take(Some(value.clone())) {
                        break;
                    }
                }
            }
            Value::Map(entries) => {
                self.spend(entries.len())?;
                for (key, _) in entries.iter() {
                    if !take(Some(key.clone())) {
                        break;
                    }
                }
            }
            _ => return Err(Stop::Unfit),
        }
        Ok(())
    }

    pub(super) fn is_in(&self, element: &Value<'a>, of: &Value<'a>) -> Evaluated<'a> {
        let (mut is_in, mut is_fit) = (Ok(false), true);
        self.each(of, |other| {
            let equal = other.map(|other| self.is_equal(element, &other));
            match equal {
                None | Some(Err(Stop::Unfit)) => is_fit = false,
                Some(equal) => is_in = equal,
            }
            matches!(is_in, Ok(false))
        })?;
        match is_in? {
            false if !is_fit => Err(Stop::Unfit),
            is_in => Ok(Value::Bool(is_in)),
        }
    }

    pub(super) fn index(&self, of: &Value<'a>, by: &Value<'a>) -> Evaluated<'a> {
        match of {
            Value::Json(text) => {
                self.spend(text.len() + by.as_bytes().map_or(0, <[u8]>::len))?;
                let step = match by {
                    Value::Text(name) => Step::Field(name.to_string()),
                    Value::Int(number) => {
                        Step::Element(usize::try_from(*number).map_err(|_| Stop::Unfit)?)
                    }
                    _ => return Err(Stop::Unfit),
                };
                let part = json::find(text, &[step]).ok_or(Stop::Unfit)?;
                json::value_of(part).ok_or(Stop::Unfit)
            }
            Value::List(values) => {
                let Value::Int(number) = by else {
                    return Err(Stop::Unfit);
                };
                let number = usize::try_from(*number).ok();
                let value = number.and_then(|number| values.get(number));
                value.cloned().ok_or(Stop::Unfit)
            }
            Value::Map(entries) => {
                for (key, value) in entries.iter() {
                    if self.is_equal(key, by)? {
                        return Ok(value.clone());
                    }
                }
                Err(Stop::Unfit)
            }
            _ => Err(Stop::Unfit),
        }
    }
}

/// Each byte of a JSON text counts for so many where its parts are gone through, because a part may
/// be two bytes long.
const COST_OF_PARTS: usize = 8;

/// What a field of a map counts for, besides its bytes.
const BYTES_PER_FIELD: usize = 128;

fn is_map(value: &Value<'_>) -> bool {
    match value {
        Value::Json(text) => text.starts_with('{'),
        Value::Map(_) => true,
        _ => false,
    }
}

fn is_list(value: &Value<'_>) -> bool {
    match value {
        Value::Json(text) => text.starts_with('['),
        Value::List(_) => true,
        _ => false,
    }
}

/// The order of two values that have one.
pub(crate) fn order_of(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    Some(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right)?,
        (Value::Int(left), Value::Double(right)) => mixed_order(*left, *right)?,
        (Value::Double(left), Value::Int(right)) => mixed_order(*right, *left)?.reverse(),
        (Value::Time(left), Value::Time(right))
        | (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (left, right) => left.as_bytes()?.cmp(right.as_bytes()?),
    })
}

/// The order of a whole number and another, without rounding.
fn mixed_order(whole: i64, other: f64) -> Option<Ordering> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if other.is_nan() {
        return None;
    }
    if other >= LIMIT {
        return Some(Ordering::Less);
    }
    if other < -LIMIT {
        return Some(Ordering::Greater);
    }
    let floor = other.floor();
    let order = whole.cmp(&(floor as i64));
    Some(order.then(if other > floor {
        Ordering::Less
    } else {
        Ordering::Equal
    }))
}
