//! Replacing the content of a small file atomically.
//!
//! The new content is written to a file beside, and then the two exchange their names. So the
//! file before stays, under the temporary name, and its room is there for the next content: a
//! store on a full disk can change its small files, and start.
//!
//! A process that is killed between the exchange and the sync of the folder leaves under the
//! temporary name a file that the disk may still hold under the other one, and that a crash brings
//! back. So nothing is replaced in a folder that this process has not synced since it started: an
//! engine does that before all else when it opens a store, and whoever has files in its folder
//! replaces them afterwards.

use super::{Disk, DiskFile};
use crate::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The suffix of the new file's name until it takes the old file's place.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// How much longer the next content can be than this one and still have room, in bytes.
const SPARE_BYTES: u64 = 8 << 10;

/// The name of the file `name` while [`replace_file`] writes it, and of the file before
/// afterwards. Nothing reads a file of this name.
#[must_use]
pub fn temporary_name(name: &str) -> String {
    format!("{name}{TEMPORARY_SUFFIX}")
}

/// Makes `bytes` the content of the file `name` in `folder`, durably. After a crash
/// the file has all of the old content or all of the new one, if this process has synced the folder
/// before: see the module.
///
/// # Errors
/// [`Error::DiskFull`] and [`Error::Io`]: the old content stays.
/// [`Error::Sync`]: after a crash the file may have either content.
pub fn replace_file(disk: &dyn Disk, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let temporary = folder.join(temporary_name(name));
    write(disk, &temporary, bytes)?;
    disk.exchange(&temporary, &folder.join(name))
        .map_err(|error| Error::io("rename", &temporary, error))?;
    if let Err(error) = disk.sync_folder(folder) {
        // After a crash the file before may have its name again, so it must not be written to.
        let _ = disk.remove(&temporary);
        return Err(Error::sync(folder, error));
    }
    // If there is no room, the next content may still fit into what the file before had.
    let _is_reserved = open_or_create(disk, &temporary)
        .is_ok_and(|(spare, _)| spare.allocate(0, bytes.len() as u64 + SPARE_BYTES).is_ok());
    Ok(())
}

/// Gives the file `old` of a build before its present name that name, durably, and returns whether
/// there is one. It takes the place of a file `name`: a build before has written it later.
///
/// # Errors
/// [`Error::Io`] and [`Error::Sync`]. The file has either name then.
pub fn rename_old_file(
    disk: &dyn Disk,
    folder: &Path,
    old: &str,
    name: &str,
) -> Result<bool, Error> {
    let old = folder.join(old);
    match disk.open(&old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened.map_err(|error| Error::io("open", &old, error))?,
    };
    disk.rename(&old, &folder.join(name))
        .map_err(|error| Error::io("rename", &old, error))?;
    disk.sync_folder(folder)
        .map_err(|error| Error::sync(folder, error))?;
    Ok(true)
}

/// Writes the new content over what the file had, which needs no room where there was some.
fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let (file, is_new) = open_or_create(disk, path)?;
    let written = file
        .write_all_at(bytes, 0)
        .and_then(|()| file.set_len(bytes.len() as u64))
        .map_err(|error| Error::io("write", path, error))
        .and_then(|()| file.sync().map_err(|error| Error::sync(path, error)));
    if written.is_err() && is_new {
        // Half a file takes room on a full disk, but does no other harm. So it is no
        // error if it cannot be removed.
        let _ = disk.remove(path);
    }
    written
}

/// Opens a file, or creates it. Returns whether it is new.
fn open_or_create(disk: &dyn Disk, path: &Path) -> Result<(Arc<dyn DiskFile>, bool), Error> {
    let opened = match disk.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(path).map(|file| (file, true))
        }
        opened => opened.map(|file| (file, false)),
    };
    opened.map_err(|error| Error::io("create", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::read_small_file;
    use crate::testing::{Fault, FaultyDisk, MemoryDisk};

    const FOLDER: &str = "/store";

    fn content(disk: &dyn Disk) -> Vec<u8> {
        let file = Path::new(FOLDER).join("file");
        read_small_file(disk, &file, 1 << 20).unwrap().unwrap()
    }

    /// The first replacement is of no file. Later ones are hardly longer.
    #[test]
    fn a_full_disk_has_room_for_every_replacement_but_the_first() {
        let disk = MemoryDisk::new();
        let folder = Path::new(FOLDER);
        disk.create_folder(folder).unwrap();
        let replace = |bytes: &[u8]| replace_file(&disk, folder, "file", bytes);
        replace(&[0; 5000]).unwrap();
        for number in 1..20 {
            // Others take what there is, whenever there is some.
            disk.set_capacity(disk.used_bytes());
            let bytes = [number; 5000];
            replace(&bytes).unwrap();
            assert_eq!(content(&disk), bytes);
        }
        // The file before must not be written to while a crash may bring it back.
        disk.fail_syncs(true);
        let before = content(&disk);
        for bytes in [[1; 10], [2; 10]] {
            assert!(matches!(replace(&bytes), Err(Error::Sync { .. })));
            let after = disk.crash_clone(&mut |_| false);
            assert_eq!(content(&after), before);
        }
    }

    /// A replacement fails, so that what it changed may not be durable, and the power is cut in
    /// the next one.
    #[test]
    fn the_file_before_is_whole_wherever_a_crash_comes() {
        let disk = MemoryDisk::new();
        let folder = Path::new(FOLDER);
        disk.create_folder(folder).unwrap();
        let contents = [[1; 5000], [2; 5000], [3; 5000]];
        for bytes in &contents[..2] {
            replace_file(&disk, folder, "file", bytes).unwrap();
        }
        const CALLS: u64 = 10;
        for (first, second) in (0..CALLS * CALLS).map(|it| (it / CALLS, it % CALLS)) {
            let memory = Arc::new(disk.clone_synced());
            let faulty = FaultyDisk::new(Arc::clone(&memory) as _);
            faulty.arm(Fault::at(first, io::ErrorKind::Other));
            let _ = replace_file(&faulty, folder, "file", &contents[1]);
            faulty.arm(Fault::at(second, io::ErrorKind::Other).lasting());
            let _ = replace_file(&faulty, folder, "file", &contents[2]);
            assert!(
                second < CALLS - 1 || faulty.failed() == 0,
                "all calls fail once"
            );
            for seed in 0..16 {
                let mut rng = fastrand::Rng::with_seed(seed);
                let after = memory.crash_clone(&mut |_| rng.bool());
                let found = content(&after);
                assert!(
                    contents.iter().any(|bytes| found == bytes),
                    "calls {first} and {second}, seed {seed}"
                );
            }
        }
    }
}
