//! Parses queries of requests: pure functions of the raw query.
//!
//! A query is `name=value` pairs between `&`s. Names and values are percent-decoded to bytes, UTF-8
//! or not. A `+` is a space, as form encoders write it. Any parameter that is not exactly right is
//! refused with a text that names it and says what to do, so that a typo never selects another key.
//!
//! Each resource reads its parameters with these functions: names and values ([`pairs`]), keys
//! (`keys`), numbers ([`number_of`]), `ack` and `from` (`replicas`).

pub(crate) mod keys;
pub(crate) mod replicas;

use smallvec::SmallVec;
use std::fmt;

/// A decoded name or value. Short ones need no allocation.
pub(crate) type QueryBytes = SmallVec<[u8; 64]>;

/// A parameter that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterError {
    /// Its name.
    pub(crate) parameter: String,
    /// What is wrong with it, and what to do.
    pub(crate) detail: String,
}

impl ParameterError {
    /// An error whose text is the parameter's name and then `detail`.
    pub(crate) fn new(parameter: impl Into<String>, detail: impl fmt::Display) -> Self {
        let parameter = parameter.into();
        let detail = format!("`{parameter}` {detail}");
        Self { parameter, detail }
    }
}

/// Checks that a query has only parameters of these names. What is malformed is left to those
/// who read the values; where there is nothing to read, it is refused here.
///
/// # Errors
/// The first parameter that has none of them.
pub(crate) fn check_names(query: Option<&str>, names: &[&str]) -> Result<(), ParameterError> {
    if names.is_empty() {
        return match pairs(query).next() {
            None => Ok(()),
            Some(pair) => Err(unknown(&pair?.0)),
        };
    }
    let is_known = |name: &[u8]| names.iter().any(|known| known.as_bytes() == name);
    for pair in query
        .unwrap_or_default()
        .as_bytes()
        .split(|byte| *byte == b'&')
    {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        if name.is_empty() || is_known(name) {
            continue;
        }
        if let Some(name) = decode(name).filter(|name| !is_known(name)) {
            return Err(unknown(&name));
        }
    }
    Ok(())
}

/// The decoded names and values of a query. An empty query has none.
pub(crate) fn pairs(
    query: Option<&str>,
) -> impl Iterator<Item = Result<(QueryBytes, QueryBytes), ParameterError>> {
    query
        .filter(|query| !query.is_empty())
        .into_iter()
        .flat_map(|query| query.as_bytes().split(|byte| *byte == b'&'))
        .map(|pair| {
            if pair.is_empty() {
                return Err(ParameterError {
                    parameter: String::new(),
                    detail: "the query has an empty parameter: remove the stray `&`".to_owned(),
                });
            }
            let (name, value) = match pair.iter().position(|byte| *byte == b'=') {
                Some(index) => (&pair[..index], &pair[index + 1..]),
                None => (pair, &[][..]),
            };
            let broken = || {
                ParameterError::new(
                    shown(name),
                    "has a broken percent escape: write `%` and two hexadecimal digits",
                )
            };
            Ok((
                decode(name).ok_or_else(broken)?,
                decode(value).ok_or_else(broken)?,
            ))
        })
}

/// Decodes percent escapes, and `+` as a space; `None` for a broken escape.
fn decode(encoded: &[u8]) -> Option<QueryBytes> {
    if !encoded.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(QueryBytes::from_slice(encoded));
    }
    let mut decoded = QueryBytes::new();
    let mut rest = encoded.iter();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => {
                let high = hex_digit(*rest.next()?)?;
                let low = hex_digit(*rest.next()?)?;
                high << 4 | low
            }
            b'+' => b' ',
            byte => *byte,
        });
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// A name as an error shows it: short and printable.
fn shown(name: &[u8]) -> String {
    let short = &name[..name.len().min(64)];
    short.escape_ascii().to_string()
}

/// The error for a parameter that the resource does not have.
pub(crate) fn unknown(name: &[u8]) -> ParameterError {
    ParameterError::new(
        shown(name),
        "is not a parameter of this resource: check the spelling",
    )
}

/// Sets a parameter that may be given only once.
///
/// # Errors
/// It was given before.
pub(crate) fn set<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), ParameterError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParameterError::new(
            name,
            "is given more than once: give it once",
        )),
    }
}

/// Reads a whole number.
///
/// # Errors
/// The value is not one, or is too large.
pub(crate) fn number_of(name: &str, value: &[u8]) -> Result<u64, ParameterError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(ParameterError::new(
            name,
            "is not a whole number: give ASCII digits only",
        ));
    }
    value
        .iter()
        .try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or_else(|| ParameterError::new(name, "is out of range: give a smaller number"))
}

/// Reads a switch.
///
/// # Errors
/// The value is neither `true` nor `false`.
pub(crate) fn switch_of(name: &str, value: &[u8]) -> Result<bool, ParameterError> {
    match value {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(ParameterError::new(name, "is neither `true` nor `false`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_without_parameters_take_none() {
        assert_eq!(check_names(None, &[]), Ok(()));
        assert_eq!(check_names(Some(""), &[]), Ok(()));
        for query in ["a=b", "&", "%zz"] {
            assert!(check_names(Some(query), &[]).is_err(), "{query}");
        }
    }

    #[test]
    fn names_of_parameters_are_checked_without_their_values() {
        for query in [
            None,
            Some(""),
            Some("id=%zz"),
            Some("&id"),
            Some("i%64=a&ack=%"),
            Some("%z=a"),
        ] {
            assert_eq!(check_names(query, &["id", "ack"]), Ok(()), "{query:?}");
        }
        for query in ["no", "id=a&no=b", "%6Eo=b", "ID=a"] {
            assert!(check_names(Some(query), &["id", "ack"]).is_err(), "{query}");
        }
    }
}
