//! A file system in memory that can simulate a power cut.
//!
//! It holds each file's content twice, page by page: as readers see it, and as the
//! last sync left it. The two share unchanged pages. It holds each folder's names as
//! lookups see them and as the last sync of the folder left them, and the list of
//! changes between the two. A crash keeps any subset of the unsynced pages, any subset
//! of the unsynced lengths, and any prefix of each folder's changes, because
//! journaling file systems keep the order of changes.
//!
//! Invariants:
//! - The bytes of a page after the file's end are zero, in both contents.
//! - `used` is the sum of the lengths of all files that have a name or a handle.

mod file_system;
mod unsynced;

pub use unsynced::Unsynced;

use file_system::{Change, FileSystem, Folder, Inode, PAGE_BYTES, split};
use lsm::{Disk, DiskFile};
use profile::lock;
use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A deterministic file system in memory with a capacity and a model of crashes.
///
/// A new folder is durable at once. The module says when files, their names and their
/// contents are durable.
#[derive(Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<FileSystem>>,
}

impl MemoryDisk {
    /// An empty disk without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the sum of all files' lengths to `bytes`. A limit below the current sum
    /// removes nothing, but keeps files from growing.
    pub fn set_capacity(&self, bytes: u64) {
        lock(&self.files).capacity = Some(bytes);
    }

    /// The sum of all files' lengths, in bytes. A removed file counts until its last
    /// handle is dropped.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        lock(&self.files).used
    }

    /// Makes all syncs fail from now on, or work again. As on Linux, a later sync does
    /// not make the pages of a failed sync durable: a crash may lose them until they
    /// are written again. One sync of each other handle of the file fails too, as after
    /// [`MemoryDisk::fail_writeback`].
    pub fn fail_syncs(&self, fail: bool) {
        lock(&self.files).fail_syncs = fail;
    }

    /// Lets the system fail to write the unsynced pages of a file back by itself. As on
    /// Linux, the next sync of each open handle fails because of it, and no later one.
    /// The same applies to a handle that is opened before any sync has failed.
    ///
    /// # Errors
    /// `NotFound` without such a file.
    pub fn fail_writeback(&self, file: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        let number = files.find(file)?;
        files.inode_mut(number)?.fail_writeback();
        Ok(())
    }

    /// Damages the byte at `offset` of a file durably, by exclusive or with `xor`.
    ///
    /// # Errors
    /// `NotFound` without such a file, `UnexpectedEof` past its end.
    pub fn corrupt(&self, file: &Path, offset: u64, xor: u8) -> io::Result<()> {
        let mut files = lock(&self.files);
        let number = files.find(file)?;
        let Some(inode) = files.inodes.get_mut(&number) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if offset >= inode.current.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for content in [&mut inode.current, &mut inode.synced] {
            if offset < content.length {
                let page = content.page_mut(offset / PAGE_BYTES as u64);
                page[(offset % PAGE_BYTES as u64) as usize] ^= xor;
            }
        }
        Ok(())
    }

    /// A copy of the disk after a power cut; `survives` decides about everything that was
    /// not durable. The copy has no locks and no handles, the same capacity, and its
    /// syncs work. This disk does not change.
    #[must_use]
    pub fn crash_clone(&self, survives: &mut dyn FnMut(Unsynced<'_>) -> bool) -> Self {
        let files = lock(&self.files);
        let mut crashed = FileSystem {
            capacity: files.capacity,
            next_inode: files.next_inode,
            ..FileSystem::default()
        };
        for (path, folder) in &files.folders {
            let mut names = folder.synced.clone();
            for change in &folder.changes {
                if !survives(Unsynced::Change { folder: path }) {
                    break;
                }
                change.apply(&mut names);
            }
            for (name, number) in &names {
                let Some(inode) = files.inodes.get(number) else {
                    continue;
                };
                let content = inode.after_crash(&path.join(name), survives);
                crashed.used += content.length;
                crashed.inodes.insert(
                    *number,
                    Inode {
                        current: content.clone(),
                        synced: content,
                        named: true,
                        ..Inode::default()
                    },
                );
            }
            crashed.folders.insert(
                path.clone(),
                Folder {
                    synced: names.clone(),
                    current: names,
                    changes: Vec::new(),
                },
            );
        }
        Self {
            files: Arc::new(Mutex::new(crashed)),
        }
    }

    /// A copy of the disk after the worst power cut: only synced data survives.
    #[must_use]
    pub fn clone_synced(&self) -> Self {
        self.crash_clone(&mut |_| false)
    }

    fn handle(&self, files: &mut FileSystem, number: u64) -> Arc<dyn DiskFile> {
        let mut failures_reported = 0;
        if let Some(inode) = files.inodes.get_mut(&number) {
            inode.handles += 1;
            failures_reported = inode.failures_reported;
        }
        Arc::new(MemoryFile {
            files: Arc::clone(&self.files),
            number,
            failures_reported: AtomicU64::new(failures_reported),
        })
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = lock(&self.files);
        formatter
            .debug_struct("MemoryDisk")
            .field("used", &files.used)
            .field("capacity", &files.capacity)
            .finish_non_exhaustive()
    }
}

