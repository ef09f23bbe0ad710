//! The log: lines on stderr, as text for people or JSON for programs.
//!
//! Whoever reads stderr may stop. So that no thread waits for that, a thread of its own
//! writes the lines ([`server::LineWriter`]), and so it does with all else that a process
//! which serves says on stderr: failures, and panics. Other commands write themselves.

use crate::failure::Failure;
use base::SystemClock;
use clap::{Args, ValueEnum};
use server::{FLUSH_MAX, LineWriter, Output};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, OnceLock};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// The options for the log.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// The lowest level that is logged
    #[arg(long = "log", value_enum, value_name = "LEVEL", help_heading = "Log", default_value_t = LogLevel::Info)]
    pub(crate) level: LogLevel,
    /// text for people; json for programs, one object per line
    #[arg(long = "log-format", value_enum, value_name = "FORMAT", help_heading = "Log", default_value_t = LogFormat::Text)]
    pub(crate) format: LogFormat,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// What writes to stderr, once a process serves.
static STDERR: OnceLock<Arc<LineWriter>> = OnceLock::new();

/// Has a thread write to stderr what this process says there from now on, and returns it.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn write_on_a_thread() -> Result<Arc<LineWriter>, Failure> {
    let writer = LineWriter::start("log", Stderr, Arc::new(SystemClock::new()))
        .map_err(|error| Failure::failed(format!("cannot start a thread for the log: {error}")))?;
    let writer = Arc::clone(STDERR.get_or_init(|| Arc::new(writer)));
    server::before_abort(flush);
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = Backtrace::capture();
        say(&panic_text(thread.name(), panic, &backtrace));
        // The process may end at once.
        flush();
    }));
    Ok(writer)
}

/// Sends the log to stderr from now on, and returns what writes it. A text line begins with
/// `node` if there is one, because the lines of several nodes share a terminal. Must be
/// called only once.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn install(
    options: LogOptions,
    node: Option<String>,
) -> Result<Arc<LineWriter>, Failure> {
    let writer = write_on_a_thread()?;
    let level = match options.level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Said)
        // The layer would report them on stderr with a macro that panics when
        // stderr is closed.
        .log_internal_errors(false);
    match options.format {
        // Colours only on a terminal, never in a file.
        LogFormat::Text => lines
            .with_ansi(io::stderr().is_terminal())
            .with_timer(NodeAndTime(node))
            .init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(writer)
}

/// Says whole lines on stderr, without waiting for whoever reads it where this process
/// serves. A closed stderr is ignored.
pub(crate) fn say(lines: &str) {
    match STDERR.get() {
        // What does not fit is counted.
        Some(writer) => {
            let _fits = writer.push(lines.as_bytes());
        }
        None => {
            let _ = io::stderr().write_all(lines.as_bytes());
        }
    }
}

/// Waits a moment until what was said is written: before the process ends.
pub(crate) fn flush() {
    if let Some(writer) = STDERR.get() {
        writer.flush(FLUSH_MAX);
    }
}

/// What is said of a panic, as programs say it by default.
fn panic_text(thread: Option<&str>, panic: &dyn Display, backtrace: &Backtrace) -> String {
    let thread = thread.unwrap_or("<unnamed>");
    let mut text = format!("thread '{thread}' {panic}\n");
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("{backtrace}\n"));
    }
    text
}

/// Stderr, for the thread that writes.
struct Stderr;

impl Output for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write(bytes)
    }

    fn left_out(&mut self, count: u64) -> Vec<u8> {
        if count > 0 {
            tracing::warn!(
                left_out = count,
                "lines of the log were left out: nobody read them fast enough, or they could not be written"
            );
        }
        // The line has come to the queue.
        Vec::new()
    }
}

/// A line that the log makes.
struct Said;

impl Write for Said {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(writer) = STDERR.get() {
            let _fits = writer.push(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The beginning of a text line: the node, if there is one, and the time.
struct NodeAndTime(Option<String>);

impl FormatTime for NodeAndTime {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        if let Some(node) = &self.0 {
            write!(line, "{node} ")?;
        }
        SystemTime.format_time(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set for the process in which a panic is looked at.
    const IS_CHILD: &str = "KVORUM_TEST_OF_PANICS";

    /// The last words of a process that serves: it panics, and is aborted.
    #[test]
    fn a_panic_and_what_is_logged_of_it_are_written_before_the_process_is_aborted() {
        if std::env::var_os(IS_CHILD).is_some() {
            let options = LogOptions {
                level: LogLevel::Info,
                format: LogFormat::Text,
            };
            assert!(install(options, None).is_ok());
            let panicking = std::panic::catch_unwind(|| panic!("the store is lost"));
            assert!(panicking.is_err());
            tracing::error!("ending the process");
            flush();
            std::process::abort();
        }
        let test = std::env::current_exe().unwrap();
        let name = "logging::tests::a_panic_and_what_is_logged_of_it_are_written_before_the_process_is_aborted";
        let mut child = Command::new(test);
        child
            .args(["--exact", name, "--nocapture"])
            .env(IS_CHILD, "1");
        let output = child.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        for words in [
            "' panicked at ",
            "the store is lost",
            "ERROR",
            "ending the process",
        ] {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
    }
}
