//! Keys in queries.

use super::{ParameterError, QueryBytes};
use base::KEY_BYTES_MAX;

/// The error for a query without a key.
pub(crate) fn key_missing() -> ParameterError {
    ParameterError::new("id", "is missing: give the key as id=KEY")
}

/// Reads a key.
///
/// # Errors
/// The key is empty or too long.
pub(crate) fn key_of(name: &str, value: QueryBytes) -> Result<QueryBytes, ParameterError> {
    check_length(name, value.len(), KEY_BYTES_MAX)?;
    Ok(value)
}

/// Checks the length of a key.
///
/// # Errors
/// The key is empty or too long.
pub(crate) fn check_key(name: &str, bytes: usize) -> Result<(), ParameterError> {
    check_length(name, bytes, KEY_BYTES_MAX)
}

/// Reads a bound of a range: a key, or the longest key and one byte more, with which
/// a scan resumes behind that key.
///
/// # Errors
/// The bound is empty or too long.
pub(crate) fn bound_of(name: &str, value: QueryBytes) -> Result<QueryBytes, ParameterError> {
    check_length(name, value.len(), KEY_BYTES_MAX + 1)?;
    Ok(value)
}

/// The first key behind all that have a prefix; `None` if there is no greater key.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<QueryBytes> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = QueryBytes::from_slice(&prefix[..=last]);
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

fn check_length(name: &str, bytes: usize, bytes_max: usize) -> Result<(), ParameterError> {
    if bytes == 0 {
        let detail = format_args!("is empty: give 1 to {bytes_max} bytes");
        return Err(ParameterError::new(name, detail));
    }
    if bytes > bytes_max {
        let detail = format_args!("has {bytes} bytes: give 1 to {bytes_max}");
        return Err(ParameterError::new(name, detail));
    }
    Ok(())
}
