//! Counts entities, and sums and compares what they hold, in groups.
//!
//! A [`Partial`] is what some entities amount to; partials of different entities merge into that of
//! all of them. Its memory is bounded: by the number of groups, and by the bytes of what names and
//! fills them.

mod operations;
mod scalar;

use crate::error::ExpressionError;
use crate::evaluation::{Entity, Expression, OutOfFuel, Subject};
use crate::values::pattern::PatternBudget;
use operations::Accumulator;
pub use operations::{Aggregate, Operation};
pub use scalar::Scalar;
use scalar::append_json;
use std::collections::BTreeMap;
use std::fmt;

/// The greatest number of groups.
pub const GROUPS_MAX: usize = 10_000;

/// The most memory that groups take, about, in bytes.
pub const GROUP_BYTES_MAX: usize = 8 << 20;

/// The greatest number of sums, least and greatest values, and the greatest number of expressions
/// that groups are made by.
pub const OPERANDS_MAX: usize = 8;

/// What a group takes besides its texts.
const BYTES_PER_GROUP: usize = 128;

/// What is asked of entities.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    /// Which entities count; all without one.
    pub condition: Option<&'a str>,
    /// The expressions whose values make the groups; without any there is one group.
    pub by: Vec<&'a str>,
    /// What is computed of each group, besides the number of its entities.
    pub operands: Vec<(Operation, &'a str)>,
}

/// Why a plan cannot be carried out, or why it ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregationError {
    /// The condition is wrong.
    Condition(ExpressionError),
    /// An expression of `by` is wrong.
    By(ExpressionError),
    /// The expression of an operation is wrong.
    Operand(Operation, ExpressionError),
    /// More than [`OPERANDS_MAX`] expressions in one list.
    TooManyOperands,
    /// More groups than [`GROUPS_MAX`].
    TooManyGroups,
    /// Groups of more than [`GROUP_BYTES_MAX`].
    TooManyBytes,
    /// An entity took too many steps.
    OutOfFuel,
}

impl fmt::Display for AggregationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(error) | Self::By(error) | Self::Operand(_, error) => error.fmt(f),
            Self::TooManyOperands => {
                write!(
                    f,
                    "more than {OPERANDS_MAX} expressions: ask several questions"
                )
            }
            Self::TooManyGroups => write!(
                f,
                "more than {GROUPS_MAX} groups: group by something with fewer values, or ask of \
                 fewer entities"
            ),
            Self::TooManyBytes => write!(
                f,
                "groups of more than {GROUP_BYTES_MAX} bytes: group by something shorter or with \
                 fewer values, or ask of fewer entities"
            ),
            Self::OutOfFuel => OutOfFuel.fmt(f),
        }
    }
}

impl std::error::Error for AggregationError {}

impl From<OutOfFuel> for AggregationError {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}

/// A plan that was checked.
#[derive(Debug)]
pub struct Aggregation {
    condition: Option<Expression>,
    by: Vec<Expression>,
    operands: Vec<(Operation, Expression)>,
}

impl Aggregation {
    /// Checks a plan.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn compile(plan: &Plan<'_>) -> Result<Self, AggregationError> {
        if plan.by.len().max(plan.operands.len()) > OPERANDS_MAX {
            return Err(AggregationError::TooManyOperands);
        }
        let mut patterns = PatternBudget::default();
        let condition = plan.condition;
        let condition = condition.map(|text| Expression::condition_within(text, &mut patterns));
        let condition = condition.transpose();
        let condition = condition.map_err(AggregationError::Condition)?;
        let by = plan.by.iter();
        let by = by.map(|text| Expression::operand(text, &mut patterns));
        let by = by.collect::<Result<_, _>>();
        let by = by.map_err(AggregationError::By)?;
        let operands = plan.operands.iter().map(|(operation, text)| {
            let expression = Expression::operand(text, &mut patterns);
            match expression {
                Ok(expression) => Ok((*operation, expression)),
                Err(error) => Err(AggregationError::Operand(*operation, error)),
            }
        });
        let operands = operands.collect::<Result<_, _>>()?;
        Ok(Self {
            condition,
            by,
            operands,
        })
    }

    /// Whether it needs values, or their sizes.
    #[must_use]
    pub fn needs_value(&self) -> bool {
        let operands = self.operands.iter().map(|(_, expression)| expression);
        let mut all = self.condition.iter().chain(&self.by).chain(operands);
        all.any(Expression::needs_value)
    }
}

/// What some entities amount to.
#[derive(Clone, Debug, Default)]
pub struct Partial {
    keys: u64,
    matched: u64,
    /// By the JSON text of the list of what makes the group.
    groups: BTreeMap<Box<[u8]>, Counted>,
    bytes: usize,
    /// The text of the group of an entity, kept to spare an allocation.
    name: Vec<u8>,
}

/// The entities of a group.
#[derive(Clone, Debug)]
struct Counted {
    count: u64,
    accumulators: Vec<Accumulator>,
}

