//! What fuzz targets and tests with random expressions call.

use crate::{Entity, Expression, FUEL, OutOfFuel, Subject};

/// Compiles a text and evaluates it over a value, if it is an expression.
///
/// # Panics
/// The answer to a question was not the same twice, or an error points outside its line.
#[must_use]
pub fn expression(text: &str, value: &[u8]) -> Option<Result<bool, OutOfFuel>> {
    let expression = match Expression::condition(text) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(error.column <= error.line.chars().count(), "{error}");
            return None;
        }
    };
    let entity = Entity {
        key: b"user/1",
        version: 7 << 20,
        expires_unix_ms: Some(1_800_000_000_000),
        value,
        now_unix_ms: 1_790_000_000_000,
    };
    let matches = |fuel| expression.matches(&Subject::with_fuel(&entity, fuel));
    let answer = matches(FUEL);
    assert_eq!(answer, matches(FUEL));
    // Less fuel gives the same answer or none.
    assert!(matches(FUEL / 64).is_err() || matches(FUEL / 64) == answer);
    Some(answer)
}
