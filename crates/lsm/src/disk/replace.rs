//! Replacing a small file as a whole.

use super::Disk;
use crate::Error;
use std::path::Path;

/// What the name of the new file has behind it until it takes the old one's place.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The name that the file `name` has while [`replace_file`] writes it. A crash
/// may leave such a file; nothing reads it.
#[must_use]
pub fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Makes `bytes` the content of the file `name` in `folder`, durably: after a
/// crash the file has all of the old content or all of the new one.
///
/// # Errors
/// [`Error::DiskFull`] and [`Error::Io`]: the old content stays.
/// [`Error::Sync`]: which of the two is there after a crash is unknown.
pub fn replace_file(disk: &dyn Disk, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let temporary = folder.join(temporary_name(name));
    if let Err(error) = write(disk, &temporary, bytes) {
        // A full disk is no place for half a file. It is in nobody's way
        // otherwise, so a failure to remove it is no failure.
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    disk.rename(&temporary, &folder.join(name))
        .map_err(|error| Error::io("rename", &temporary, error))?;
    disk.sync_folder(folder)
        .map_err(|error| Error::sync(folder, error))
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let file = disk
        .create(path)
        .map_err(|error| Error::io("create", path, error))?;
    file.write_all_at(bytes, 0)
        .map_err(|error| Error::io("write", path, error))?;
    file.sync().map_err(|error| Error::sync(path, error))
}
