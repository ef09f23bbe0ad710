//! What the commands write to stdout.

use crate::failure::Failure;
use crate::text;
use cli::stdout::Output;
use serde::Serialize;

/// Stdout.
pub(super) fn stdout() -> Output {
    Output::new(Failure::other)
}

/// Writes lines for people to stdout.
///
/// # Errors
/// Those of [`Output::write`].
pub(super) fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), Failure> {
    stdout().print(text::of_lines(lines).as_bytes())
}

/// Writes a line of JSON to stdout.
///
/// # Errors
/// Those of [`Output::write`].
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut json = serde_json::to_vec(value)
        .map_err(|error| Failure::other(format!("cannot write JSON: {error}")))?;
    json.push(b'\n');
    stdout().print(&json)
}
