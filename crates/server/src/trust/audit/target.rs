//! Where the audit log goes.

use super::{LeftOutByKind, Shared};
use crate::config::AuditTarget;
use crate::logs::line_writer::{LeftOut, Output};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// The target of an audit log, open for lines.
pub(super) struct OpenTarget {
    target: AuditTarget,
    /// None for stderr.
    file: Option<File>,
    /// Whether the last attempt failed, which is logged once.
    is_failing: bool,
    /// What was left out and is not written.
    untold: LeftOutByKind,
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
            untold: LeftOutByKind::default(),
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

    fn reopen(&mut self) -> bool {
        let AuditTarget::File(file) = &self.target else {
            return false;
        };
        match open(file) {
            Ok(opened) => {
                let before = self.file.replace(opened);
                !is_same(before.as_ref(), self.file.as_ref())
            }
            // The old file goes on: it may have been renamed, and is not lost.
            Err(error) => {
                self.report(&error);
                false
            }
        }
    }

    /// The audit log counts by kind of event, also what the writer could not take. Which kinds
    /// of lines could not be written is not known.
    fn left_out(&mut self, by_writer: LeftOut) -> Vec<u8> {
        self.audit.take_left_out(&mut self.untold);
        self.audit.left_out_lines(&self.untold, by_writer.failed)
    }

    fn told(&mut self) {
        self.untold = LeftOutByKind::default();
    }
}

/// Whether these are one file.
fn is_same(one: Option<&File>, other: Option<&File>) -> bool {
    let identity = |file: Option<&File>| {
        let metadata = file?.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the audit log is not part of a store"
)]
fn open(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(file)
}
