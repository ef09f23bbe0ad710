//! Arithmetic. What overflows, or divides by zero, does not fit.

use super::{Evaluated, Stop, Subject};
use crate::tree::Arithmetic;
use crate::values::Value;

impl<'a> Subject<'a> {
    pub(super) fn compute(
        &self,
        operation: Arithmetic,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Evaluated<'a> {
        let value = match (left, right) {
            (Value::Int(left), Value::Int(right)) => {
                whole(operation, *left, *right).map(Value::Int)
            }
            (Value::Text(left), Value::Text(right)) if operation == Arithmetic::Add => {
                self.spend((left.len() + right.len()) * 2)?;
                Some(Value::Text([&**left, &**right].concat().into()))
            }
            (Value::Time(time), Value::Duration(duration)) => {
                moved(operation, *time, *duration).map(Value::Time)
            }
            (Value::Duration(duration), Value::Time(time)) if operation == Arithmetic::Add => {
                time.checked_add(*duration).map(Value::Time)
            }
            (Value::Duration(left), Value::Duration(right)) => {
                moved(operation, *left, *right).map(Value::Duration)
            }
            (Value::Time(left), Value::Time(right)) if operation == Arithmetic::Subtract => {
                left.checked_sub(*right).map(Value::Duration)
            }
            (left, right) => double(operation, left, right).map(Value::Double),
        };
        value.ok_or(Stop::Unfit)
    }
}

pub(super) fn negate<'a>(value: &Value<'_>) -> Evaluated<'a> {
    match value {
        Value::Int(number) => number.checked_neg().map(Value::Int).ok_or(Stop::Unfit),
        Value::Double(number) => Ok(Value::Double(-number)),
        Value::Duration(time) => time.checked_neg().map(Value::Duration).ok_or(Stop::Unfit),
        _ => Err(Stop::Unfit),
    }
}

fn whole(operation: Arithmetic, left: i64, right: i64) -> Option<i64> {
    match operation {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => left.checked_rem(right),
    }
}

fn moved(operation: Arithmetic, left: i64, right: i64) -> Option<i64> {
    match operation {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        _ => None,
    }
}

fn double(operation: Arithmetic, left: &Value<'_>, right: &Value<'_>) -> Option<f64> {
    let number = |value: &Value<'_>| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Double(number) => Some(*number),
        _ => None,
    };
    let (left, right) = (number(left)?, number(right)?);
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => return None,
    };
    result.is_finite().then_some(result)
}
