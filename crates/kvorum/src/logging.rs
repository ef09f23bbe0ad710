//! The log: lines on stderr, as text for people or JSON for programs.

use clap::{Args, ValueEnum};
use std::fmt;
use std::io::IsTerminal;
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

/// Sends the log to stderr from now on. A text line begins with `node` if there
/// is one, because the lines of several nodes share a terminal. Must be called
/// only once.
pub(crate) fn install(options: LogOptions, node: Option<String>) {
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
        .with_writer(std::io::stderr)
        // The layer would report them on stderr with a macro that panics when
        // stderr is closed.
        .log_internal_errors(false);
    match options.format {
        // Colours only on a terminal, never in a file.
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .with_timer(NodeAndTime(node))
            .init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
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
