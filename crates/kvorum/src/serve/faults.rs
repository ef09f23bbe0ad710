//! Faults that `dev` injects into its nodes for demonstrations.
//!
//! They come over the pipe that keeps a child of `dev` alive: lines of a word and a number.
//!
//! ```text
//! clock 5400000      sets the wall clock 90 minutes ahead; 0 sets it right
//! cut 1              cuts the links to the other nodes; 0 joins them again
//! delay 250          has what the other nodes send arrive 250 ms late; 0 in time
//! ```
//!
//! A node that `dev` did not start reads no stdin, uses the machine's clock directly, and has
//! nothing between itself and its links.

use base::{Clock, SystemClock};
use server::LinkFaults;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The longest line, in bytes.
const LINE_BYTES_MAX: u64 = 64;

/// What `dev` can break in a node.
#[derive(Clone)]
pub(super) struct DevFaults {
    pub(super) clock: Arc<DevClock>,
    pub(super) links: Arc<LinkFaults>,
}

impl DevFaults {
    /// Nothing is broken.
    pub(super) fn new() -> Self {
        Self {
            clock: Arc::new(DevClock {
                real: SystemClock::new(),
                ahead_ms: AtomicI64::new(0),
            }),
            links: LinkFaults::new(),
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
        let Some((word, number)) = line.trim_end().split_once(' ') else {
            return;
        };
        let Ok(number) = number.parse::<i64>() else {
            return;
        };
        match word {
            "clock" => self.clock.ahead_ms.store(number, Ordering::Relaxed),
            "cut" => self.links.set_cut(number != 0),
            "delay" => {
                let ms = u64::try_from(number).unwrap_or(0);
                self.links.set_delay(Duration::from_millis(ms));
            }
            _ => return,
        }
        tracing::warn!(
            fault = word,
            number,
            "'kvorum dev' has set a fault of this node"
        );
    }
}

/// The machine's clock, whose wall time `dev` can set ahead or back.
pub(super) struct DevClock {
    real: SystemClock,
    ahead_ms: AtomicI64,
}

impl Clock for DevClock {
    fn unix_ms(&self) -> u64 {
        let ahead_ms = self.ahead_ms.load(Ordering::Relaxed);
        self.real.unix_ms().saturating_add_signed(ahead_ms)
    }

    fn monotonic(&self) -> Duration {
        self.real.monotonic()
    }

    fn waited_for_processor(&self) -> Duration {
        self.real.waited_for_processor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_set_by_lines_and_ignores_others() {
        let faults = DevFaults::new();
        let ahead_ms = |lines: &str| {
            faults.obey(lines.as_bytes());
            faults.clock.ahead_ms.load(Ordering::Relaxed)
        };
        assert_eq!(ahead_ms("clock 5400000\n"), 5_400_000);
        let others = "clock x\nclocks 1\nclock\n\ncut 1\ndelay 9\ncut 0\ndelay -1\n";
        assert_eq!(ahead_ms(others), 5_400_000);
        assert!(faults.clock.unix_ms() > SystemClock::new().unix_ms() + 5_000_000);
        assert_eq!(ahead_ms("clock -1000\nclock 0\n"), 0);
    }
}
