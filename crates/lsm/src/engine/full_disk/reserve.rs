//! The reserve: a file that only takes up room, so that there is some to give
//! back when the disk is full.

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use crate::sync::lock;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The file whose size is the reserve.
const RESERVE_FILE: &str = "RESERVE";

/// The reserve of a store.
pub(super) struct Reserve {
    path: PathBuf,
    /// None before the reserve is first made. The lock is held while the file
    /// grows or shrinks, and no other lock is taken meanwhile.
    file: Mutex<Option<Arc<dyn DiskFile>>>,
    bytes: u64,
}

impl Reserve {
    /// A reserve of `bytes`, which is not made yet: the room of the reserve that
    /// an earlier run left is given back.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn open(disk: &dyn Disk, folder: &Path, bytes: u64) -> Result<Self, Error> {
        let path = folder.join(RESERVE_FILE);
        let file = match disk.open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io("open", &path, error)),
        };
        if let Some(file) = &file {
            file.set_len(0)
                .map_err(|error| Error::io("truncate", &path, error))?;
        }
        Ok(Self {
            path,
            file: Mutex::new(file),
            bytes,
        })
    }

    /// The size that the reserve has once it is made, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the reserve.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(super) fn make(&self, disk: &dyn Disk) -> Result<(), Error> {
        if self.bytes == 0 {
            return Ok(());
        }
        let mut reserve = lock(&self.file);
        let file = match &*reserve {
            Some(file) => file,
            None => reserve.insert(
                disk.create(&self.path)
                    .map_err(|error| Error::io("create", &self.path, error))?,
            ),
        };
        file.allocate(0, self.bytes).map_err(|error| {
            // A part of the reserve may have been allocated before the error.
            let _ = file.set_len(0);
            Error::io("allocate", &self.path, error)
        })
    }

    /// Gives the room of the reserve back.
    pub(super) fn release(&self) -> io::Result<()> {
        match &*lock(&self.file) {
            Some(file) => file.set_len(0),
            None => Ok(()),
        }
    }
}