/// The answer to a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The number of entities that were asked.
    pub keys: u64,
    /// The number of those that match the condition.
    pub matched: u64,
    /// The groups, in the order of what makes them, as JSON text. Without `by` there is one.
    pub groups: Vec<Group>,
}

/// A group of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What makes it: a value for each expression of `by`, null for what does not fit.
    pub by: Vec<serde_json::Value>,
    /// The number of its entities.
    pub count: u64,
    /// A result for each operand.
    pub aggregates: Vec<Aggregate>,
}

impl Partial {
    /// The number of entities that were counted.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// About how much memory the groups take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts an entity. Returns the steps that it took.
    ///
    /// # Errors
    /// The entity takes too many steps, or a bound of the groups is met. The partial is of no use
    /// then.
    pub fn add(
        &mut self,
        aggregation: &Aggregation,
        entity: &Entity<'_>,
    ) -> Result<u32, AggregationError> {
        self.keys += 1;
        let subject = Subject::new(entity);
        if let Some(condition) = &aggregation.condition
            && !condition.matches(&subject)?
        {
            return Ok(subject.steps());
        }
        self.matched += 1;
        self.name.clear();
        for (number, by) in aggregation.by.iter().enumerate() {
            self.name.push(if number == 0 { b'[' } else { b',' });
            append_json(by.value(&subject)?.as_ref(), &mut self.name);
        }
        let operations = aggregation.operands.iter().map(|(operation, _)| *operation);
        let mut bytes = self.bytes;
        let group = match self.groups.get_mut(self.name.as_slice()) {
            Some(group) => group,
            None => {
                bytes += bytes_of(self.name.len(), aggregation.operands.len());
                check_groups(self.groups.len() + 1, bytes)?;
                let group = Counted {
                    count: 0,
                    accumulators: operations.map(Accumulator::new).collect(),
                };
                self.groups
                    .entry(self.name.as_slice().into())
                    .or_insert(group)
            }
        };
        group.count += 1;
        for ((_, expression), accumulator) in
            aggregation.operands.iter().zip(&mut group.accumulators)
        {
            if let Some(value) = expression.value(&subject)? {
                bytes = bytes.saturating_add_signed(accumulator.add(&value));
            }
        }
        self.bytes = bytes;
        check_groups(self.groups.len(), bytes)?;
        Ok(subject.steps())
    }

    /// Adds what other entities of the same aggregation amount to.
    ///
    /// # Errors
    /// A bound of the groups is met.
    pub fn merge(&mut self, other: Self) -> Result<(), AggregationError> {
        self.keys += other.keys;
        self.matched += other.matched;
        for (name, theirs) in other.groups {
            let Some(ours) = self.groups.get_mut(&name) else {
                self.bytes += bytes_of(name.len(), theirs.accumulators.len());
                self.bytes += theirs
                    .accumulators
                    .iter()
                    .map(Accumulator::text_bytes)
                    .sum::<usize>();
                check_groups(self.groups.len() + 1, self.bytes)?;
                self.groups.insert(name, theirs);
                continue;
            };
            ours.count += theirs.count;
            for (ours, theirs) in ours.accumulators.iter_mut().zip(theirs.accumulators) {
                let change = ours.merge(theirs);
                self.bytes = self.bytes.saturating_add_signed(change);
            }
        }
        check_groups(self.groups.len(), self.bytes)
    }

    /// The answer. Without `by` there is one group, even of no entity.
    #[must_use]
    pub fn summary(self, aggregation: &Aggregation) -> Summary {
        let mut groups = self.groups;
        if aggregation.by.is_empty() {
            let operations = aggregation.operands.iter().map(|(operation, _)| *operation);
            groups.entry(Box::default()).or_insert_with(|| Counted {
                count: 0,
                accumulators: operations.map(Accumulator::new).collect(),
            });
        }
        let groups = groups.into_iter().map(|(name, counted)| {
            let mut name = name.into_vec();
            if name.is_empty() {
                name.push(b'[');
            }
            name.push(b']');
            Group {
                by: serde_json::from_slice(&name).unwrap_or_default(),
                count: counted.count,
                aggregates: counted
                    .accumulators
                    .into_iter()
                    .map(Aggregate::from)
                    .collect(),
            }
        });
        Summary {
            keys: self.keys,
            matched: self.matched,
            groups: groups.collect(),
        }
    }
}

/// What a group with a name of so many bytes takes without the texts that it keeps.
fn bytes_of(name: usize, operands: usize) -> usize {
    name + BYTES_PER_GROUP + size_of::<Accumulator>() * operands
}

fn check_groups(groups: usize, bytes: usize) -> Result<(), AggregationError> {
    if groups > GROUPS_MAX {
        return Err(AggregationError::TooManyGroups);
    }
    if bytes > GROUP_BYTES_MAX {
        return Err(AggregationError::TooManyBytes);
    }
    Ok(())
}
