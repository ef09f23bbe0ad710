//! The log: lines to stderr, for people or for machines.

use clap::{Args, ValueEnum};
use std::fmt;
use std::io::IsTerminal;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// What is logged to stderr, and how.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LogOptions {
    /// The least level that is logged
    #[arg(long = "log", value_enum, value_name = "LEVEL", help_heading = "Log", default_value_t = LogLevel::Info)]
    pub(crate) level: LogLevel,
    /// text for people, json for machines: one object a line
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

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Sends what the program logs from here on to stderr. Lines for people begin
/// with `node` where there is one: the lines of several share a terminal. Call it once.
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
        // It would be told on stderr, by a macro that panics when that is gone.
        .log_internal_errors(false);
    match options.format {
        // Colours only where somebody looks, never in a file.
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .with_timer(NodeAndTime(node))
            .init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}

/// What a line for people begins with.
struct NodeAndTime(Option<String>);

impl FormatTime for NodeAndTime {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        if let Some(node) = &self.0 {
            write!(line, "{node} ")?;
        }
        SystemTime.format_time(line)
    }
}