impl Disk for MemoryDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        for path in folder.ancestors() {
            files.folders.entry(path.to_owned()).or_default();
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        match lock(&self.files).folders.get(folder) {
            Some(folder) => Ok(folder.current.keys().cloned().collect()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = lock(&self.files);
        let number = files.find_or_create(file)?;
        files.set_len(number, 0)?;
        Ok(self.handle(&mut files, number))
    }

    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut files = lock(&self.files);
        let number = files.find(file)?;
        Ok(self.handle(&mut files, number))
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        let number = files.find(file)?;
        let (folder, name) = split(file)?;
        files.change(folder, Change::Remove { name })?;
        files.lose_name(number);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        let renamed = files.find(from)?;
        let (folder, from) = split(from)?;
        let (folder_to, name_to) = split(to)?;
        if folder != folder_to {
            return Err(other_folder());
        }
        let replaced = files.find(to).ok().filter(|number| *number != renamed);
        files.change(folder, Change::Rename { from, to: name_to })?;
        if let Some(number) = replaced {
            files.lose_name(number);
        }
        Ok(())
    }

    fn exchange(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        files.find(from)?;
        if files.find(to).is_err() {
            drop(files);
            return self.rename(from, to);
        }
        let (folder, from) = split(from)?;
        let (folder_to, to) = split(to)?;
        if folder != folder_to {
            return Err(other_folder());
        }
        files.change(folder, Change::Exchange { from, to })
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut files = lock(&self.files);
        if files.fail_syncs {
            return Err(sync_failure());
        }
        let Some(folder) = files.folders.get_mut(folder) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        folder.synced = folder.current.clone();
        folder.changes.clear();
        files.collect_garbage();
        Ok(())
    }

    fn available_bytes(&self, _: &Path) -> io::Result<u64> {
        let files = lock(&self.files);
        Ok(match files.capacity {
            Some(capacity) => capacity.saturating_sub(files.used),
            None => u64::MAX,
        })
    }

    fn size_bytes(&self, _: &Path) -> io::Result<u64> {
        let capacity = lock(&self.files).capacity;
        capacity.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    fn lock(&self, folder: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let mut files = lock(&self.files);
        if !files.folders.contains_key(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !files.locks.insert(folder.to_owned()) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemoryLock {
            files: Arc::clone(&self.files),
            folder: folder.to_owned(),
        })))
    }
}

struct MemoryLock {
    files: Arc<Mutex<FileSystem>>,
    folder: PathBuf,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.files).locks.remove(&self.folder);
    }
}

struct MemoryFile {
    files: Arc<Mutex<FileSystem>>,
    number: u64,
    /// How many of the file's failed writebacks this handle's syncs have reported.
    failures_reported: AtomicU64,
}

impl DiskFile for MemoryFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let files = lock(&self.files);
        let content = &files.inode(self.number)?.current;
        let end = end_of(offset, buffer.len() as u64)?;
        if !buffer.is_empty() && end > content.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, part) in pieces(offset, buffer.len()) {
            let target = &mut buffer[part];
            match content.pages.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[within..within + target.len()]),
                None => target.fill(0),
            }
        }
        Ok(())
    }

    /// If the disk is too small for all of `bytes`, those that fit are written before
    /// the error, as on a real disk.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut files = lock(&self.files);
        let end = end_of(offset, bytes.len() as u64)?;
        let length_max = files.length_max(self.number)?;
        let fitting = bytes.len().min(
            length_max
                .saturating_sub(offset)
                .try_into()
                .unwrap_or(usize::MAX),
        );
        if fitting > 0 {
            let length = files.inode(self.number)?.current.length;
            files.set_len(self.number, length.max(end.min(length_max)))?;
            let inode = files.inode_mut(self.number)?;
            for (page, within, part) in pieces(offset, fitting) {
                let source = &bytes[part];
                inode.current.page_mut(page)[within..within + source.len()].copy_from_slice(source);
                inode.touch(page);
            }
        }
        if fitting < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut files = lock(&self.files);
        let length = files.inode(self.number)?.current.length;
        let end = end_of(offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        files.set_len(self.number, length.max(end))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        lock(&self.files).set_len(self.number, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.files).inode(self.number)?.current.length)
    }

    fn has_name(&self) -> io::Result<bool> {
        Ok(lock(&self.files).inode(self.number)?.named)
    }

    fn sync(&self) -> io::Result<()> {
        let mut files = lock(&self.files);
        let fail = files.fail_syncs;
        let inode = files.inode_mut(self.number)?;
        if fail {
            inode.fail_writeback();
        } else {
            inode.sync();
        }
        if self.failures_reported.load(Relaxed) == inode.failures {
            return Ok(());
        }
        self.failures_reported.store(inode.failures, Relaxed);
        inode.failures_reported = inode.failures;
        Err(sync_failure())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut files = lock(&self.files);
        let Some(inode) = files.inodes.get_mut(&self.number) else {
            return;
        };
        inode.handles -= 1;
        if inode.handles == 0 && !inode.named {
            files.used -= files.inodes[&self.number].current.length;
            files.collect_garbage();
        }
    }
}

/// Splits `bytes` bytes at `offset` at the boundaries of pages. Each part has the page's
/// number, the offset in the page, and the range among the bytes.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == bytes {
            return None;
        }
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let part = done..bytes.min(done + PAGE_BYTES - within);
        done = part.end;
        Some((at / PAGE_BYTES as u64, within, part))
    })
}

/// The end of `bytes` bytes at `offset`. No file may be longer than `i64::MAX`.
fn end_of(offset: u64, bytes: u64) -> io::Result<u64> {
    offset
        .checked_add(bytes)
        .filter(|end| i64::try_from(*end).is_ok())
        .ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn other_folder() -> io::Error {
    let what = "files are renamed within their folder only";
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn sync_failure() -> io::Error {
    io::Error::other("a simulated failure of a sync")
}
