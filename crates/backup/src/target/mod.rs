//! Where backups lie.

mod folder;

pub use folder::FolderTarget;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a target lies.
#[derive(Clone)]
pub enum TargetPlace {
    /// In a folder that all nodes share.
    Folder(PathBuf),
    /// Elsewhere, as whoever configures the node has opened it.
    Opened(Arc<dyn Target>),
}

impl From<&str> for TargetPlace {
    fn from(folder: &str) -> Self {
        Self::Folder(folder.into())
    }
}

impl fmt::Debug for TargetPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(formatter, "{}", folder.display()),
            Self::Opened(_) => formatter.write_str("a target that was opened"),
        }
    }
}

/// An object that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name: that of its folder, `/`, and that within the folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A store of objects that all nodes reach. All calls block.
pub trait Target: Send + Sync {
    /// Begins to write an object. It has no name before [`ObjectWriter::complete`], and then takes
    /// the place of one that had it.
    ///
    /// # Errors
    /// Those of the target, as for every call of this trait.
    fn create(&self, name: &str) -> io::Result<Box<dyn ObjectWriter>>;

    /// Opens an object.
    ///
    /// # Errors
    /// `NotFound`, and those of the target.
    fn open(&self, name: &str) -> io::Result<Box<dyn ObjectReader>>;

    /// Writes an object, unless there is one of this name. Returns whether it has. Of two that do it at
    /// the same time both may believe so where the target has no such operation: whoever relies on
    /// it reads the object again.
    ///
    /// # Errors
    /// Those of the target.
    fn put_new(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        match self.open(name) {
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut writer = self.create(name)?;
        writer.write(bytes)?;
        writer.complete()?;
        Ok(true)
    }

    /// Removes what is left in a folder of objects that were never completed, by this process or
    /// others. Nobody may be writing there.
    ///
    /// # Errors
    /// Those of the target.
    fn remove_unfinished(&self, folder: &str) -> io::Result<()>;

    /// The objects of a folder, which are those whose names begin with it and `/`, sorted.
    ///
    /// # Errors
    /// Those of the target.
    fn list(&self, folder: &str) -> io::Result<Vec<ObjectInfo>>;

    /// Removes an object. It is no error if there is none.
    ///
    /// # Errors
    /// Those of the target.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// An object that is being written. If it is dropped, there is none.
pub trait ObjectWriter: Send {
    /// Appends bytes.
    ///
    /// # Errors
    /// Those of the target.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Gives the object its name. It is durable then.
    ///
    /// # Errors
    /// Those of the target. There may or may not be an object then.
    fn complete(self: Box<Self>) -> io::Result<()>;
}

/// An object that is read.
pub trait ObjectReader: Send {
    /// Its length in bytes.
    fn bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the object ends before, and those of the target.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}
