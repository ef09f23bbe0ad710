//! What type a part has, as far as that is known before it runs.
//!
//! JSON has any type. Only what no entity can make fit is refused here.

use crate::error::Fault;
use crate::tree::{Arithmetic, Comparison, Function, Kind, Node, Variable};
use crate::values::Value;
use std::fmt;

/// The type of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Any,
    Null,
    Bool,
    Number,
    Text,
    Time,
    /// A time or null.
    Expiry,
    Duration,
    List,
    Map,
}

impl Type {
    /// Whether a value of this type can be one of the other.
    pub(super) fn may_be(self, other: Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Expiry, Self::Time | Self::Null) | (Self::Time | Self::Null, Self::Expiry) => {
                true
            }
            (one, other) => one == other,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any value",
            Self::Null => "null",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Time | Self::Expiry => "a time",
            Self::Duration => "a duration",
            Self::List => "a list",
            Self::Map => "a map",
        })
    }
}

/// The type of a part whose parts fit.
pub(super) fn type_of(node: &Node) -> Result<Type, Fault> {
    Ok(match &node.kind {
        Kind::Constant(value) => type_of_value(value),
        Kind::Variable(variable) => match variable {
            Variable::Key => Type::Text,
            Variable::Version | Variable::Size => Type::Number,
            Variable::Expires => Type::Expiry,
            Variable::Now => Type::Time,
        },
        Kind::Local(_) | Kind::Path(_) => Type::Any,
        Kind::Index(of, by) => {
            require(of, &[Type::List, Type::Map])?;
            require(by, &[Type::Number, Type::Text, Type::Bool])?;
            Type::Any
        }
        Kind::Has(part) => {
            type_of(part)?;
            Type::Bool
        }
        Kind::Not(part) => require(part, &[Type::Bool])?,
        Kind::Negate(part) => require(part, &[Type::Number, Type::Duration])?,
        Kind::And(parts) | Kind::Or(parts) => {
            for part in parts {
                require(part, &[Type::Bool])?;
            }
            Type::Bool
        }
        Kind::Compare(comparison, pair) => {
            compared(node.at, *comparison, type_of(&pair[0])?, type_of(&pair[1])?)?
        }
        Kind::Compute(operation, pair) => {
            computed(node.at, *operation, type_of(&pair[0])?, type_of(&pair[1])?)?
        }
        Kind::In(pair) => {
            type_of(&pair[0])?;
            require(&pair[1], &[Type::List, Type::Map])?;
            Type::Bool
        }
        Kind::Choose(parts) => {
            require(&parts[0], &[Type::Bool])?;
            let (yes, no) = (type_of(&parts[1])?, type_of(&parts[2])?);
            if yes == no { yes } else { Type::Any }
        }
        Kind::List(_) | Kind::Map(_) => {
            for part in node.parts() {
                type_of(part)?;
            }
            match node.kind {
                Kind::List(_) => Type::List,
                _ => Type::Map,
            }
        }
        Kind::Call(function, arguments) => called(*function, arguments)?,
        Kind::Matches(of, _) => {
            require(of, &[Type::Text])?;
            Type::Bool
        }
        Kind::Quantify(_, pair) => {
            require(&pair[0], &[Type::List, Type::Map])?;
            require(&pair[1], &[Type::Bool])?;
            Type::Bool
        }
    })
}

fn type_of_value(value: &Value<'_>) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) | Value::Double(_) => Type::Number,
        Value::Text(_) | Value::Bytes(_) => Type::Text,
        Value::Time(_) => Type::Time,
        Value::Duration(_) => Type::Duration,
        Value::List(_) => Type::List,
        Value::Map(_) => Type::Map,
        Value::Json(_) => Type::Any,
    }
}

/// The type of a part that must be one of these.
fn require(node: &Node, wanted: &[Type]) -> Result<Type, Fault> {
    let found = type_of(node)?;
    if wanted.iter().any(|wanted| found.may_be(*wanted)) {
        return Ok(found);
    }
    let wanted: Vec<_> = wanted.iter().map(Type::to_string).collect();
    let problem = format!("this is {found}, where {} is needed", wanted.join(" or "));
    Err(Fault::new(node.at, problem))
}

fn compared(at: usize, comparison: Comparison, left: Type, right: Type) -> Result<Type, Fault> {
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
    let has_order = |found: Type| !matches!(found, Type::Null | Type::List | Type::Map);
    let has_null = left == Type::Null || right == Type::Null;
    let fits = if is_equality {
        left.may_be(right) || has_null
    } else {
        left.may_be(right) && has_order(left) && has_order(right)
    };
    if fits {
        return Ok(Type::Bool);
    }
    let problem = format!("{left} cannot be compared with {right} so");
    Err(Fault::new(at, problem))
}

fn computed(at: usize, operation: Arithmetic, left: Type, right: Type) -> Result<Type, Fault> {
    use Type::{Any, Duration, Number, Text, Time};
    let plain = |found| if found == Type::Expiry { Time } else { found };
    Ok(match (operation, plain(left), plain(right)) {
        (_, Any, Any | Number) | (_, Number, Any) => Any,
        (_, Number, Number) => Number,
        (Arithmetic::Add, Any | Text, Text) | (Arithmetic::Add, Text, Any) => Text,
        (Arithmetic::Add, Any, Time | Duration) => Any,
        (Arithmetic::Add, Time, Any | Duration) | (Arithmetic::Add, Duration, Time) => Time,
        (Arithmetic::Add | Arithmetic::Subtract, Duration, Duration) => Duration,
        (Arithmetic::Add, Duration, Any) => Any,
        (Arithmetic::Subtract, Time | Duration, Any) => Any,
        (Arithmetic::Subtract, Any, Time | Duration) => Any,
        (Arithmetic::Subtract, Time, Time) => Duration,
        (Arithmetic::Subtract, Time, Duration) => Time,
        (_, left, right) => {
            let problem = format!("{left} and {right} cannot be computed with so");
            return Err(Fault::new(at, problem));
        }
    })
}

fn called(function: Function, arguments: &[Node]) -> Result<Type, Fault> {
    let (wanted, given): (&[Type], _) = match function {
        Function::Size => (&[Type::Text, Type::List, Type::Map], Type::Number),
        Function::StartsWith | Function::EndsWith | Function::Contains => {
            (&[Type::Text], Type::Bool)
        }
        Function::Timestamp => (&[Type::Text, Type::Number, Type::Time], Type::Time),
        Function::Duration => (&[Type::Text, Type::Duration], Type::Duration),
        Function::Int => (&[Type::Text, Type::Number, Type::Time], Type::Number),
        Function::Double => (&[Type::Text, Type::Number], Type::Number),
        Function::String => {
            let all = [Type::Text, Type::Number, Type::Bool, Type::Time];
            for argument in arguments {
                require(argument, &all)?;
            }
            return Ok(Type::Text);
        }
    };
    for argument in arguments {
        require(argument, wanted)?;
    }
    Ok(given)
}
