//! The names, files and pages of the disk in memory, each as it is now and as a crash
//! may leave it.

use super::unsynced::Unsynced;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of a page, which a crash keeps or loses as a whole, in bytes.
pub(super) const PAGE_BYTES: usize = 4096;

#[derive(Default)]
pub(super) struct FileSystem {
    pub(super) folders: BTreeMap<PathBuf, Folder>,
    /// Every file that has a name or a handle now, or may have a name after a crash.
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) next_inode: u64,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) capacity: Option<u64>,
    pub(super) used: u64,
    pub(super) fail_syncs: bool,
}

impl FileSystem {
    pub(super) fn find(&self, file: &Path) -> io::Result<u64> {
        let (folder, name) = split(file)?;
        self.folders
            .get(folder)
            .and_then(|folder| folder.current.get(&name).copied())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn find_or_create(&mut self, file: &Path) -> io::Result<u64> {
        if let Ok(number) = self.find(file) {
            return Ok(number);
        }
        let (folder, name) = split(file)?;
        let number = self.next_inode;
        self.change(folder, Change::Create { name, number })?;
        self.next_inode += 1;
        self.inodes.insert(
            number,
            Inode {
                named: true,
                ..Inode::default()
            },
        );
        Ok(number)
    }

    pub(super) fn change(&mut self, folder: &Path, change: Change) -> io::Result<()> {
        let Some(folder) = self.folders.get_mut(folder) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        change.apply(&mut folder.current);
        folder.changes.push(change);
        Ok(())
    }

    pub(super) fn inode(&self, number: u64) -> io::Result<&Inode> {
        // A handle keeps its inode, so the inode exists.
        self.inodes
            .get(&number)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn inode_mut(&mut self, number: u64) -> io::Result<&mut Inode> {
        self.inodes
            .get_mut(&number)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The length to which a file can grow.
    pub(super) fn length_max(&self, number: u64) -> io::Result<u64> {
        let length = self.inode(number)?.current.length;
        Ok(match self.capacity {
            Some(capacity) => length + capacity.saturating_sub(self.used),
            None => u64::MAX,
        })
    }

    pub(super) fn set_len(&mut self, number: u64, length: u64) -> io::Result<()> {
        let before = self.inode(number)?.current.length;
        if length > before && length > self.length_max(number)? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.used = self.used - before + length;
        let inode = self.inode_mut(number)?;
        if length < before {
            let cut = inode.current.cut(length);
            for page in cut {
                inode.touch(page);
            }
        }
        inode.current.length = length;
        Ok(())
    }

    pub(super) fn lose_name(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.named = false;
            if inode.handles == 0 {
                self.used -= inode.current.length;
            }
        }
    }

    /// Drops the files that have no handle and that no crash can bring back.
    pub(super) fn collect_garbage(&mut self) {
        let mut reachable = BTreeSet::new();
        for folder in self.folders.values() {
            reachable.extend(folder.synced.values().copied());
            for change in &folder.changes {
                if let Change::Create { number, .. } = change {
                    reachable.insert(*number);
                }
            }
        }
        self.inodes
            .retain(|number, inode| inode.named || inode.handles > 0 || reachable.contains(number));
    }
}

/// The names of a folder, each with the number of its file.
pub(super) type Names = BTreeMap<String, u64>;

#[derive(Default)]
pub(super) struct Folder {
    pub(super) current: Names,
    pub(super) synced: Names,
    /// The changes from `synced` to `current`, in order.
    pub(super) changes: Vec<Change>,
}

pub(super) enum Change {
    Create { name: String, number: u64 },
    Remove { name: String },
    Rename { from: String, to: String },
    Exchange { from: String, to: String },
}

impl Change {
    pub(super) fn apply(&self, names: &mut Names) {
        match self {
            Self::Create { name, number } => {
                names.insert(name.clone(), *number);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            Self::Rename { from, to } => {
                if let Some(number) = names.remove(from) {
                    names.insert(to.clone(), number);
                }
            }
            Self::Exchange { from, to } => {
                if let (Some(first), Some(second)) = (names.remove(from), names.remove(to)) {
                    names.insert(to.clone(), first);
                    names.insert(from.clone(), second);
                }
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Inode {
    pub(super) current: Content,
    pub(super) synced: Content,
    /// Pages that differ between the two, and that the next sync makes durable.
    pub(super) dirty: BTreeSet<u64>,
    /// Pages whose sync failed. A later sync does not write them again.
    pub(super) doubtful: BTreeSet<u64>,
    pub(super) named: bool,
    pub(super) handles: usize,
    /// How many writebacks of the file have failed.
    pub(super) failures: u64,
    /// How many of these failures the sync of some handle has reported.
    pub(super) failures_reported: u64,
}

impl Inode {
    pub(super) fn touch(&mut self, page: u64) {
        self.doubtful.remove(&page);
        self.dirty.insert(page);
    }

    /// Gives up writing the dirty pages back, as the system does when the disk fails.
    pub(super) fn fail_writeback(&mut self) {
        self.doubtful.append(&mut self.dirty);
        self.failures += 1;
    }

    pub(super) fn sync(&mut self) {
        self.synced.length = self.current.length;
        for page in std::mem::take(&mut self.dirty) {
            self.synced.copy_page(page, &self.current);
        }
        // The sync of a page may have failed after a truncation of it: without this, old
        // bytes could reappear after the end.
        self.synced.cut(self.synced.length);
    }

    pub(super) fn after_crash(
        &self,
        file: &Path,
        survives: &mut dyn FnMut(Unsynced<'_>) -> bool,
    ) -> Content {
        let mut content = self.synced.clone();
        if self.current.length != content.length && survives(Unsynced::Length { file }) {
            content.length = self.current.length;
        }
        for &page in self.dirty.union(&self.doubtful) {
            if survives(Unsynced::Page { file, page }) {
                content.copy_page(page, &self.current);
            }
        }
        content.cut(content.length);
        content
    }
}

/// A file's bytes. A missing page is all zeros.
#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) length: u64,
    pub(super) pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

impl Content {
    pub(super) fn page_mut(&mut self, page: u64) -> &mut [u8; PAGE_BYTES] {
        let bytes = self
            .pages
            .entry(page)
            .or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        Arc::make_mut(bytes)
    }

    pub(super) fn copy_page(&mut self, page: u64, from: &Self) {
        match from.pages.get(&page) {
            Some(bytes) => self.pages.insert(page, Arc::clone(bytes)),
            None => self.pages.remove(&page),
        };
    }

    /// Zeroes everything from `length` on, and returns the pages that this changed.
    pub(super) fn cut(&mut self, length: u64) -> Vec<u64> {
        let whole = length.div_ceil(PAGE_BYTES as u64);
        let mut changed: Vec<u64> = self.pages.split_off(&whole).into_keys().collect();
        let within = (length % PAGE_BYTES as u64) as usize;
        let last = length / PAGE_BYTES as u64;
        let has_tail = within > 0
            && self
                .pages
                .get(&last)
                .is_some_and(|bytes| bytes[within..].iter().any(|byte| *byte != 0));
        if has_tail {
            self.page_mut(last)[within..].fill(0);
            changed.push(last);
        }
        changed
    }
}

/// The folder of a path, and the name in it.
pub(super) fn split(file: &Path) -> io::Result<(&Path, String)> {
    match (
        file.parent(),
        file.file_name().and_then(|name| name.to_str()),
    ) {
        (Some(folder), Some(name)) => Ok((folder, name.to_owned())),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
