//! Stderr. Whoever reads it may stop. So that no thread of a process which serves waits for
//! that, a thread of its own writes the lines ([`server::LineWriter`]): the log, failures and
//! panics. Other commands write themselves.

use base::SystemClock;
use server::{FLUSH_MAX, LeftOut, LineWriter, Output};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

/// What writes to stderr, once a process serves.
static STDERR: OnceLock<Arc<LineWriter>> = OnceLock::new();

/// Has a thread write to stderr what this process says there from now on, and returns it.
///
/// # Errors
/// The system starts no thread.
pub(crate) fn write_on_a_thread() -> io::Result<Arc<LineWriter>> {
    let writer =
        LineWriter::start("log", Stderr, Arc::new(SystemClock::new())).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot start a thread for the log: {error}"),
            )
        })?;
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

/// Says whole lines on stderr, without waiting for whoever reads it where this process
/// serves. A closed stderr is ignored.
pub(crate) fn say(lines: &str) {
    match STDERR.get() {
        // What does not fit is counted.
        Some(_) => push(lines.as_bytes()),
        None => {
            let _ = io::stderr().write_all(lines.as_bytes());
        }
    }
}

/// Has a line of the log written, where this process serves.
pub(crate) fn push(line: &[u8]) {
    if let Some(writer) = STDERR.get() {
        let _fits = writer.push(line);
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

    fn left_out(&mut self, by_writer: LeftOut) -> Vec<u8> {
        let count = by_writer.refused + by_writer.failed;
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
