//! Sums, least and greatest values.

use super::scalar::{Scalar, order};
use crate::values::Value;
use std::fmt;

/// What is computed of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The sum of numbers.
    Sum,
    /// The least number, time or text.
    Min,
    /// The greatest number, time or text.
    Max,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
        })
    }
}

/// What an operation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The operation.
    pub operation: Operation,
    /// The result; null if nothing fitted, or if the sum is too great for a number.
    pub value: serde_json::Value,
    /// The number of entities whose value fitted.
    pub counted: u64,
}

/// What an operation has found so far.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    operation: Operation,
    counted: u64,
    /// The sum of whole numbers is exact.
    whole: i128,
    /// The sum of other numbers.
    fraction: f64,
    extreme: Option<Scalar>,
}

impl Accumulator {
    pub(super) fn new(operation: Operation) -> Self {
        Self {
            operation,
            counted: 0,
            whole: 0,
            fraction: 0.0,
            extreme: None,
        }
    }

    /// Counts a value, if it fits. Returns how many bytes of text more it keeps.
    pub(super) fn add(&mut self, value: &Value<'_>) -> isize {
        match (self.operation, value) {
            (Operation::Sum, Value::Int(number)) => self.whole += i128::from(*number),
            (Operation::Sum, Value::Double(number)) => self.fraction += number,
            (Operation::Sum, _) => return 0,
            (_, value) if !Scalar::is_scalar(value) => return 0,
            (_, value) => {
                self.counted += 1;
                return self.compare(value);
            }
        }
        self.counted += 1;
        0
    }

    /// Keeps a value that comes before or behind all others.
    fn compare(&mut self, value: &Value<'_>) -> isize {
        let is_better = self.extreme.as_ref().is_none_or(|extreme| {
            let order = order(value, extreme.value());
            match self.operation {
                Operation::Min => order.is_lt(),
                _ => order.is_gt(),
            }
        });
        if !is_better {
            return 0;
        }
        let before = self.text_bytes();
        self.extreme = Scalar::of(value);
        // Both are at most as long as a text that is kept.
        self.text_bytes() as isize - before as isize
    }

    /// The bytes of the text that it keeps.
    pub(super) fn text_bytes(&self) -> usize {
        self.extreme.as_ref().map_or(0, Scalar::text_bytes)
    }

    /// Adds what another one found. Returns how many bytes of text more it keeps.
    pub(super) fn merge(&mut self, other: Self) -> isize {
        self.counted += other.counted;
        self.whole += other.whole;
        self.fraction += other.fraction;
        match other.extreme {
            Some(extreme) => self.compare(extreme.value()),
            None => 0,
        }
    }
}

impl From<Accumulator> for Aggregate {
    fn from(accumulator: Accumulator) -> Self {
        let Accumulator {
            operation,
            counted,
            whole,
            fraction,
            extreme,
        } = accumulator;
        let value = match operation {
            Operation::Sum if counted == 0 => serde_json::Value::Null,
            Operation::Sum => match i64::try_from(whole) {
                Ok(whole) if fraction == 0.0 => whole.into(),
                _ => (whole as f64 + fraction).into(),
            },
            _ => extreme.map_or(serde_json::Value::Null, |extreme| extreme.to_json()),
        };
        Self {
            operation,
            value,
            counted,
        }
    }
}
