//! The disk seam: the file operations that the engine needs, and no more.
//!
//! The engine assumes no more of a disk than this, and the simulated disks provide
//! no more:
//! - Written bytes survive a crash for certain only after [`DiskFile::sync`] returned.
//! - The creation, renaming or removal of a file survives a crash for certain only
//!   after [`Disk::sync_folder`] returned for its folder.
//! - Each page of 4 KiB that was written after the last sync is, after a crash, either
//!   as before or as written.
//! - If the system fails to write back a page by itself, the next sync of each handle
//!   that is open then fails, but no later one.
//!
//! `real` is the machine's file system, with `direct` I/O, `locked_folder` and `permissions`;
//! `read` and `replace` are whole small files, `checked_file` their frame; `parallel` works on many
//! files at the same time, and `file_cache` bounds how many are open.

pub mod checked_file;
mod direct;
mod file_cache;
mod locked_folder;
mod parallel;
mod permissions;
mod read;
mod real;
mod replace;

#[cfg(test)]
mod tests;

pub(crate) use direct::ALIGNMENT as DIRECT_ALIGNMENT;
pub use direct::DirectReader;
pub(crate) use file_cache::{CachedFile, FileCache};
pub(crate) use parallel::map_parallel;
pub(crate) use read::read_file;
pub use read::read_small_file;
pub use real::RealDisk;
pub use replace::{rename_old_file, replace_file, temporary_name};

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system, or a simulation of one.
pub trait Disk: Send + Sync {
    /// Creates a folder and its parents, durably. It is no error if the folder exists.
    ///
    /// # Errors
    /// Those of the system, as for every call of this trait.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// Checks that a folder, if it exists, is one that a store may use: this process may read
    /// and write it, and no other user of the machine may write to it.
    ///
    /// # Errors
    /// One that says what to do, and those of the system.
    fn check_folder(&self, folder: &Path) -> io::Result<()> {
        let _ = folder;
        Ok(())
    }

    /// The names of the files in a folder, sorted.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates an empty file for reading and writing. An existing file is emptied.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates an empty file as [`Disk::create`] does, which is written once, from its
    /// beginning to its end, and will hardly be read soon: what is written goes past the
    /// system's memory if the file system allows that. It is durable after a sync, as always.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn create_direct(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.create(file)
    }

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading alone, as one of a file system that takes no writes.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn open_to_read(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(file)
    }

    /// How many files a store opens and reads at the same time when it starts. One for a disk whose
    /// calls are to come in the same order each time.
    fn parallel_opens(&self) -> usize {
        1
    }

    /// Removes a file. Its open handles stay readable.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn remove(&self, file: &Path) -> io::Result<()>;

    /// Renames a file within its folder. A file with the name `to` is replaced
    /// atomically.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives the file `from` the name `to`, and a file of that name the name `from`, atomically.
    /// Without such a file, and where the file system cannot do this, it is a rename.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn exchange(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a folder durable.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// How many bytes can still be written to the file system of `folder`. This is an
    /// estimate, because others write too and a quota may allow less.
    ///
    /// # Errors
    /// As [`Disk::create_folder`]; also if the folder is locked and its path has come to name
    /// another one.
    fn available_bytes(&self, folder: &Path) -> io::Result<u64>;

    /// How many bytes the file system of `folder` has, used ones included.
    ///
    /// # Errors
    /// `Unsupported` if it cannot say that, and those of the system.
    fn size_bytes(&self, folder: &Path) -> io::Result<u64> {
        let _ = folder;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes the lock of a folder without waiting, and holds it until the result is
    /// dropped or the process ends. `None` if another holder has the lock. While it is held,
    /// no file is created, opened, renamed or removed in the folder, or below it, if its path has
    /// come to name another folder.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn lock(&self, folder: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;
}

/// The space of a file system, as far as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpace {
    /// What can still be written, in bytes.
    pub free_bytes: Option<u64>,
    /// What it has in all, in bytes.
    pub size_bytes: Option<u64>,
}

/// An open file.
#[expect(
    clippy::len_without_is_empty,
    reason = "no caller asks whether a file is empty"
)]
pub trait DiskFile: Send + Sync {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before the buffer is full, and those of the
    /// system, as for every call of this trait.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`; the file grows as needed.
    ///
    /// # Errors
    /// `StorageFull` if there is no room.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Allocates room for `bytes` bytes from `offset`, so that writing them later cannot
    /// fail because the disk is full. The file grows to their end; new bytes are zero.
    ///
    /// # Errors
    /// `StorageFull` if there is no room.
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros.
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has a name in some folder. A removed file that has none can be read by
    /// its open handles only. Where the system cannot tell, the file has a name.
    ///
    /// # Errors
    /// Those of the system.
    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Opens the file once more, to read long pieces of it past the system's memory. [`None`]
    /// if that is not possible.
    fn direct_reader(&self) -> Option<DirectReader> {
        None
    }

    /// Says that this part of the file will be read soon, so that the system may begin with it.
    fn will_need(&self, _offset: u64, _bytes: u64) {}

    /// Behind this offset there is only room that was allocated and never written, or nothing.
    /// Where the file system cannot tell, that is the length. Ask before the file is read: what
    /// a system has read of such room, it may take for written.
    ///
    /// # Errors
    /// Those of the system.
    fn written_end(&self) -> io::Result<u64> {
        self.len()
    }

    /// Makes everything written so far durable (`fdatasync`).
    ///
    /// # Errors
    /// Those of the system. After one, unsynced bytes may or may not be durable.
    fn sync(&self) -> io::Result<()>;
}
