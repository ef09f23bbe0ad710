//! What can go wrong, named by what the caller must do about it.

use base::Timestamp;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why an operation of the engine failed. Cheap to clone, because every write of a
/// group gets the error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Flush or compaction is behind, or too many writes wait, or a late write was admitted
    /// before the present [`Generation`](crate::Generation) of its source. Try again later.
    #[error("the store is overloaded: too many writes wait for the disk")]
    Overloaded,
    /// The disk has no room for more data. Reads and deletes go on. The store
    /// accepts puts again by itself once there is room.
    #[error("the disk is full: free space on it, or delete data")]
    DiskFull,
    /// An earlier sync or write to the log failed, so what is on disk is unknown.
    /// Reads go on. Restart the store to write again.
    #[error("the store is read-only until it is restarted: {cause}")]
    Poisoned {
        /// The failure that poisoned the store.
        cause: Arc<str>,
    },
    /// Stored bytes differ from what was written. Another replica may have them.
    #[error("corruption in {} at offset {offset}: {what}", .file.display())]
    Corrupt {
        /// The damaged file.
        file: Arc<Path>,
        /// Where in the file the damaged structure begins, in bytes.
        offset: u64,
        /// What was found.
        what: Arc<str>,
    },
    /// The operating system refused a call on a file.
    #[error("cannot {action} {}: {source}", .file.display())]
    Io {
        /// What was tried, as a verb: `read`, `rename`.
        action: &'static str,
        /// The file it was tried on.
        file: Arc<Path>,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// A sync failed. Which of the written bytes are durable is unknown, and a later
    /// sync that succeeds does not change that.
    #[error("cannot sync {}: {source}", .file.display())]
    Sync {
        /// The file or folder.
        file: Arc<Path>,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// Another process uses the folder, or has locked it, for which it need only be able to
    /// read it.
    #[error(
        "{} is in use, or another process has locked the folder: see lslocks",
        .folder.display()
    )]
    Locked {
        /// The data folder.
        folder: PathBuf,
    },
    /// The write is older than the closed timestamp of the store, or a late write is older
    /// than the GC threshold, which has risen since its admission: its sender must not try
    /// again.
    #[error("the write is obsolete: the store takes no such write below {below}")]
    Obsolete {
        /// The timestamp below which the store does not take such writes.
        below: Timestamp,
    },
    /// The store has promised another ballot of the key. Try again above it, later.
    #[error("the store has promised ballot {with} of the key")]
    Promised {
        /// The other ballot.
        with: Timestamp,
        /// Whether it has kept that promise for longer than it usually takes.
        is_stale: bool,
    },
    /// The store does not keep the promise by which a version was to be accepted, and never will
    /// again.
    #[error("the store does not keep the promise of this version")]
    NotPromised,
    /// The store is being closed.
    #[error("the store is closed")]
    Closed,
    /// The caller asked for something impossible, such as a key that is too long.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// An I/O error with its context. A full disk becomes [`Error::DiskFull`], and so does
    /// whatever else keeps files from growing: a quota, or a limit on the length of files.
    #[must_use]
    pub fn io(action: &'static str, file: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull,
            _ => Self::Io {
                action,
                file: file.into(),
                source: Arc::new(source),
            },
        }
    }

    /// A failed sync of a file or folder. Never [`Error::DiskFull`], even if the
    /// system reports a full disk: what is on disk is unknown, and more room does
    /// not change that.
    #[must_use]
    pub fn sync(file: &Path, source: io::Error) -> Self {
        Self::Sync {
            file: file.into(),
            source: Arc::new(source),
        }
    }

    /// Whether a sync failed, so that what is on disk is unknown.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. })
    }

    /// Corruption of `file` at `offset`.
    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<Arc<str>>) -> Self {
        Self::Corrupt {
            file: file.into(),
            offset,
            what: what.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_keeps_a_file_from_growing_is_a_full_disk() {
        let of = |error: rustix::io::Errno| Error::io("write", Path::new("log"), error.into());
        for error in [
            rustix::io::Errno::NOSPC,
            rustix::io::Errno::DQUOT,
            rustix::io::Errno::FBIG,
        ] {
            assert!(matches!(of(error), Error::DiskFull), "{error}");
        }
        assert!(matches!(of(rustix::io::Errno::IO), Error::Io { .. }));
    }
}
