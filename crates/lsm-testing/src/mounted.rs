//! A disk with a part of another one, as a machine has it that mounts a shared folder.

use lsm::{Disk, DiskFile};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A disk that passes calls for the paths below a folder on to a disk that others use, too.
pub struct MountedDisk {
    own: Arc<dyn Disk>,
    shared: Arc<dyn Disk>,
    at: PathBuf,
}

impl MountedDisk {
    /// The disk `own`, with `shared` in the place of its folder `at`.
    #[must_use]
    pub fn new(own: Arc<dyn Disk>, shared: Arc<dyn Disk>, at: &Path) -> Self {
        Self {
            own,
            shared,
            at: at.to_owned(),
        }
    }

    fn of(&self, path: &Path) -> &dyn Disk {
        if path.starts_with(&self.at) {
            &*self.shared
        } else {
            &*self.own
        }
    }
}

impl Disk for MountedDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder).create_folder(folder)
    }

    fn check_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder).check_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.of(folder).list(folder)
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.of(file).create(file)
    }

    fn create_direct(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.of(file).create_direct(file)
    }

    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.of(file).open(file)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.of(file).remove(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from).rename(from, to)
    }

    fn exchange(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from).exchange(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.of(folder).sync_folder(folder)
    }

    fn available_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.of(folder).available_bytes(folder)
    }

    fn size_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.of(folder).size_bytes(folder)
    }

    fn lock(&self, folder: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        self.of(folder).lock(folder)
    }
}
