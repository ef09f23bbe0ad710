//! The tree of an expression, by the grammar of CEL.
//!
//! It climbs precedences: `binary(power)` reads what binds at least as tightly. Names are looked
//! up as they are read, so that an unknown one is known with its place.

use super::calls::check_name;
use super::lexer::{Lexer, Token};
use crate::error::Fault;
use crate::tree::{Arithmetic, Comparison, DEPTH_MAX, Kind, Node, Quantifier, Variable};
use crate::values::Value;
use crate::values::json::Step;
use crate::values::pattern::PatternBudget;

pub(super) fn parse(source: &str, patterns: &mut PatternBudget) -> Result<Node, Fault> {
    let mut lexer = Lexer::new(source);
    let (at, token) = lexer.next()?;
    let mut parser = Parser {
        lexer,
        at,
        token,
        locals: Vec::new(),
        open: 0,
        patterns,
    };
    if parser.token == Token::End {
        return Err(Fault::new(
            at,
            "it is empty: give a condition such as `value.total > 100`",
        ));
    }
    let tree = parser.expression()?;
    match parser.token {
        Token::End => Ok(tree),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

pub(super) struct Parser<'s> {
    lexer: Lexer<'s>,
    /// The next token, and where it begins.
    at: usize,
    token: Token<'s>,
    /// The variables of the macros around this place, the innermost last.
    locals: Vec<&'s str>,
    /// How many brackets and signs are open.
    open: u8,
    pub(super) patterns: &'s mut PatternBudget,
}

/// What binds how tightly: more is tighter.
fn power_of(token: &Token<'_>) -> Option<u8> {
    Some(match token {
        Token::Sign("||") => 1,
        Token::Sign("&&") => 2,
        Token::Sign("==" | "!=" | "<" | "<=" | ">" | ">=") | Token::Name("in") => 3,
        Token::Sign("+" | "-") => 4,
        Token::Sign("*" | "/" | "%") => 5,
        _ => return None,
    })
}

impl<'s> Parser<'s> {
    pub(super) fn advance(&mut self) -> Result<Token<'s>, Fault> {
        let (at, token) = self.lexer.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn takes(&mut self, sign: &'static str) -> Result<bool, Fault> {
        if self.token != Token::Sign(sign) {
            return Ok(false);
        }
        self.advance()?;
        Ok(true)
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Fault> {
        if self.takes(sign)? {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{sign}`")))
        }
    }

    fn unexpected(&self, wanted: &str) -> Fault {
        let problem = match &self.token {
            Token::End => format!("it ends too early: {wanted} is missing"),
            _ => format!("this does not follow: {wanted} is missing before it"),
        };
        Fault::new(self.at, problem)
    }

    /// A part made of others, unless it is too deep.
    pub(super) fn node(&self, at: usize, kind: Kind) -> Result<Node, Fault> {
        let mut node = Node { at, depth: 0, kind };
        let below = node.parts().iter().map(|part| part.depth).max();
        node.depth = below.unwrap_or(0) + 1;
        if node.depth > DEPTH_MAX {
            return Err(too_deep(at));
        }
        Ok(node)
    }

    /// Reads what may hold itself again.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.open >= DEPTH_MAX {
            return Err(too_deep(self.at));
        }
        self.open += 1;
        let read = read(self);
        self.open -= 1;
        read
    }

    pub(super) fn expression(&mut self) -> Result<Node, Fault> {
        self.nested(|parser| {
            let condition = parser.binary(1)?;
            let at = parser.at;
            if !parser.takes("?")? {
                return Ok(condition);
            }
            let yes = parser.binary(1)?;
            parser.expect(":")?;
            let no = parser.expression()?;
            parser.node(at, Kind::Choose(Box::new([condition, yes, no])))
        })
    }

    fn binary(&mut self, least: u8) -> Result<Node, Fault> {
        let mut left = self.unary()?;
        while let Some(power) = power_of(&self.token).filter(|power| *power >= least) {
            let at = self.at;
            let operator = self.advance()?;
            let right = self.binary(power + 1)?;
            left = self.joined(at, &operator, left, right)?;
        }
        Ok(left)
    }

    fn joined(
        &self,
        at: usize,
        operator: &Token<'_>,
        left: Node,
        right: Node,
    ) -> Result<Node, Fault> {
        let compare = |comparison, left, right| Kind::Compare(comparison, Box::new([left, right]));
        let compute = |operation, left, right| Kind::Compute(operation, Box::new([left, right]));
        let kind = match operator {
            Token::Sign("||") => Kind::Or(chained(left, right, |kind| match kind {
                Kind::Or(parts) => Ok(parts),
                other => Err(other),
            })),
            Token::Sign("&&") => Kind::And(chained(left, right, |kind| match kind {
                Kind::And(parts) => Ok(parts),
                other => Err(other),
            })),
            Token::Sign("==") => compare(Comparison::Equal, left, right),
            Token::Sign("!=") => compare(Comparison::Unequal, left, right),
            Token::Sign("<") => compare(Comparison::Less, left, right),
            Token::Sign("<=") => compare(Comparison::LessOrEqual, left, right),
            Token::Sign(">") => compare(Comparison::Greater, left, right),
            Token::Sign(">=") => compare(Comparison::GreaterOrEqual, left, right),
            Token::Sign("+") => compute(Arithmetic::Add, left, right),
            Token::Sign("-") => compute(Arithmetic::Subtract, left, right),
            Token::Sign("*") => compute(Arithmetic::Multiply, left, right),
            Token::Sign("/") => compute(Arithmetic::Divide, left, right),
            Token::Sign("%") => compute(Arithmetic::Remainder, left, right),
            _ => Kind::In(Box::new([left, right])),
        };
        self.node(at, kind)
    }

    fn unary(&mut self) -> Result<Node, Fault> {
        let at = self.at;
        if self.takes("!")? {
            let part = self.nested(Self::unary)?;
            return self.node(at, Kind::Not(Box::new(part)));
        }
        if !self.takes("-")? {
            return self.member();
        }
        if let Token::Int(number) = self.token {
            // The least number has no positive twin.
            let number = 0_i64.checked_sub_unsigned(number);
            let number = number.ok_or_else(|| Fault::new(at, TOO_GREAT))?;
            self.advance()?;
            let constant = self.node(at, Kind::Constant(Value::Int(number)))?;
            return self.members_of(constant);
        }
        let part = self.nested(Self::unary)?;
        match part.kind {
            Kind::Constant(Value::Double(number)) => {
                self.node(at, Kind::Constant(Value::Double(-number)))
            }
            _ => self.node(at, Kind::Negate(Box::new(part))),
        }
    }

    fn member(&mut self) -> Result<Node, Fault> {
        let primary = self.primary()?;
        self.members_of(primary)
    }

    /// What `.field`, `.function(…)` and `[…]` make of a part.
    fn members_of(&mut self, mut part: Node) -> Result<Node, Fault> {
        loop {
            let at = self.at;
            if self.takes(".")? {
                let Token::Name(name) = self.token else {
                    return Err(self.unexpected("a name"));
                };
                let at = self.at;
                self.advance()?;
                part = if self.token == Token::Sign("(") {
                    self.method(at, name, part)?
                } else {
                    self.step(at, part, Step::Field(name.to_owned()))?
                };
            } else if self.takes("[")? {
                let index = self.expression()?;
                self.expect("]")?;
                part = self.indexed(at, part, index)?;
            } else {
                return Ok(part);
            }
        }
    }

    fn indexed(&self, at: usize, part: Node, index: Node) -> Result<Node, Fault> {
        match &index.kind {
            Kind::Constant(Value::Text(name)) => self.step(at, part, Step::Field(name.to_string())),
            Kind::Constant(Value::Int(number)) => match usize::try_from(*number) {
                Ok(number) => self.step(at, part, Step::Element(number)),
                Err(_) => Err(Fault::new(at, "elements count from 0")),
            },
            _ => self.node(at, Kind::Index(Box::new(part), Box::new(index))),
        }
    }

    /// A step behind a path makes it longer.
    fn step(&self, at: usize, part: Node, step: Step) -> Result<Node, Fault> {
        if let Kind::Path(mut steps) = part.kind {
            if steps.len() >= usize::from(DEPTH_MAX) {
                return Err(too_deep(at));
            }
            steps.push(step);
            return self.node(part.at, Kind::Path(steps));
        }
        let index = match step {
            Step::Field(name) => Value::Text(name.into()),
            Step::Element(number) => Value::Int(i64::try_from(number).unwrap_or(i64::MAX)),
        };
        let index = self.node(at, Kind::Constant(index))?;
        self.node(at, Kind::Index(Box::new(part), Box::new(index)))
    }

    fn method(&mut self, at: usize, name: &'s str, of: Node) -> Result<Node, Fault> {
        let quantifier = match name {
            "all" => Quantifier::All,
            "exists" => Quantifier::Exists,
            "exists_one" => Quantifier::ExistsOne,
            _ => {
                check_name(at, name)?;
                let mut arguments = vec![of];
                arguments.extend(self.arguments()?);
                return self.call(at, name, arguments);
            }
        };
        self.expect("(")?;
        let Token::Name(local) = self.token else {
            return Err(self.unexpected("the name of a variable"));
        };
        self.advance()?;
        self.expect(",")?;
        self.locals.push(local);
        let body = self.expression();
        self.locals.pop();
        let body = body?;
        self.expect(")")?;
        self.node(at, Kind::Quantify(quantifier, Box::new([of, body])))
    }

    /// What stands between brackets.
    fn arguments(&mut self) -> Result<Vec<Node>, Fault> {
        self.expect("(")?;
        self.list_until(")")
    }

    fn list_until(&mut self, close: &'static str) -> Result<Vec<Node>, Fault> {
        let mut nodes = Vec::new();
        while !self.takes(close)? {
            if !nodes.is_empty() {
                self.expect(",")?;
                if self.takes(close)? {
                    break;
                }
            }
            nodes.push(self.expression()?);
        }
        Ok(nodes)
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let at = self.at;
        let kind = match self.advance_primary()? {
            Token::Int(number) => {
                let number = i64::try_from(number).map_err(|_| Fault::new(at, TOO_GREAT))?;
                Kind::Constant(Value::Int(number))
            }
            Token::Double(number) => Kind::Constant(Value::Double(number)),
            Token::Text(text) => Kind::Constant(Value::Text(text.into())),
            Token::Name(name) => return self.named(at, name),
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => list(self.list_until("]")?),
            _ => map(self.entries()?),
        };
        self.node(at, kind)
    }

    /// The next token, if a part can begin with it.
    fn advance_primary(&mut self) -> Result<Token<'s>, Fault> {
        match self.token {
            Token::End | Token::Name("in") => Err(self.unexpected("a value")),
            Token::Sign(sign) if !matches!(sign, "(" | "[" | "{") => {
                Err(self.unexpected("a value"))
            }
            _ => self.advance(),
        }
    }

    fn entries(&mut self) -> Result<Vec<(Node, Node)>, Fault> {
        let mut entries = Vec::new();
        while !self.takes("}")? {
            if !entries.is_empty() {
                self.expect(",")?;
                if self.takes("}")? {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
        }
        Ok(entries)
    }

    fn named(&mut self, at: usize, name: &'s str) -> Result<Node, Fault> {
        if self.token == Token::Sign("(") {
            check_name(at, name)?;
            let arguments = self.arguments()?;
            return self.call(at, name, arguments);
        }
        let mut inner = self.locals.iter().rev();
        if let Some(outward) = inner.position(|local| *local == name) {
            return self.node(at, Kind::Local(outward));
        }
        let kind = match name {
            "true" => Kind::Constant(Value::Bool(true)),
            "false" => Kind::Constant(Value::Bool(false)),
            "null" => Kind::Constant(Value::Null),
            "key" => Kind::Variable(Variable::Key),
            "version" => Kind::Variable(Variable::Version),
            "expires" => Kind::Variable(Variable::Expires),
            "size" => Kind::Variable(Variable::Size),
            "now" => Kind::Variable(Variable::Now),
            "value" => Kind::Path(Vec::new()),
            _ => {
                let problem = format!(
                    "`{name}` is no name here: there are key, version, expires, size, value and \
                     now; fields are value.{name}, text is '{name}'"
                );
                return Err(Fault::new(at, problem));
            }
        };
        self.node(at, kind)
    }
}

pub(super) const TOO_GREAT: &str = "the number is too great for 64 bits";

fn too_deep(at: usize) -> Fault {
    Fault::new(
        at,
        format_args!("it is too deep here: at most {DEPTH_MAX} levels"),
    )
}

/// The parts of a chain such as `a && b && c`.
fn chained(left: Node, right: Node, parts: impl Fn(Kind) -> Result<Vec<Node>, Kind>) -> Vec<Node> {
    let Node { at, depth, kind } = left;
    let mut chain = match parts(kind) {
        Ok(chain) => chain,
        Err(kind) => vec![Node { at, depth, kind }],
    };
    chain.push(right);
    chain
}

/// A list; one of constants is a constant.
fn list(nodes: Vec<Node>) -> Kind {
    let constants: Option<Vec<_>> = nodes.iter().map(constant).collect();
    match constants {
        Some(constants) => Kind::Constant(Value::List(constants.into())),
        None => Kind::List(nodes),
    }
}

fn map(entries: Vec<(Node, Node)>) -> Kind {
    let constants = entries
        .iter()
        .map(|(key, value)| Some((constant(key)?, constant(value)?)));
    match constants.collect::<Option<Vec<_>>>() {
        Some(constants) => Kind::Constant(Value::Map(constants.into())),
        None => Kind::Map(entries),
    }
}

fn constant(node: &Node) -> Option<Value<'static>> {
    match &node.kind {
        Kind::Constant(value) => Some(value.clone()),
        _ => None,
    }
}
