//! The lock of a folder on the real disk.
//!
//! The lock is on the folder itself, because a file can be removed while a process runs, and
//! then a second process would lock another file of the same name. The file `LOCK` is locked
//! besides, for file systems that cannot lock a folder, such as NFS.
//!
//! The path of a folder may come to name another one: the folder is moved, or its file system is
//! unmounted. What is created there would be missing in the folder. And if a copy of the store is
//! there, its files have the names, and the tags, of this one's: whoever opens or removes a file by
//! its path would destroy what another process writes. So it is checked before each of these calls.

use super::permissions;
use rustix::fs::OFlags;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file whose lock excludes a second process where folders cannot be locked.
const LOCK_FILE: &str = "LOCK";

/// A folder that this process has locked. The system holds the locks on the open files, and
/// frees them however the process ends.
#[derive(Debug)]
pub(super) struct LockedFolder {
    path: PathBuf,
    folder: File,
    is_folder_locked: bool,
    file: File,
}

impl LockedFolder {
    /// Locks a folder; `None` if another process has locked it.
    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    pub(super) fn lock(path: &Path) -> io::Result<Option<Self>> {
        let folder = File::open(path).map_err(|error| permissions::explain(path, error))?;
        let is_folder_locked = match folder.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(_)) => false,
        };
        let lock_path = path.join(LOCK_FILE);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(permissions::FILE_MODE)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&lock_path)
            .map_err(|error| permissions::explain(&lock_path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self {
                path: path.to_owned(),
                folder,
                is_folder_locked,
                file,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Checks that what the path names is still locked.
    pub(super) fn check(&self) -> io::Result<()> {
        let named = std::fs::metadata(&self.path).map_err(|error| {
            io::Error::other(format!(
                "the folder {} cannot be reached any more ({error}): it was moved, removed or \
                 unmounted under the running node",
                self.path.display()
            ))
        })?;
        if !is_same(&named, &self.folder.metadata()?) {
            return Err(io::Error::other(format!(
                "another folder has taken the place of {} under the running node: it was moved \
                 or unmounted",
                self.path.display()
            )));
        }
        if self.is_folder_locked {
            return Ok(());
        }
        let lock_path = self.path.join(LOCK_FILE);
        match std::fs::symlink_metadata(&lock_path) {
            Ok(named) if is_same(&named, &self.file.metadata()?) => Ok(()),
            _ => Err(io::Error::other(format!(
                "{} was removed under the running node, so another process may use the folder: \
                 stop both",
                lock_path.display()
            ))),
        }
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
