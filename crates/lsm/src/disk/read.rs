//! Reading a file as a whole.

use super::{Disk, DiskFile};
use crate::Error;
use std::io;
use std::path::Path;

/// The content of a file.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, Error> {
    let file = disk
        .open(path)
        .map_err(|error| Error::io("open", path, error))?;
    let length = length(&*file, path)?;
    read(&*file, path, length)
}

/// The content of a file that is at most `bytes_max` long; `None` without such
/// a file.
///
/// # Errors
/// [`Error::Io`], and [`Error::Corrupt`] for a longer file, which is not read.
pub fn read_small_file(
    disk: &dyn Disk,
    path: &Path,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let length = length(&*file, path)?;
    if length > bytes_max {
        let what = format!("the file has {length} bytes; at most {bytes_max} are expected");
        return Err(Error::corrupt(path, bytes_max, what));
    }
    read(&*file, path, length).map(Some)
}

fn length(file: &dyn DiskFile, path: &Path) -> Result<u64, Error> {
    file.len()
        .map_err(|error| Error::io("read the length of", path, error))
}

fn read(file: &dyn DiskFile, path: &Path, length: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| Error::io("read", path, error))?;
    Ok(bytes)
}
