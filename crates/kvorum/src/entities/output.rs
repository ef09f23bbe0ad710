//! What the commands write to stdout.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, Write};

/// Writes bytes to stdout. A reader that has closed it has what it wanted.
///
/// # Errors
/// Stdout takes nothing.
pub(super) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::other(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a line of JSON to stdout.
///
/// # Errors
/// Stdout takes nothing.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut json = serde_json::to_vec(value)
        .map_err(|error| Failure::other(format!("cannot write JSON: {error}")))?;
    json.push(b'\n');
    print(&json)
}
