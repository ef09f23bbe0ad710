//! The disk seam: the file operations that the engine needs, and no more.
//!
//! What the engine assumes of a disk, and the simulated disk breaks at will:
//! - bytes written to a file survive a crash only once [`DiskFile::sync`] returned;
//! - a file that was created, renamed or removed has surely done so after a
//!   crash only once [`Disk::sync_folder`] returned for its folder;
//! - after a crash each page (4 KiB) written since the last sync is either as
//!   it was before or as it was written;
//! - what the system fails to write back by itself it tells the next sync of
//!   each handle that was open then, and each only once.

mod faulty;
mod hooked;
mod memory;
mod read;
mod real;
mod replace;

#[cfg(test)]
mod tests;

pub use faulty::{Call, Fault, FaultyDisk};
pub use hooked::{HookedDisk, SyncHook};
pub use memory::{MemoryDisk, Unsynced};
pub(crate) use read::read_file;
pub use read::read_small_file;
pub use real::RealDisk;
pub use replace::{replace_file, temporary_name};

use std::any::Any;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file system, or something that acts as one.
pub trait Disk: Send + Sync {
    /// Creates a folder and its parents, durably; one that exists is no error.
    ///
    /// # Errors
    /// Those of the system; so for every call below.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The names of the files in a folder, sorted.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates an empty file for reading and writing; an existing one is emptied.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Removes a file. Open handles of it stay readable.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn remove(&self, file: &Path) -> io::Result<()>;

    /// Renames a file within its folder; one that has the name `to` is replaced atomically.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a folder durable.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// How many bytes can still be written to the file system that holds
    /// `folder`. An estimate: others write too, and a quota may say less.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn available_bytes(&self, folder: &Path) -> io::Result<u64>;

    /// Takes the lock that `file` stands for, without waiting, and holds it
    /// until the result is dropped or the process ends; `None` when another
    /// holder has it.
    ///
    /// # Errors
    /// As [`Disk::create_folder`].
    fn lock(&self, file: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>>;
}

/// An open file.
#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks whether a file is empty"
)]
pub trait DiskFile: Send + Sync {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before, and those of the system; so
    /// for every call below.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`; the file grows as needed.
    ///
    /// # Errors
    /// `StorageFull` when there is no room.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes room for `bytes` bytes from `offset`, so that writing them later
    /// cannot fail for want of space. The file grows to the end of them; new bytes are zero.
    ///
    /// # Errors
    /// `StorageFull` when there is no room.
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()>;

    /// Cuts the file off, or extends it with zeros.
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Makes everything written so far durable (`fdatasync`).
    ///
    /// # Errors
    /// Those of the system; after one nothing is known of what was written.
    fn sync(&self) -> io::Result<()>;
}
