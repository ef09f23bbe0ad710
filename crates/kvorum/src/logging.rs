//! The log: lines on stderr, as text for people or JSON for programs.

use crate::stderr;
use clap::{Args, ValueEnum};
use server::LineWriter;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
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

/// Sends the log to stderr from now on, and returns what writes it. A text line begins with
/// `node` if there is one, because the lines of several nodes share a terminal. Must be
/// called only once.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn install(options: LogOptions, node: Option<String>) -> io::Result<Arc<LineWriter>> {
    let writer = stderr::write_on_a_thread()?;
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

/// A line that the log makes.
struct Said;

impl Write for Said {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        stderr::push(line);
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
            stderr::flush();
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
