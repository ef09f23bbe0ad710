//! The reserve: a file that only takes up room, so that there is some to give
//! back when the disk is full.

use crate::disk::{Disk, DiskFile};
use crate::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file whose size is the reserve.
const RESERVE_FILE: &str = "RESERVE";

/// The reserve of a store.
pub(super) struct Reserve {
    path: PathBuf,
    /// None before the reserve is first made.
    file: Option<Arc<dyn DiskFile>>,
}

impl Reserve {
    /// A reserve that is not made yet: the room of the reserve that an earlier run
    /// left is given back.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn open(disk: &dyn Disk, folder: &Path) -> Result<Self, Error> {
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
        Ok(Self { path, file })
    }

    /// Makes the reserve, of `bytes`.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Io`].
    pub(super) fn make(&mut self, disk: &dyn Disk, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(
                disk.create(&self.path)
                    .map_err(|error| Error::io("create", &self.path, error))?,
            ),
        };
        file.allocate(0, bytes).map_err(|error| {
            // A part of the reserve may have been allocated before the error.
            let _ = file.set_len(0);
            Error::io("allocate", &self.path, error)
        })
    }

    /// Gives the room of the reserve back.
    pub(super) fn release(&self) -> io::Result<()> {
        match &self.file {
            Some(file) => file.set_len(0),
            None => Ok(()),
        }
    }
}
