//! Stderr. Its reader may stall, and no serving thread may wait for it. So a separate thread writes
//! the lines ([`server::LineWriter`]): the log, failures and panics. Other commands write directly.

use crate::text;
use crate::threads::refusal_of_thread;
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
    let writer = LineWriter::start("log", Stderr, Arc::new(SystemClock::new()))
        .map_err(|error| io::Error::new(error.kind(), refusal_of_thread(&error)))?;
    let writer = Arc::clone(STDERR.get_or_init(|| Arc::new(writer)));
    text::report_through(say);
    server::before_abort(flush);
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let backtrace = Backtrace::capture();
        // No wait: the thread may serve, and go on. A process that ends of it flushes.
        say(&panic_text(thread.name(), panic, &backtrace));
    }));
    Ok(writer)
}

/// Writes what was said when it is dropped, however `main` ends.
pub(crate) struct LastWords;

impl Drop for LastWords {
    fn drop(&mut self) {
        flush();
    }
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
                "log lines were dropped: they were not read fast enough, or could not be written"
            );
        }
        // The line has come to the queue.
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::ioctl_fionbio;
    use std::panic::catch_unwind;
    use std::process::{Command, ExitStatus, Stdio};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Says to a process which of the tests it is the child of.
    const CHILD_OF: &str = "KVORUM_TEST_OF_STDERR";

    /// How long a test waits for what must come.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The exit code of a child that came to its end.
    const DONE: i32 = 42;

    fn is_child_of(test: &str) -> bool {
        std::env::var_os(CHILD_OF).is_some_and(|of| of == test)
    }

    fn child_of(test: &str) -> Command {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", &format!("stderr::tests::{test}"), "--nocapture"])
            .env(CHILD_OF, test)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::null());
        child
    }

    #[test]
    fn a_panic_waits_for_nobody_who_does_not_read() {
        const NAME: &str = "a_panic_waits_for_nobody_who_does_not_read";
        if is_child_of(NAME) {
            write_on_a_thread().unwrap();
            // Each would wait for as long as a flush does.
            for _ in 0..PATIENCE.as_secs() * 2 {
                assert!(catch_unwind(|| panic!("of a request")).is_err());
            }
            std::process::exit(DONE);
        }
        let (reader, mut full) = io::pipe().unwrap();
        ioctl_fionbio(&full, true).unwrap();
        while full.write(b"\n").is_ok() {}
        ioctl_fionbio(&full, false).unwrap();
        let mut child = child_of(NAME).stderr(full).spawn().unwrap();
        let (ended, end) = channel();
        let pid = rustix::process::Pid::from_child(&child);
        let waiting = std::thread::Builder::new();
        let waiting = waiting.spawn(move || {
            let _ = ended.send(child.wait().unwrap());
        });
        let status = end.recv_timeout(PATIENCE);
        if status.is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        waiting.unwrap().join().unwrap();
        drop(reader);
        assert_eq!(status.ok().as_ref().and_then(ExitStatus::code), Some(DONE));
    }

    #[test]
    fn the_last_words_of_a_process_that_panics_in_main_are_written() {
        const NAME: &str = "the_last_words_of_a_process_that_panics_in_main_are_written";
        if is_child_of(NAME) {
            let ended = catch_unwind(|| {
                let _last_words = LastWords;
                write_on_a_thread().unwrap();
                // They wait behind much else.
                for line in 0..1000 {
                    say(&format!("line {line} {}\n", "x".repeat(100)));
                }
                panic!("in main");
            });
            assert!(ended.is_err());
            std::process::abort();
        }
        let output = child_of(NAME).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(
            stderr.contains("' panicked at ") && stderr.contains("in main"),
            "{stderr}"
        );
    }
}
