//! Walks the tree of an expression over an entity.
//!
//! A part has a value, or does not fit. `&&` and `||` need only one part that decides, as in CEL:
//! `false && x` is false even where `x` does not fit. What does not fit in the end is no match.
//!
//! Fuel: a part costs one step, and what reads bytes costs one for each [`BYTES_PER_STEP`].

mod compute;
mod functions;
mod operators;

use crate::error::ExpressionError;
use crate::syntax::{self, Purpose};
use crate::tree::{Kind, Node, Quantifier, Variable};
use crate::values::Value;
use crate::values::json::{self, Step};
use crate::values::pattern::PatternBudget;
pub(crate) use operators::order_of;
use std::cell::Cell;
use std::fmt;

/// The most steps that an entity may take, so that none takes more than some milliseconds.
pub const FUEL: u32 = 30_000;

/// How many bytes are read in a step.
const BYTES_PER_STEP: usize = 64;

/// A version of an entity, as expressions see it.
#[derive(Clone, Copy, Debug)]
pub struct Entity<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version.
    pub version: u64,
    /// When it expires, in milliseconds since the Unix epoch; `None` for never.
    pub expires_unix_ms: Option<u64>,
    /// The value.
    pub value: &'a [u8],
    /// The time of the question, in milliseconds since the Unix epoch.
    pub now_unix_ms: u64,
}

/// An entity that expressions are evaluated over, with fuel for all of them.
#[derive(Debug)]
pub struct Subject<'a> {
    entity: &'a Entity<'a>,
    tank: u32,
    fuel: Cell<u32>,
}

/// An expression took more than [`FUEL`] steps for an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfFuel;

impl fmt::Display for OutOfFuel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the expression takes more than {FUEL} steps for one entity: make it simpler"
        )
    }
}

impl std::error::Error for OutOfFuel {}

/// Why a part has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Something is missing, or its type does not fit.
    Unfit,
    OutOfFuel,
}

/// A value, or why there is none.
type Evaluated<'a> = Result<Value<'a>, Stop>;

/// An expression that was checked.
#[derive(Debug)]
pub struct Expression(Node);

impl Expression {
    /// Compiles a condition.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    pub fn condition(text: &str) -> Result<Self, ExpressionError> {
        Self::condition_within(text, &mut PatternBudget::default())
    }

    /// Compiles a condition of a question whose patterns have this budget.
    pub(crate) fn condition_within(
        text: &str,
        patterns: &mut PatternBudget,
    ) -> Result<Self, ExpressionError> {
        syntax::compile(text, Purpose::Condition, patterns).map(Self)
    }

    /// Compiles an expression of any type, of a question whose patterns have this budget.
    pub(crate) fn operand(
        text: &str,
        patterns: &mut PatternBudget,
    ) -> Result<Self, ExpressionError> {
        syntax::compile(text, Purpose::Operand, patterns).map(Self)
    }

    /// Whether it needs values, or their sizes.
    #[must_use]
    pub fn needs_value(&self) -> bool {
        self.0.needs_value()
    }

    /// Whether an entity matches. What does not fit is no match.
    ///
    /// # Errors
    /// The fuel of the entity is used up.
    pub fn matches(&self, subject: &Subject<'_>) -> Result<bool, OutOfFuel> {
        let value = self.value(subject)?;
        Ok(matches!(value, Some(Value::Bool(true))))
    }

    /// Its value for an entity, if it fits.
    pub(crate) fn value<'a>(
        &'a self,
        subject: &Subject<'a>,
    ) -> Result<Option<Value<'a>>, OutOfFuel> {
        match subject.evaluate(&self.0, None) {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Unfit) => Ok(None),
            Err(Stop::OutOfFuel) => Err(OutOfFuel),
        }
    }
}

/// The variables of macros, from the innermost outwards.
#[derive(Clone, Copy)]
struct Scope<'s, 'a> {
    value: &'s Value<'a>,
    outer: Option<&'s Scope<'s, 'a>>,
}

