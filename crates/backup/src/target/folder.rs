//! A folder that all nodes share, for example by NFS.
//!
//! An object is a file. It is written under another name in the same folder, synced and renamed,
//! and the folder is synced. What a crash leaves under other names is not listed, and removed by
//! pruning.

use super::{ObjectInfo, ObjectReader, ObjectWriter, Target};
use lsm::{Disk, DiskFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What files are called that are not complete.
const UNFINISHED: &str = ".tmp";

/// A folder.
pub struct FolderTarget {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Tells the unfinished files of this process from those of others.
    process: u64,
    next: AtomicU64,
}

impl FolderTarget {
    /// A folder of this disk. It must exist: one that is made where nothing is mounted would hold
    /// backups that nobody finds. `process` is a random number.
    ///
    /// # Errors
    /// `NotFound`, and those of the disk.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, process: u64) -> io::Result<Self> {
        disk.list(folder)?;
        Ok(Self {
            disk,
            folder: folder.to_owned(),
            process,
            next: AtomicU64::new(0),
        })
    }
}

impl Target for FolderTarget {
    fn create(&self, name: &str) -> io::Result<Box<dyn ObjectWriter>> {
        let path = self.folder.join(name);
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        self.disk.create_folder(&folder)?;
        let number = self.next.fetch_add(1, Relaxed);
        let unfinished = folder.join(format!("{:016x}-{number}{UNFINISHED}", self.process));
        let file = self.disk.create_direct(&unfinished)?;
        Ok(Box::new(FolderWriter {
            disk: Arc::clone(&self.disk),
            file,
            bytes: 0,
            unfinished: Some(unfinished),
            path,
            folder,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ObjectReader>> {
        let file = self.disk.open_to_read(&self.folder.join(name))?;
        let bytes = file.len()?;
        Ok(Box::new(FolderReader { file, bytes }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ObjectInfo>> {
        let names = self.names(folder)?;
        let mut objects = Vec::new();
        for file in names.iter().filter(|name| !name.ends_with(UNFINISHED)) {
            let name = format!("{folder}/{file}");
            match self.disk.open_to_read(&self.folder.join(&name)) {
                Ok(opened) => objects.push(ObjectInfo {
                    bytes: opened.len()?,
                    name,
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(objects)
    }

    fn remove_unfinished(&self, folder: &str) -> io::Result<()> {
        for file in self.names(folder)? {
            if file.ends_with(UNFINISHED) {
                self.remove_file(&self.folder.join(folder).join(file))?;
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.folder.join(name);
        self.remove_file(&path)?;
        path.parent().map_or(Ok(()), |it| self.disk.sync_folder(it))
    }
}

impl FolderTarget {
    /// The names of all files of a folder; none if there is no such folder.
    fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        match self.disk.list(&self.folder.join(folder)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names,
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        match self.disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

struct FolderWriter {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    bytes: u64,
    /// The name of the file until it is complete.
    unfinished: Option<PathBuf>,
    path: PathBuf,
    folder: PathBuf,
}

impl ObjectWriter for FolderWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn complete(mut self: Box<Self>) -> io::Result<()> {
        self.file.sync()?;
        if let Some(unfinished) = &self.unfinished {
            self.disk.rename(unfinished, &self.path)?;
        }
        self.unfinished = None;
        self.disk.sync_folder(&self.folder)
    }
}

impl Drop for FolderWriter {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished
            && let Err(error) = self.disk.remove(unfinished)
        {
            tracing::debug!(%error, "could not remove an unfinished file of a backup");
        }
    }
}

struct FolderReader {
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl ObjectReader for FolderReader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}
