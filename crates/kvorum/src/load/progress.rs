//! What people see while a load runs.

use std::io::{self, IsTerminal, Write as _};

/// A line on stderr that changes while the load runs, where people see it.
pub(super) struct ProgressLine {
    is_shown: bool,
}

impl ProgressLine {
    pub(super) fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Shows `line` in place of what was there.
    pub(super) fn show(&mut self, line: &str) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Shows `line` below what was there.
    pub(super) fn add(&mut self, line: &str) {
        if self.is_shown {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Shows nothing any more.
    pub(super) fn clear(&mut self) {
        self.show("");
    }
}
