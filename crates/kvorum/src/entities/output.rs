//! Output of the commands on stdout.

use crate::failure::Failure;
use crate::text;
use serde::Serialize;
use std::io::{self, Write};

/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes bytes to stdout. A reader that has closed it has what it wanted.
///
/// # Errors
/// Stdout takes nothing.
pub(super) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = Output::stdout();
    output.write(|buffer| buffer.extend_from_slice(bytes))?;
    output.flush()
}

/// Writes lines for people to stdout.
///
/// # Errors
/// Stdout takes nothing.
pub(super) fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), Failure> {
    print(text::of_lines(lines).as_bytes())
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

/// Stdout, written in large pieces.
pub(super) struct Output {
    stdout: io::Stdout,
    buffer: Vec<u8>,
}

impl Output {
    pub(super) fn stdout() -> Self {
        Self {
            stdout: io::stdout(),
            buffer: Vec::new(),
        }
    }

    /// Writes what `put` appends. Returns `false` once nobody reads it any more.
    ///
    /// # Errors
    /// Stdout takes nothing.
    pub(super) fn write(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<bool, Failure> {
        put(&mut self.buffer);
        match self.buffer.len() {
            ..BUFFER_BYTES => Ok(true),
            _ => self.write_buffer(),
        }
    }

    /// Writes all that was gathered.
    ///
    /// # Errors
    /// Stdout takes nothing.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.write_buffer().map(|_| ())
    }

    fn write_buffer(&mut self) -> Result<bool, Failure> {
        let mut stdout = self.stdout.lock();
        let written = stdout.write_all(&self.buffer).and_then(|()| stdout.flush());
        self.buffer.clear();
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::other(format!("cannot write to stdout: {error}"))),
        }
    }
}
