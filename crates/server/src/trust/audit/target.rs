//! Where the audit log goes.

use super::Shared;
use crate::config::AuditTarget;
use crate::line_writer::Output;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// The target of an audit log, open for lines.
pub(super) struct OpenTarget {
    target: AuditTarget,
    /// None for stderr.
    file: Option<File>,
    /// Whether the last attempt failed, which is logged once.
    is_failing: bool,
    audit: Arc<Shared>,
}

impl OpenTarget {
    /// Opens the target.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(target: AuditTarget, audit: Arc<Shared>) -> io::Result<Self> {
        let file = match &target {
            AuditTarget::Stderr => None,
            AuditTarget::File(file) => Some(open(file)?),
        };
        Ok(Self {
            target,
            file,
            is_failing: false,
            audit,
        })
    }

    fn report(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!(%error, "cannot write the audit log: its lines are lost until it can be written again");
        }
    }
}

impl Output for OpenTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.file {
            Some(file) => file.write(bytes),
            None => io::stderr().write(bytes),
        };
        match &written {
            Ok(_) => self.is_failing = false,
            // The writer tries again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.report(error),
        }
        written
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

    /// The audit log counts by kind of event, also what the writer could not take.
    fn left_out(&mut self, _count: u64) -> Vec<u8> {
        self.audit.left_out_lines()
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
