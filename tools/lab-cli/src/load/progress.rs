//! The progress that a terminal shows while a load runs.

use std::io::{self, IsTerminal, Write as _};

/// A line on stderr that is overwritten while the load runs. It is shown only
/// on a terminal.
pub(super) struct ProgressLine {
    is_shown: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Replaces the current line by `line`.
    pub(super) fn show(&mut self, line: &str) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Shows `line` on a new line.
    pub(super) fn add(&mut self, line: &str) {
        if self.is_shown {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Removes the current line.
    pub(super) fn clear(&mut self) {
        self.show("");
    }
}
