//! Faults that `dev` puts into its nodes, so that people can watch what they do.
//!
//! They come over the pipe that keeps a child of `dev` alive: lines of a word and a number.
//!
//! ```text
//! clock 5400000      sets the wall clock 90 minutes ahead
//! ```
//!
//! A node that no `dev` has started reads no stdin, and has the machine's clock itself.

use base::{Clock, SystemClock};
use std::io::{BufRead, Read};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64;

/// The machine's clock, whose wall time `dev` can set ahead or back.
pub(super) struct DevClock {
    real: SystemClock,
    ahead_ms: AtomicI64,
}

impl DevClock {
    /// A clock that is right.
    pub(super) fn new() -> Self {
        Self {
            real: SystemClock::new(),
            ahead_ms: AtomicI64::new(0),
        }
    }

    /// Does what the lines of a reader say, until it ends or fails.
    pub(super) fn obey(&self, mut lines: impl BufRead) {
        loop {
            let mut line = String::new();
            match lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
                Ok(bytes) if bytes > 0 => self.carry_out(&line),
                _ => return,
            }
        }
    }

    fn carry_out(&self, line: &str) {
        let Some(("clock", ahead_ms)) = line.trim_end().split_once(' ') else {
            return;
        };
        if let Ok(ahead_ms) = ahead_ms.parse() {
            self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
            tracing::warn!(ahead_ms, "'kvorum dev' has set the clock of this node");
        }
    }
}

impl Clock for DevClock {
    fn unix_ms(&self) -> u64 {
        let ahead_ms = self.ahead_ms.load(Ordering::Relaxed);
        self.real.unix_ms().saturating_add_signed(ahead_ms)
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_set_by_lines_and_ignores_others() {
        let clock = DevClock::new();
        let ahead_ms = |lines: &str| {
            clock.obey(lines.as_bytes());
            clock.ahead_ms.load(Ordering::Relaxed)
        };
        assert_eq!(ahead_ms("clock 5400000\n"), 5_400_000);
        assert_eq!(ahead_ms("clock x\nclocks 1\nclock\n\n"), 5_400_000);
        assert!(clock.unix_ms() > SystemClock::new().unix_ms() + 5_000_000);
        assert_eq!(ahead_ms("clock -1000\nclock 0\n"), 0);
    }
}
