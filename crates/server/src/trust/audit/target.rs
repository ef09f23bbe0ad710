//! The thread that writes the audit log.

use crate::config::AuditTarget;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often it is written what was left out, and a file that fails is tried again.
const PERIOD: Duration = Duration::from_secs(1);

/// What requests hand to the thread.
pub(super) enum Message {
    /// A line, with its end.
    Line(Vec<u8>),
    /// The file is to be opened again.
    Reopen,
}

/// Writes lines to a target.
pub(super) struct Writer {
    target: AuditTarget,
    /// None for stderr, and for a file that could not be opened again.
    file: Option<File>,
    /// Whether the last attempt failed, which is logged once.
    is_failing: bool,
}

impl Writer {
    /// Opens the target.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(target: AuditTarget) -> io::Result<Self> {
        let file = match &target {
            AuditTarget::Stderr => None,
            AuditTarget::File(file) => Some(open(file)?),
        };
        Ok(Self {
            target,
            file,
            is_failing: false,
        })
    }

    /// Writes lines until nobody can send any more. `left_out` gives lines about those
    /// that were left out since the last call.
    pub(super) fn run(mut self, messages: &Receiver<Message>, left_out: impl Fn() -> Vec<Vec<u8>>) {
        loop {
            match messages.recv_timeout(PERIOD) {
                Ok(Message::Line(line)) => self.write(&line),
                Ok(Message::Reopen) => self.reopen(),
                Err(RecvTimeoutError::Timeout) => {
                    left_out().iter().for_each(|line| self.write(line));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    left_out().iter().for_each(|line| self.write(line));
                    return;
                }
            }
        }
    }

    fn reopen(&mut self) {
        if let AuditTarget::File(file) = &self.target {
            match open(file) {
                Ok(opened) => self.file = Some(opened),
                // The old file goes on: it may have been renamed, and is not lost.
                Err(error) => self.report(&error),
            }
        }
    }

    fn write(&mut self, line: &[u8]) {
        let written = match (&mut self.file, &self.target) {
            (Some(file), _) => file.write_all(line),
            (None, _) => io::stderr().write_all(line),
        };
        match written {
            Ok(()) => self.is_failing = false,
            Err(error) => self.report(&error),
        }
    }

    fn report(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(%error, "cannot write the audit log: its lines are lost until it can be written again");
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the audit log is not part of a store"
)]
fn open(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(file)
}
