//! The progress of long work: a line on stderr that is overwritten, if that is a terminal;
//! with `--progress` elsewhere a line now and then.

use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;
use tokio::time::Instant;

/// How often the line of a terminal changes.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);

/// How often a line is added elsewhere.
const LINES_INTERVAL: Duration = Duration::from_secs(10);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    None,
    Terminal,
    Lines,
}

/// Shows progress.
pub(super) struct Progress {
    style: Style,
    began: Instant,
    shown: Option<Instant>,
}

impl Progress {
    /// Shows progress on a terminal, and elsewhere only if it `is_wanted`. Work that writes
    /// to the same terminal shows none.
    pub(super) fn new(is_wanted: bool, writes_to_stdout: bool) -> Self {
        let is_free = !(writes_to_stdout && io::stdout().is_terminal());
        let style = match io::stderr().is_terminal() {
            true if is_free => Style::Terminal,
            false if is_wanted => Style::Lines,
            _ => Style::None,
        };
        Self {
            style,
            began: Instant::now(),
            shown: None,
        }
    }

    /// Shows a line, which gets the seconds since the begin, if it is time for one.
    pub(super) fn show(&mut self, line: impl FnOnce(f64) -> String) {
        let interval = match self.style {
            Style::None => return,
            Style::Terminal => TERMINAL_INTERVAL,
            Style::Lines => LINES_INTERVAL,
        };
        let now = Instant::now();
        if self
            .shown
            .is_some_and(|shown| now.duration_since(shown) < interval)
        {
            return;
        }
        self.shown = Some(now);
        let line = line(now.duration_since(self.began).as_secs_f64());
        // A closed stderr is ignored.
        let _ = match self.style {
            Style::Terminal => write!(io::stderr(), "\r\x1b[K{line}"),
            _ => writeln!(io::stderr(), "kvorum: {line}"),
        };
    }

    /// Removes the line of a terminal.
    pub(super) fn clear(&mut self) {
        if self.style == Style::Terminal && self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// A rate, as a text: `12,345/s`.
pub(super) fn rate(count: u64, seconds: f64) -> String {
    format!("{}/s", grouped((count as f64 / seconds.max(0.001)) as u64))
}

/// A number with a comma before each group of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!((&*grouped(0), &*grouped(999)), ("0", "999"));
        assert_eq!(
            (&*grouped(1_000), &*grouped(5_000_000)),
            ("1,000", "5,000,000")
        );
        assert_eq!(rate(3_000, 2.0), "1,500/s");
    }
}
