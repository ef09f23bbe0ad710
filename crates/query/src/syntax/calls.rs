//! Calls of functions: which there are, and with how many arguments.

use super::parser::Parser;
use crate::error::Fault;
use crate::tree::{Function, Kind, Node};
use crate::values::Value;
use crate::values::times;

/// Functions, how many arguments they take, and an example.
const FUNCTIONS: [(&str, Function, usize, &str); 9] = [
    ("size", Function::Size, 1, "size(value.items)"),
    (
        "startsWith",
        Function::StartsWith,
        2,
        "key.startsWith('a/')",
    ),
    ("endsWith", Function::EndsWith, 2, "key.endsWith('/a')"),
    (
        "contains",
        Function::Contains,
        2,
        "value.name.contains('a')",
    ),
    (
        "timestamp",
        Function::Timestamp,
        1,
        "timestamp('2026-01-31T00:00:00Z')",
    ),
    ("duration", Function::Duration, 1, "duration('1h30m')"),
    ("int", Function::Int, 1, "int(value.total)"),
    ("double", Function::Double, 1, "double(value.total)"),
    ("string", Function::String, 1, "string(value.id)"),
];

/// Refuses a name that no function has, before its arguments are read.
pub(super) fn check_name(at: usize, name: &str) -> Result<(), Fault> {
    let mut names = FUNCTIONS.iter().map(|(name, ..)| *name);
    if matches!(name, "has" | "matches") || names.any(|known| known == name) {
        return Ok(());
    }
    let names: Vec<_> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
    let problem = format!(
        "`{name}` is no function: there are {}, matches, has, exists, exists_one and all",
        names.join(", ")
    );
    Err(Fault::new(at, problem))
}

impl Parser<'_> {
    /// A call: `x.f(y)` has the arguments x and y.
    pub(super) fn call(
        &mut self,
        at: usize,
        name: &str,
        mut arguments: Vec<Node>,
    ) -> Result<Node, Fault> {
        if name == "has" {
            return self.has(at, arguments);
        }
        if name == "matches" {
            return self.matches(at, arguments);
        }
        let known = FUNCTIONS.iter().find(|(known, ..)| *known == name);
        let Some((_, function, count, example)) = known else {
            return Err(Fault::new(at, "this is no function"));
        };
        if arguments.len() != *count {
            return Err(Fault::new(at, format!("write it as in `{example}`")));
        }
        let is_time = matches!(function, Function::Timestamp | Function::Duration);
        if is_time && let Some(text) = constant_text(&arguments[0]) {
            let value = match function {
                Function::Timestamp => times::time_of(text).map(Value::Time),
                _ => times::duration_of(text).map(Value::Duration),
            };
            let place = arguments.remove(0).at;
            let value = value.ok_or_else(|| {
                Fault::new(
                    place,
                    format!("the text is none: write it as in `{example}`"),
                )
            })?;
            return self.node(at, Kind::Constant(value));
        }
        self.node(at, Kind::Call(*function, arguments))
    }

    fn has(&self, at: usize, mut arguments: Vec<Node>) -> Result<Node, Fault> {
        let of = arguments.pop().filter(|_| arguments.is_empty());
        let of = of.filter(|of| match &of.kind {
            Kind::Path(steps) => !steps.is_empty(),
            Kind::Index(..) => true,
            _ => false,
        });
        match of {
            Some(of) => self.node(at, Kind::Has(Box::new(of))),
            None => Err(Fault::new(
                at,
                "give has() a field, as in `has(value.total)`",
            )),
        }
    }

    fn matches(&mut self, at: usize, mut arguments: Vec<Node>) -> Result<Node, Fault> {
        const FORM: &str = "give it a pattern in quotes, as in `value.name.matches('^a.*z$')`";
        let pattern = arguments.pop();
        let of = arguments.pop().filter(|_| arguments.is_empty());
        let (Some(of), Some(pattern)) = (of, pattern) else {
            return Err(Fault::new(at, FORM));
        };
        let place = pattern.at;
        let text = constant_text(&pattern).ok_or_else(|| Fault::new(place, FORM))?;
        let pattern = self.patterns.compile(text);
        let pattern = pattern.map_err(|problem| Fault::new(place, problem))?;
        self.node(at, Kind::Matches(Box::new(of), Box::new(pattern)))
    }
}

fn constant_text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Constant(Value::Text(text)) => Some(text),
        _ => None,
    }
}
