//! The tokens of an expression, by the lexis of CEL.

use crate::error::Fault;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// A name or a word such as `in` or `true`.
    Name(&'s str),
    /// A whole number without its sign.
    Int(u64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A text, without its quotes.
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
    /// The end of the expression.
    End,
}

/// All signs; a longer one stands before its beginning.
const SIGNS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// Reads the tokens of an expression one by one.
pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, at: 0 }
    }

    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// The next token, and the byte that it begins at.
    pub(super) fn next(&mut self) -> Result<(usize, Token<'s>), Fault> {
        self.skip_space();
        let (at, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else {
            return Ok((at, Token::End));
        };
        if matches!(first, '\'' | '"') {
            self.at += 1;
            return Ok((at, Token::Text(self.text(at, first, false)?)));
        }
        let raw = matches!(first, 'r' | 'R');
        if raw && let Some(quote @ ('\'' | '"')) = rest[1..].chars().next() {
            self.at += 2;
            return Ok((at, Token::Text(self.text(at, quote, true)?)));
        }
        if first.is_ascii_digit() {
            return Ok((at, self.number(at)?));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            self.at += name.len();
            return Ok((at, Token::Name(name)));
        }
        let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
            let hint = match first {
                '=' => "write `==` to compare",
                '&' => "write `&&`",
                '|' => "write `||`",
                _ => "put text in quotes",
            };
            return Err(Fault::new(
                at,
                format!("`{first}` means nothing here: {hint}"),
            ));
        };
        self.at += sign.len();
        Ok((at, Token::Sign(sign)))
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) {
        loop {
            let trimmed = self.rest().trim_start();
            self.at = self.source.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn number(&mut self, at: usize) -> Result<Token<'s>, Fault> {
        let rest = self.rest();
        if let Some(digits) = rest.strip_prefix("0x").or(rest.strip_prefix("0X")) {
            let end = digits.find(|sign: char| !sign.is_ascii_hexdigit());
            let digits = &digits[..end.unwrap_or(digits.len())];
            self.at += 2 + digits.len();
            let number = u64::from_str_radix(digits, 16);
            return self.whole(at, number.ok().map(Token::Int));
        }
        let bytes = rest.as_bytes();
        let digits_from = |from: usize| {
            let digits = bytes.get(from..).unwrap_or_default().iter();
            from + digits.take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut end = digits_from(0);
        let mut is_whole = true;
        if bytes.get(end) == Some(&b'.') && digits_from(end + 1) > end + 1 {
            (is_whole, end) = (false, digits_from(end + 1));
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
            let begin = end + 1 + usize::from(signed);
            if digits_from(begin) > begin {
                (is_whole, end) = (false, digits_from(begin));
            }
        }
        self.at += end;
        let text = &rest[..end];
        let token = if is_whole {
            text.parse().ok().map(Token::Int)
        } else {
            let number: Option<f64> = text.parse().ok();
            number
                .filter(|number| number.is_finite())
                .map(Token::Double)
        };
        self.whole(at, token)
    }

    /// A number behind which no name begins.
    fn whole(&self, at: usize, token: Option<Token<'s>>) -> Result<Token<'s>, Fault> {
        let follows_name = self
            .rest()
            .starts_with(|sign: char| sign.is_alphanumeric() || sign == '_');
        match token {
            Some(token) if !follows_name => Ok(token),
            Some(_) => Err(Fault::new(at, "a number ends in a letter: leave it out")),
            None => Err(Fault::new(
                at,
                "the number is not one, or too great for 64 bits",
            )),
        }
    }

    /// The text behind an opening quote, up to its closing one.
    fn text(&mut self, at: usize, quote: char, is_raw: bool) -> Result<String, Fault> {
        let mut text = String::new();
        let mut signs = self.rest().char_indices();
        while let Some((index, sign)) = signs.next() {
            if sign == quote {
                self.at += index + 1;
                return Ok(text);
            }
            if sign != '\\' || is_raw {
                text.push(sign);
                continue;
            }
            let place = self.at + index;
            let broken = || {
                let problem = "the escape is none: write \\\\ for a backslash, or r'…' for a text \
                               without escapes";
                Fault::new(place, problem)
            };
            let (_, kind) = signs.next().ok_or_else(broken)?;
            let digits = match kind {
                'x' | 'X' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            if digits == 0 {
                text.push(simple_escape(kind).ok_or_else(broken)?);
                continue;
            }
            let mut code = 0;
            for _ in 0..digits {
                let digit = signs.next().and_then(|(_, sign)| sign.to_digit(16));
                code = (code << 4) | digit.ok_or_else(broken)?;
            }
            text.push(char::from_u32(code).ok_or_else(broken)?);
        }
        Err(Fault::new(
            at,
            "the text has no end: close it with the same quote",
        ))
    }
}

fn simple_escape(kind: char) -> Option<char> {
    Some(match kind {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => kind,
        _ => return None,
    })
}
