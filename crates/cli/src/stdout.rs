//! Stdout. Whoever reads it may have what they wanted and close it, as `head` does. Then a command
//! ends without a word, with the exit code of a process that SIGPIPE ended: as other programs do.

use crate::failure::Failure;
use crate::text;
use serde::Serialize;
use std::io::{self, Write};

/// How much is gathered before it is written, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Stdout, written in large pieces.
pub struct Output {
    stdout: io::Stdout,
    buffer: Vec<u8>,
    failed: fn(String) -> Failure,
}

impl Output {
    /// Stdout. `failed` makes the failure of a command whose output cannot be written.
    pub fn new(failed: fn(String) -> Failure) -> Self {
        Self {
            stdout: io::stdout(),
            buffer: Vec::new(),
            failed,
        }
    }

    /// Writes what `put` appends, now or later.
    ///
    /// # Errors
    /// Nobody reads stdout any more ([`Failure::unread`]), or it takes nothing.
    pub fn write(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        put(&mut self.buffer);
        match self.buffer.len() {
            ..BUFFER_BYTES => Ok(()),
            _ => self.flush(),
        }
    }

    /// Writes all that was gathered.
    ///
    /// # Errors
    /// Those of [`Output::write`].
    pub fn flush(&mut self) -> Result<(), Failure> {
        let mut stdout = self.stdout.lock();
        let written = stdout.write_all(&self.buffer).and_then(|()| stdout.flush());
        self.buffer.clear();
        written.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::unread(),
            _ => (self.failed)(format!("cannot write to stdout: {error}")),
        })
    }

    /// Writes these bytes and all that was gathered.
    ///
    /// # Errors
    /// Those of [`Output::write`].
    pub fn print(mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.buffer.extend_from_slice(bytes);
        self.flush()
    }
}

/// Writes text of a command whose failures all have one exit code.
///
/// # Errors
/// Those of [`Output::write`].
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes bytes.
///
/// # Errors
/// Those of [`Output::write`].
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    Output::new(Failure::failed).print(bytes)
}

/// Writes JSON for programs.
///
/// # Errors
/// Those of [`Output::write`]; a value that has no JSON form.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// Writes lines for people.
///
/// # Errors
/// Those of [`Output::write`].
pub fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), Failure> {
    print(&text::of_lines(lines))
}
