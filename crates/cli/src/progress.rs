//! The progress of long work, on stderr: a line that is overwritten on a terminal; elsewhere
//! nothing, or a line now and then if the user asks for it.

use crate::text;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;
use tokio::time::Instant;
use units::rough_span;

/// Work that ends sooner shows nothing on a terminal.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// How often the line of a terminal changes.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);

/// How often a line is added elsewhere.
const LINES_INTERVAL: Duration = Duration::from_secs(10);

/// The time left is told once this share of the work is done: before, it would jump.
const SHARE_MIN: f64 = 0.005;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    None,
    Terminal,
    Lines,
}

impl Style {
    fn of(is_wanted: bool, stderr_is_terminal: bool, is_beside_output: bool) -> Self {
        match (stderr_is_terminal, is_wanted) {
            (true, _) if !is_beside_output => Self::Terminal,
            (false, true) => Self::Lines,
            _ => Self::None,
        }
    }
}

/// How far work is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// The share that is done, from 0 to 1; none where nobody knows how much there is.
    pub share: Option<f64>,
    /// What is done.
    pub text: String,
}

/// Shows progress, until it is dropped.
pub struct Progress {
    style: Style,
    began: Instant,
    shown: Option<Instant>,
    /// The share at the first time, and when that was: work may continue an earlier one.
    first: Option<(f64, f64)>,
}

impl Progress {
    /// Shows progress on a terminal.
    pub fn new() -> Self {
        Self::with(false, false)
    }

    /// Shows progress on a terminal, and elsewhere a line now and then if it `is_wanted`. Work
    /// that `writes_to_stdout` shows none on the terminal that it writes to.
    pub fn with(is_wanted: bool, writes_to_stdout: bool) -> Self {
        let is_beside_output = writes_to_stdout && io::stdout().is_terminal();
        Self {
            style: Style::of(is_wanted, io::stderr().is_terminal(), is_beside_output),
            began: Instant::now(),
            shown: None,
            first: None,
        }
    }

    /// Whether anything is shown at all.
    pub fn is_shown(&self) -> bool {
        self.style != Style::None
    }

    /// Shows how far the work is, if it is time for that. `stage` gets the seconds since the
    /// begin.
    pub fn show(&mut self, stage: impl FnOnce(f64) -> Stage) {
        let now = Instant::now();
        let (last, interval) = match (self.style, self.shown) {
            (Style::None, _) => return,
            (Style::Terminal, Some(shown)) => (shown, TERMINAL_INTERVAL),
            (Style::Terminal, None) => (self.began, FIRST_AFTER),
            (Style::Lines, shown) => (shown.unwrap_or(self.began), LINES_INTERVAL),
        };
        if now.duration_since(last) < interval {
            return;
        }
        self.shown = Some(now);
        let seconds = now.duration_since(self.began).as_secs_f64();
        let stage = stage(seconds);
        let share = stage.share.unwrap_or_default();
        let (first_share, first_seconds) = *self.first.get_or_insert((share, seconds));
        let line = line(&stage, first_share, seconds - first_seconds);
        if self.style == Style::Lines {
            return text::report_line(&line);
        }
        // A terminal does not wrap the line, which could not be removed then.
        let _ = write!(io::stderr(), "\r\x1b[K\x1b[?7l{line}\x1b[?7h");
    }

    /// Adds a line that stays, on a terminal only.
    pub fn add(&mut self, line: &str) {
        if self.style == Style::Terminal {
            self.clear();
            let _ = io::stderr().write_all(text::of_lines([line]).as_bytes());
        }
    }

    /// Removes the line of a terminal.
    pub fn clear(&mut self) {
        if self.style == Style::Terminal && self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// The line: `42%, 1,234 lines stored, 3m left`. `seconds` have passed since the work had its first share.
fn line(stage: &Stage, first_share: f64, seconds: f64) -> String {
    let Some(share) = stage.share.map(|share| share.clamp(0.0, 1.0)) else {
        return stage.text.clone();
    };
    let mut line = format!("{:.0}%, {}", (share * 100.0).floor(), stage.text);
    let done = share - first_share;
    if done >= SHARE_MIN {
        let left = seconds * (1.0 - share) / done;
        line += &format!(", {} left", rough_span(left as u64));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_share_and_the_time_left_where_they_are_known() {
        let text = |share, first_share, seconds| {
            let stage = Stage {
                share,
                text: "7 keys put".to_owned(),
            };
            line(&stage, first_share, seconds)
        };
        assert_eq!(text(None, 0.0, 9.0), "7 keys put");
        assert_eq!(text(Some(0.001), 0.0, 9.0), "0%, 7 keys put");
        assert_eq!(text(Some(0.25), 0.0, 100.0), "25%, 7 keys put, 5m left");
        // The first half was done by an earlier run.
        assert_eq!(text(Some(0.75), 0.5, 60.0), "75%, 7 keys put, 60s left");
        assert_eq!(text(Some(1.5), 0.0, 9.0), "100%, 7 keys put, 0s left");
    }

    #[test]
    fn only_a_terminal_that_has_no_other_output_shows_a_line_without_being_asked() {
        for (is_wanted, stderr_is_terminal, is_beside_output, style) in [
            (false, true, false, Style::Terminal),
            (true, true, false, Style::Terminal),
            (true, true, true, Style::None),
            (false, false, false, Style::None),
            (true, false, false, Style::Lines),
        ] {
            assert_eq!(
                Style::of(is_wanted, stderr_is_terminal, is_beside_output),
                style
            );
        }
    }
}