impl<'a> Subject<'a> {
    /// An entity with a full tank.
    #[must_use]
    pub fn new(entity: &'a Entity<'a>) -> Self {
        Self::with_fuel(entity, FUEL)
    }

    /// An entity with this fuel.
    pub(crate) fn with_fuel(entity: &'a Entity<'a>, fuel: u32) -> Self {
        Self {
            entity,
            tank: fuel,
            fuel: Cell::new(fuel),
        }
    }

    /// The steps that were taken so far.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.tank - self.fuel.get()
    }

    /// Takes one step, and one for each piece of `bytes`.
    fn spend(&self, bytes: usize) -> Result<(), Stop> {
        let steps = 1 + u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX - 1);
        match self.fuel.get().checked_sub(steps) {
            Some(left) => {
                self.fuel.set(left);
                Ok(())
            }
            None => {
                self.fuel.set(0);
                Err(Stop::OutOfFuel)
            }
        }
    }

    fn evaluate<'s>(&self, node: &'a Node, scope: Option<&Scope<'s, 'a>>) -> Evaluated<'a> {
        self.spend(0)?;
        match &node.kind {
            Kind::Constant(value) => Ok(value.borrowed()),
            Kind::Variable(variable) => self.variable(*variable),
            Kind::Local(outward) => local(*outward, scope),
            Kind::Path(steps) => self.path(steps),
            Kind::Index(of, by) => {
                let (of, by) = (self.evaluate(of, scope)?, self.evaluate(by, scope)?);
                self.index(&of, &by)
            }
            Kind::Has(part) => match self.evaluate(part, scope) {
                Ok(_) => Ok(Value::Bool(true)),
                Err(Stop::Unfit) => Ok(Value::Bool(false)),
                Err(stop) => Err(stop),
            },
            Kind::Not(part) => Ok(Value::Bool(!self.condition(part, scope)?)),
            Kind::Negate(part) => compute::negate(&self.evaluate(part, scope)?),
            Kind::And(parts) => self.decide(parts, false, scope),
            Kind::Or(parts) => self.decide(parts, true, scope),
            Kind::Compare(comparison, pair) => {
                let [left, right] = self.pair(pair, scope)?;
                self.compare(*comparison, &left, &right)
            }
            Kind::Compute(operation, pair) => {
                let [left, right] = self.pair(pair, scope)?;
                self.compute(*operation, &left, &right)
            }
            Kind::In(pair) => {
                let [element, of] = self.pair(pair, scope)?;
                self.is_in(&element, &of)
            }
            Kind::Choose(parts) => {
                let [condition, yes, no] = parts.as_ref();
                let is = self.condition(condition, scope)?;
                self.evaluate(if is { yes } else { no }, scope)
            }
            Kind::List(parts) => {
                let values = parts.iter().map(|part| self.evaluate(part, scope));
                Ok(Value::List(values.collect::<Result<_, _>>()?))
            }
            Kind::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    Ok((self.evaluate(key, scope)?, self.evaluate(value, scope)?))
                });
                Ok(Value::Map(entries.collect::<Result<_, _>>()?))
            }
            Kind::Call(function, arguments) => match arguments.as_slice() {
                [one] => self.call(*function, &self.evaluate(one, scope)?),
                [of, with] => {
                    let (of, with) = (self.evaluate(of, scope)?, self.evaluate(with, scope)?);
                    self.call_with(*function, &of, &with)
                }
                _ => Err(Stop::Unfit),
            },
            Kind::Matches(of, pattern) => {
                let of = self.evaluate(of, scope)?;
                let text = of.as_bytes().ok_or(Stop::Unfit)?;
                self.spend(text.len())?;
                Ok(Value::Bool(pattern.is_in(text)))
            }
            Kind::Quantify(quantifier, pair) => {
                let [range, body] = pair.as_ref();
                let range = self.evaluate(range, scope)?;
                self.quantify(*quantifier, &range, body, scope)
            }
        }
    }

    fn pair(
        &self,
        pair: &'a [Node; 2],
        scope: Option<&Scope<'_, 'a>>,
    ) -> Result<[Value<'a>; 2], Stop> {
        let [left, right] = pair;
        Ok([self.evaluate(left, scope)?, self.evaluate(right, scope)?])
    }

    fn condition(&self, node: &'a Node, scope: Option<&Scope<'_, 'a>>) -> Result<bool, Stop> {
        match self.evaluate(node, scope)? {
            Value::Bool(is) => Ok(is),
            _ => Err(Stop::Unfit),
        }
    }

    /// `||` is decided by a part that is true, `&&` by one that is false.
    fn decide(
        &self,
        parts: &'a [Node],
        decisive: bool,
        scope: Option<&Scope<'_, 'a>>,
    ) -> Evaluated<'a> {
        let mut is_fit = true;
        for part in parts {
            match self.condition(part, scope) {
                Ok(is) if is == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(Stop::Unfit) => is_fit = false,
                Err(stop) => return Err(stop),
            }
        }
        if is_fit {
            Ok(Value::Bool(!decisive))
        } else {
            Err(Stop::Unfit)
        }
    }

    fn variable(&self, variable: Variable) -> Evaluated<'a> {
        let micros = |unix_ms: u64| {
            let micros = i64::try_from(unix_ms).ok()?.checked_mul(1000)?;
            Some(Value::Time(micros))
        };
        let value = match variable {
            Variable::Key => Some(Value::of_bytes(self.entity.key)),
            Variable::Version => i64::try_from(self.entity.version).ok().map(Value::Int),
            Variable::Expires => self
                .entity
                .expires_unix_ms
                .map_or(Some(Value::Null), micros),
            Variable::Size => i64::try_from(self.entity.value.len()).ok().map(Value::Int),
            Variable::Now => micros(self.entity.now_unix_ms),
        };
        value.ok_or(Stop::Unfit)
    }

    fn path(&self, steps: &[Step]) -> Evaluated<'a> {
        self.spend(self.entity.value.len())?;
        let text = std::str::from_utf8(self.entity.value).map_err(|_| Stop::Unfit)?;
        let part = json::find(text, steps).ok_or(Stop::Unfit)?;
        json::value_of(part).ok_or(Stop::Unfit)
    }

    fn quantify(
        &self,
        quantifier: Quantifier,
        range: &Value<'a>,
        body: &'a Node,
        outer: Option<&Scope<'_, 'a>>,
    ) -> Evaluated<'a> {
        let (mut is_fit, mut found) = (true, 0);
        let is_decided = |found| match quantifier {
            Quantifier::All | Quantifier::Exists => found > 0,
            Quantifier::ExistsOne => found > 1,
        };
        let wanted = quantifier != Quantifier::All;
        let mut stopped = None;
        self.each(range, |value| {
            let condition = match &value {
                Some(value) => self.condition(body, Some(&Scope { value, outer })),
                None => Err(Stop::Unfit),
            };
            match condition {
                Ok(is) => found += usize::from(is == wanted),
                Err(Stop::Unfit) => is_fit = false,
                Err(stop) => stopped = Some(stop),
            }
            stopped.is_none() && !is_decided(found)
        })?;
        if let Some(stop) = stopped {
            return Err(stop);
        }
        match quantifier {
            Quantifier::All | Quantifier::Exists if found > 0 => Ok(Value::Bool(wanted)),
            _ if !is_fit => Err(Stop::Unfit),
            Quantifier::All | Quantifier::Exists => Ok(Value::Bool(!wanted)),
            Quantifier::ExistsOne => Ok(Value::Bool(found == 1)),
        }
    }
}

/// The variable of a macro.
fn local<'a>(outward: usize, scope: Option<&Scope<'_, 'a>>) -> Evaluated<'a> {
    let mut scope = scope;
    for _ in 0..outward {
        scope = scope.and_then(|scope| scope.outer);
    }
    scope.map(|scope| scope.value.clone()).ok_or(Stop::Unfit)
}
