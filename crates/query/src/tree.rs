//! The tree of an expression.

use crate::values::Value;
use crate::values::json::Step;
use crate::values::pattern::Pattern;

/// The deepest tree. Parsing and evaluation recurse once for each level.
pub(crate) const DEPTH_MAX: u8 = 48;

/// A part of an expression.
#[derive(Debug)]
pub(crate) struct Node {
    /// The byte of the expression that errors point at.
    pub(crate) at: usize,
    /// How many levels it has; a leaf has one.
    pub(crate) depth: u8,
    pub(crate) kind: Kind,
}

/// What a part is.
#[derive(Debug)]
pub(crate) enum Kind {
    Constant(Value<'static>),
    Variable(Variable),
    /// The variable of a macro, counted from the innermost one.
    Local(usize),
    /// What lies there in the value, read as JSON.
    Path(Vec<Step>),
    /// A field or an element of something else.
    Index(Box<Node>, Box<Node>),
    /// Whether a path or an index leads to something.
    Has(Box<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Compare(Comparison, Box<[Node; 2]>),
    Compute(Arithmetic, Box<[Node; 2]>),
    /// Whether a list has an element, or a map a key.
    In(Box<[Node; 2]>),
    Choose(Box<[Node; 3]>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Call(Function, Vec<Node>),
    Matches(Box<Node>, Box<Pattern>),
    /// A macro over the elements of a list, or the keys of a map.
    Quantify(Quantifier, Box<[Node; 2]>),
}

/// A name that every expression knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Key,
    Version,
    Expires,
    Size,
    Now,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// A function; `x.f(y)` and `f(x, y)` are the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Size,
    StartsWith,
    EndsWith,
    Contains,
    Timestamp,
    Duration,
    Int,
    Double,
    String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

impl Node {
    /// The parts of a part.
    pub(crate) fn parts(&self) -> Vec<&Self> {
        match &self.kind {
            Kind::Constant(_) | Kind::Variable(_) | Kind::Local(_) | Kind::Path(_) => Vec::new(),
            Kind::Index(of, by) => vec![of, by],
            Kind::Has(part) | Kind::Not(part) | Kind::Negate(part) | Kind::Matches(part, _) => {
                vec![part]
            }
            Kind::And(parts) | Kind::Or(parts) | Kind::List(parts) | Kind::Call(_, parts) => {
                parts.iter().collect()
            }
            Kind::Compare(_, pair)
            | Kind::Compute(_, pair)
            | Kind::In(pair)
            | Kind::Quantify(_, pair) => pair.iter().collect(),
            Kind::Choose(parts) => parts.iter().collect(),
            Kind::Map(pairs) => pairs.iter().flat_map(|(key, value)| [key, value]).collect(),
        }
    }

    /// Whether the value of an entity, or its length, is needed to evaluate it.
    pub(crate) fn needs_value(&self) -> bool {
        matches!(self.kind, Kind::Path(_) | Kind::Variable(Variable::Size))
            || self.parts().into_iter().any(Self::needs_value)
    }
}
