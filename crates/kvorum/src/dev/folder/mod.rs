//! The folder of a local cluster: its lock, and the files beside the folders of its nodes. Only its
//! user may enter it.

mod admin_token;
mod authority;
mod members_file;

pub(super) use admin_token::AdminToken;
pub(super) use authority::Authority;
pub(super) use members_file::{KnownNode, MembersFile};

use crate::admin::write_file;
use crate::failure::Failure;
use lsm::{Disk, RealDisk};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// The name of the socket in the folder.
const SOCKET: &str = "CONTROL";

/// The lock on the folder of a cluster, which the process that runs the cluster
/// holds.
pub(super) struct ClusterFolderLock {
    folder: OwnedFd,
    socket: PathBuf,
}

impl ClusterFolderLock {
    /// Locks the folder, which must exist.
    ///
    /// # Errors
    /// Another process runs a cluster in the folder; errors of the system.
    pub(super) fn take(data: &Path) -> Result<Self, Failure> {
        let failed = |error: rustix::io::Errno| match error {
            rustix::io::Errno::NOTDIR => {
                Failure::usage(format!("--data: {} is not a folder", data.display()))
            }
            _ => Failure::failed(format!("cannot lock {}: {error}", data.display())),
        };
        let folder = open_folder(data).map_err(failed)?;
        // It also has the token that may do everything, and the authority's key.
        RealDisk::default()
            .check_folder(data)
            .map_err(|error| Failure::failed(format!("cannot use {}: {error}", data.display())))?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                folder,
                socket: data.join(SOCKET),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::failed(format!(
                "another 'kvorum dev' runs on {}: stop it first, or choose another folder with \
                 --data",
                data.display()
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Begins to listen for commands.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn listen(&self) -> Result<UnixListener, Failure> {
        self.remove_socket();
        let failed = |error: io::Error| {
            Failure::failed(format!("cannot make {}: {error}", self.socket.display()))
        };
        let path = short_path(&self.folder);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(listener)
    }

    fn remove_socket(&self) {
        #[expect(
            clippy::disallowed_methods,
            reason = "the folder of a local cluster is no part of a store"
        )]
        // A socket that does not exist need not be removed. If an existing one
        // cannot be removed, the next bind reports it.
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Drop for ClusterFolderLock {
    fn drop(&mut self) {
        self.remove_socket();
    }
}

/// Opens the folder of a cluster.
pub(super) fn open_folder(data: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(data, flags, Mode::empty())
}

/// The path of the socket through the open folder, because a socket's path may
/// have at most 107 bytes and the path of a folder many more.
pub(super) fn short_path(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Creates a folder that only its user may enter, unless it exists.
pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(|error| {
        let folder = folder.display();
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Failure::usage(format!("--data: {folder} is not a folder"))
            }
            _ => Failure::failed(format!(
                "cannot create the folder {folder}: {error}; --data names another one"
            )),
        }
    })
}

/// Writes a file that only its owner may read, whole or not at all.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    write_file(file, text, 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_cluster_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let lock = ClusterFolderLock::take(folder.path()).ok().unwrap();
        let refused = ClusterFolderLock::take(folder.path()).err().unwrap();
        assert!(refused.line().contains("another 'kvorum dev' runs"));
        drop(lock);
        assert!(ClusterFolderLock::take(folder.path()).is_ok());
        // Others could put a token or an authority of their own there.
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let refused = ClusterFolderLock::take(folder.path()).err().unwrap();
        assert!(refused.line().contains("chmod 700"), "{}", refused.line());
    }
}
