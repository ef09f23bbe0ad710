//! Replacing the content of a small file atomically.

use super::Disk;
use crate::Error;
use std::path::Path;

/// The suffix of the new file's name until it replaces the old file.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// The name of the file `name` while [`replace_file`] writes it. A crash may leave
/// such a file, which nothing reads.
#[must_use]
pub fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Makes `bytes` the content of the file `name` in `folder`, durably. After a crash
/// the file has all of the old content or all of the new one.
///
/// # Errors
/// [`Error::DiskFull`] and [`Error::Io`]: the old content stays.
/// [`Error::Sync`]: after a crash the file may have either content.
pub fn replace_file(disk: &dyn Disk, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let temporary = folder.join(temporary_name(name));
    if let Err(error) = write(disk, &temporary, bytes) {
        // Half a file takes room on a full disk, but does no other harm. So it is no
        // error if it cannot be removed.
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
