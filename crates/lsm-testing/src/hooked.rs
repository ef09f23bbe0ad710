//! A disk on which a test controls the syncs of files and folders.

use lsm::{Disk, DiskFile};
use profile::lock;
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Runs in place of a file's sync: gets the file's path and the sync itself.
pub type SyncHook = dyn Fn(&Path, &dyn Fn() -> io::Result<()>) -> io::Result<()> + Send + Sync;

/// A disk that passes all calls on to another. A hook runs in place of the syncs of
/// files.
pub struct HookedDisk {
    inner: Arc<dyn Disk>,
    hook: Arc<Mutex<Option<Arc<SyncHook>>>>,
    folder_hook: Mutex<Option<Arc<SyncHook>>>,
}

struct HookedFile {
    inner: Arc<dyn DiskFile>,
    path: PathBuf,
    hook: Arc<Mutex<Option<Arc<SyncHook>>>>,
}

impl HookedDisk {
    /// A disk without a hook yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self {
            inner,
            hook: Arc::default(),
            folder_hook: Mutex::default(),
        }
    }

    /// Lets `hook` run in place of each sync of a folder from now on.
    pub fn hook_folder_syncs(&self, hook: Arc<SyncHook>) {
        *lock(&self.folder_hook) = Some(hook);
    }

    /// Lets `hook` run in place of each sync of a file from now on, also of
    /// files that are open already.
    pub fn hook_syncs(&self, hook: Arc<SyncHook>) {
        *lock(&self.hook) = Some(hook);
    }

    fn wrap(&self, path: &Path, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile {
            inner,
            path: path.to_owned(),
            hook: Arc::clone(&self.hook),
        })
    }
}

impl Disk for HookedDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.create_folder(folder)
    }

    fn check_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.check_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(file, self.inner.create(file)?))
    }

    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(file, self.inner.open(file)?))
    }

    fn parallel_opens(&self) -> usize {
        self.inner.parallel_opens()
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.inner.remove(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn exchange(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.exchange(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let hook = lock(&self.folder_hook).clone();
        match hook {
            Some(hook) => hook(folder, &|| self.inner.sync_folder(folder)),
            None => self.inner.sync_folder(folder),
        }
    }

    fn available_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.inner.available_bytes(folder)
    }

    fn size_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.inner.size_bytes(folder)
    }

    fn lock(&self, folder: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        self.inner.lock(folder)
    }
}

impl DiskFile for HookedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(bytes, offset)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.inner.allocate(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.inner.has_name()
    }

    fn sync(&self) -> io::Result<()> {
        let hook = lock(&self.hook).clone();
        match hook {
            Some(hook) => hook(&self.path, &|| self.inner.sync()),
            None => self.inner.sync(),
        }
    }
}
