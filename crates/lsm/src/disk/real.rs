//! The machine's file system.

use super::direct::{DirectReader, DirectWriter};
use super::locked_folder::LockedFolder;
use super::permissions::{self, FILE_MODE, FOLDER_MODE, explain};
use super::{Disk, DiskFile};
use crate::locks::lock;
use crate::locks::sites as wait_sites;
use rustix::fs::{Advice, CWD, FallocateFlags, OFlags, RenameFlags, SeekFrom};
use rustix::io::Errno;
use std::any::Any;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

/// The size of a write of zeros on a file system that cannot allocate, in bytes.
const ZEROS_BYTES: usize = 64 << 10;

/// How much one call allocates at most, in bytes. If a signal interrupts an allocation
/// on tmpfs, Linux 5 undoes all of it. Signals may come at a steady rate, for example
/// from a profiler, and a call that takes longer than their period would never end.
/// So the step is bounded, and becomes shorter after each interruption.
const ALLOCATION_BYTES_MAX: u64 = 16 << 20;

/// The smallest step of an allocation, in bytes.
const ALLOCATION_BYTES_MIN: u64 = 64 << 10;

/// How many files are opened and read at the same time: they wait for the disk, and one that
/// answers several calls at once has enough to do.
const PARALLEL_OPENS: usize = 16;

/// The machine's file system. It follows no symbolic link to a file, because whoever could put
/// one into a folder would have the store write to any file of its user.
#[derive(Debug, Default)]
pub struct RealDisk {
    /// The folders that were synced at least once. A store has one folder, so these are
    /// few.
    folders: Mutex<BTreeMap<PathBuf, Arc<Mutex<RealFolder>>>>,
    /// The folders that are locked.
    locked: Mutex<BTreeMap<PathBuf, Weak<LockedFolder>>>,
}

/// A folder that stays open, because a sync must not fail when the process has no free
/// file descriptor: a store accepts no writes after a failed sync.
#[derive(Debug)]
struct RealFolder {
    file: File,
    /// The first failure of a sync. The system reports a failure to one sync only.
    /// Later changes may be lost too, so every later sync returns this failure.
    failure: Option<io::ErrorKind>,
}

impl RealFolder {
    fn sync(&mut self, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
        if let Some(kind) = self.failure {
            return Err(io::Error::new(kind, "an earlier sync of the folder failed"));
        }
        sync(&self.file).inspect_err(|error| self.failure = Some(error.kind()))
    }
}

impl RealDisk {
    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn folder(&self, path: &Path) -> io::Result<Arc<Mutex<RealFolder>>> {
        let mut folders = lock(&self.folders);
        if let Some(folder) = folders.get(path) {
            return Ok(Arc::clone(folder));
        }
        let folder = Arc::new(Mutex::new(RealFolder {
            file: File::open(path)?,
            failure: None,
        }));
        folders.insert(path.to_owned(), Arc::clone(&folder));
        Ok(folder)
    }

    /// The folder with this path, if it is locked.
    fn locked(&self, folder: &Path) -> Option<Arc<LockedFolder>> {
        lock(&self.locked).get(folder)?.upgrade()
    }

    /// The locked folder that `path` is in, if it is in one.
    fn locked_above(&self, path: &Path) -> Option<Arc<LockedFolder>> {
        let locked = lock(&self.locked);
        let mut above = path.ancestors().skip(1);
        above.find_map(|folder| locked.get(folder)?.upgrade())
    }

    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn open_existing(&self, file: &Path, writes: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.check_lock(file)?;
        let opened = OpenOptions::new()
            .read(true)
            .write(writes)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(file)
            .map_err(|error| explain(file, error))?;
        Ok(Arc::new(RealFile {
            file: opened,
            path: file.into(),
            direct: None,
        }))
    }

    /// Checks that the lock of the folder that `path` is in still protects it.
    fn check_lock(&self, path: &Path) -> io::Result<()> {
        self.locked_above(path)
            .map_or(Ok(()), |locked| locked.check())
    }
}

impl Disk for RealDisk {
    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.check_lock(folder)?;
        if folder.is_dir() {
            // The path of the store may have links, but nothing in the store.
            if self.locked_above(folder).is_some() && folder.is_symlink() {
                return Err(explain(folder, Errno::LOOP.into()));
            }
            return Ok(());
        }
        // A new folder is durable after the sync of its parent, so each missing folder
        // is created separately, from the top.
        if let Some(parent) = parent_of(folder) {
            self.create_folder(parent)?;
        }
        let made = DirBuilder::new().mode(FOLDER_MODE).create(folder);
        match made {
            Err(error) if !folder.is_dir() => return Err(explain(folder, error)),
            // Another thread may have created it at the same moment, and may not have
            // synced it yet.
            _ => {}
        }
        // Not by `sync_folder`, which would keep the parent open.
        let parent = parent_of(folder).unwrap_or(Path::new("."));
        File::open(parent)?.sync_all()
    }

    fn check_folder(&self, folder: &Path) -> io::Result<()> {
        permissions::check_folder(folder)
    }

    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in std::fs::read_dir(folder)? {
            let item = item?;
            let kind = item.file_type()?;
            // A link in the place of a file is no missing file: whoever opens it is told.
            if !kind.is_file() && !kind.is_symlink() {
                continue;
            }
            // The engine names its files in ASCII, so another name is not one of its.
            if let Ok(name) = item.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check_lock(file)?;
        Ok(Arc::new(RealFile::create(file)?))
    }

    fn create_direct(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check_lock(file)?;
        let created = RealFile::create(file)?;
        // The file system may have none, or a descriptor may be missing.
        let direct = open_direct(file, true).ok().map(DirectWriter::new);
        Ok(Arc::new(RealFile { direct, ..created }))
    }

    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open_existing(file, true)
    }

    fn open_to_read(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open_existing(file, false)
    }

    fn parallel_opens(&self) -> usize {
        PARALLEL_OPENS
    }

    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn remove(&self, file: &Path) -> io::Result<()> {
        self.check_lock(file)?;
        std::fs::remove_file(file)
    }

    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_lock(to)?;
        std::fs::rename(from, to)
    }

    fn exchange(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_lock(to)?;
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(()),
            Err(_) => self.rename(from, to),
        }
    }

    /// The folder stays open after its first sync, so it must not be replaced by
    /// another folder of the same name.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let folder = self.folder(folder)?;
        lock(&folder).sync(File::sync_all)
    }

    fn available_bytes(&self, folder: &Path) -> io::Result<u64> {
        if let Some(locked) = self.locked(folder) {
            locked.check()?;
        }
        let system = rustix::io::retry_on_intr(|| rustix::fs::statvfs(folder))?;
        Ok(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn size_bytes(&self, folder: &Path) -> io::Result<u64> {
        let system = rustix::io::retry_on_intr(|| rustix::fs::statvfs(folder))?;
        Ok(system.f_blocks.saturating_mul(system.f_frsize))
    }

    fn lock(&self, folder: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let Some(locked) = LockedFolder::lock(folder)?.map(Arc::new) else {
            return Ok(None);
        };
        lock(&self.locked).insert(folder.to_owned(), Arc::downgrade(&locked));
        Ok(Some(Box::new(locked)))
    }
}

/// The parent of a path; `None` for a bare name, whose parent is empty.
fn parent_of(path: &Path) -> Option<&Path> {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
}

struct RealFile {
    file: File,
    /// Where it was when it was opened.
    path: Box<Path>,
    /// Writes what it can past the system's memory.
    direct: Option<DirectWriter>,
}

impl RealFile {
    #[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
    fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(FILE_MODE)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(path)
            .map_err(|error| explain(path, error))?;
        Ok(Self {
            file,
            path: path.into(),
            direct: None,
        })
    }
}

/// Opens a file once more, for direct I/O.
#[expect(clippy::disallowed_methods, reason = "the real side of the disk seam")]
pub(super) fn open_direct(path: &Path, writes: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(!writes)
        .write(writes)
        .custom_flags((OFlags::DIRECT | OFlags::NOFOLLOW).bits() as i32)
        .open(path)
}

impl DiskFile for RealFile {
    fn will_need(&self, offset: u64, bytes: u64) {
        // Without it the part is read when it is needed.
        let _hint =
            rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(bytes), Advice::WillNeed);
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        wait_sites::READ.time(|| self.file.read_exact_at(buffer, offset))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        wait_sites::WRITE.time(|| {
            let written = match &self.direct {
                Some(direct) => direct.write_pages(bytes, offset)?,
                None => 0,
            };
            match &bytes[written..] {
                [] => Ok(()),
                rest => self.file.write_all_at(rest, offset + written as u64),
            }
        })
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let allocate =
            |at, count| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), at, count);
        match in_steps(offset, bytes, allocate) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros_from_end(&self.file, offset, bytes),
            result => Ok(result?),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn has_name(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    fn written_end(&self) -> io::Result<u64> {
        let mut end = 0;
        // All other calls name their offsets, so nobody misses the file's own.
        loop {
            let next = rustix::fs::seek(&self.file, SeekFrom::Data(end))
                .and_then(|written| rustix::fs::seek(&self.file, SeekFrom::Hole(written)));
            match next {
                Ok(room) if room > end => end = room,
                Err(Errno::NXIO) => return Ok(end),
                _ => return self.len(),
            }
        }
    }

    fn direct_reader(&self) -> Option<DirectReader> {
        let direct = open_direct(&self.path, false).ok()?;
        // Another file may have taken its name.
        let (own, other) = (self.file.metadata().ok()?, direct.metadata().ok()?);
        let is_same = own.dev() == other.dev() && own.ino() == other.ino();
        is_same.then(|| DirectReader::new(direct))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Calls `allocate` with consecutive offsets and lengths that cover `bytes` bytes from
/// `offset`. A call that a signal interrupts is repeated with a shorter length.
fn in_steps(
    offset: u64,
    bytes: u64,
    mut allocate: impl FnMut(u64, u64) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let end = offset.checked_add(bytes).ok_or(Errno::INVAL)?;
    let (mut at, mut step) = (offset, ALLOCATION_BYTES_MAX);
    while at < end {
        let count = step.min(end - at);
        match allocate(at, count) {
            Ok(()) => at += count,
            Err(Errno::INTR) => step = (step / 2).max(ALLOCATION_BYTES_MIN),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Allocates on a file system without allocation, by writing zeros from the file's end
/// up to `offset + bytes`. The file's content stays, and so do its holes.
fn write_zeros_from_end(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let end = offset
        .checked_add(bytes)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let zeros = [0; ZEROS_BYTES];
    let mut at = file.metadata()?.len();
    while at < end {
        let count = (end - at).min(ZEROS_BYTES as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests play those who change a folder behind the seam"
)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_synced_without_a_new_descriptor() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        disk.sync_folder(temporary.path()).unwrap();
        let opened = disk.folder(temporary.path()).unwrap();
        // Opening it again would fail now.
        std::fs::remove_dir(temporary.path()).unwrap();
        disk.sync_folder(temporary.path()).unwrap();
        assert!(Arc::ptr_eq(
            &opened,
            &disk.folder(temporary.path()).unwrap()
        ));
    }

    #[test]
    fn every_sync_of_a_folder_fails_after_a_failed_one() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let folder = disk.folder(temporary.path()).unwrap();
        let failed = lock(&folder).sync(|_| Err(io::ErrorKind::QuotaExceeded.into()));
        for result in [failed, disk.sync_folder(temporary.path())] {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        }
    }

    #[test]
    fn no_other_user_may_read_new_files_and_folders() {
        use std::os::unix::fs::PermissionsExt;
        let temporary = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let folder = temporary.path().join("above/store");
        disk.create_folder(&folder).unwrap();
        disk.create(&folder.join("file")).unwrap();
        let lock = disk.lock(&folder).unwrap();
        assert!(lock.is_some());
        for (path, mode) in [
            ("above", 0o700),
            ("above/store", 0o700),
            ("above/store/file", 0o600),
            ("above/store/LOCK", 0o600),
        ] {
            let metadata = std::fs::metadata(temporary.path().join(path)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
        }
        // An existing folder keeps its permissions.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder, open).unwrap();
        disk.create_folder(&folder).unwrap();
        let metadata = std::fs::metadata(&folder).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_removed_lock_file_lets_nobody_in() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let held = disk.lock(temporary.path()).unwrap();
        assert!(held.is_some());
        disk.remove(&temporary.path().join("LOCK")).unwrap();
        // Another process has a disk of its own.
        let other = RealDisk::default();
        assert!(other.lock(temporary.path()).unwrap().is_none());
        disk.create(&temporary.path().join("file")).unwrap();
        drop(held);
        assert!(other.lock(temporary.path()).unwrap().is_some());
    }

    #[test]
    fn nothing_is_touched_where_another_folder_has_the_path_of_the_locked_one() {
        let temporary = tempfile::tempdir().unwrap();
        let (folder, away) = (
            temporary.path().join("store"),
            temporary.path().join("away"),
        );
        let disk = RealDisk::default();
        disk.create_folder(&folder).unwrap();
        disk.create_folder(&folder.join("below")).unwrap();
        let held = disk.lock(&folder).unwrap();
        let create = || {
            disk.create(&folder.join("file"))?;
            disk.rename(&folder.join("file"), &folder.join("renamed"))?;
            disk.exchange(&folder.join("renamed"), &folder.join("file"))?;
            disk.create_direct(&folder.join("direct"))?;
            disk.create(&folder.join("below/file")).map(drop)
        };
        create().unwrap();
        assert!(disk.available_bytes(&folder).unwrap() > 0);
        std::fs::rename(&folder, &away).unwrap();
        for result in [create(), disk.available_bytes(&folder).map(drop)] {
            let gone = result.unwrap_err().to_string();
            assert!(gone.contains("cannot be reached any more"), "{gone}");
        }
        // Another store, with a file of the same name.
        let other = RealDisk::default();
        other.create_folder(&folder.join("below")).unwrap();
        std::fs::write(folder.join("file"), b"precious").unwrap();
        for result in [
            disk.create(&folder.join("file")).map(drop),
            disk.create_direct(&folder.join("file")).map(drop),
            disk.create(&folder.join("below/file")).map(drop),
            disk.create_folder(&folder.join("below/folder")),
            disk.open(&folder.join("file")).map(drop),
            disk.rename(&folder.join("file"), &folder.join("renamed")),
            disk.exchange(&folder.join("file"), &folder.join("renamed")),
            disk.remove(&folder.join("file")),
            disk.available_bytes(&folder).map(drop),
        ] {
            let replaced = result.unwrap_err().to_string();
            assert!(replaced.contains("another folder"), "{replaced}");
        }
        assert_eq!(disk.list(&folder).unwrap(), ["file"]);
        assert!(!folder.join("below/folder").exists());
        assert_eq!(std::fs::read(folder.join("file")).unwrap(), b"precious");
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::rename(&away, &folder).unwrap();
        create().unwrap();
        drop(held);
    }

    #[test]
    fn no_link_in_a_folder_is_followed() {
        use std::os::unix::fs::symlink;
        let temporary = tempfile::tempdir().unwrap();
        let (folder, outside) = (
            temporary.path().join("store"),
            temporary.path().join("outside"),
        );
        let disk = RealDisk::default();
        disk.create_folder(&outside).unwrap();
        std::fs::write(outside.join("file"), b"precious").unwrap();
        // The path of the folder may be a link.
        disk.create_folder(&temporary.path().join("real")).unwrap();
        symlink("real", &folder).unwrap();
        disk.create_folder(&folder).unwrap();
        disk.check_folder(&folder).unwrap();
        symlink(outside.join("file"), folder.join("LOCK")).unwrap();
        let refused = disk.lock(&folder).map(drop).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        disk.remove(&folder.join("LOCK")).unwrap();
        let _held = disk.lock(&folder).unwrap();
        symlink(outside.join("file"), folder.join("file")).unwrap();
        symlink(&outside, folder.join("below")).unwrap();
        for result in [
            disk.open(&folder.join("file")).map(drop),
            disk.create(&folder.join("file")).map(drop),
            disk.create_direct(&folder.join("file")).map(drop),
            disk.create_folder(&folder.join("below")),
        ] {
            let refused = result.unwrap_err();
            assert!(refused.to_string().contains("symbolic link"), "{refused}");
        }
        // It is not taken for a missing file.
        assert!(disk.list(&folder).unwrap().contains(&"file".to_owned()));
        assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"precious");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let temporary = tempfile::tempdir().unwrap();
        let disk = RealDisk::default();
        let folder = temporary.path().join("store");
        disk.check_folder(&folder).unwrap();
        disk.create_folder(&folder).unwrap();
        for (mode, is_taken) in [(0o700, true), (0o750, true), (0o770, false), (0o777, false)] {
            let mode_of = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&folder, mode_of).unwrap();
            assert_eq!(disk.check_folder(&folder).is_ok(), is_taken, "{mode:o}");
        }
    }

    #[test]
    fn an_allocation_succeeds_however_often_it_is_interrupted() {
        // A signal interrupts every call that takes longer than the signals' period.
        let mut allocated = 3;
        let mut calls = 0;
        in_steps(3, 100 << 20, |offset, bytes| {
            calls += 1;
            if bytes > 1 << 20 {
                return Err(Errno::INTR);
            }
            assert_eq!(offset, allocated);
            allocated += bytes;
            Ok(())
        })
        .unwrap();
        assert_eq!(allocated, 3 + (100 << 20));
        assert!(calls < 110, "{calls}");
        assert_eq!(in_steps(0, 1, |_, _| Err(Errno::NOSPC)), Err(Errno::NOSPC));
        assert_eq!(in_steps(u64::MAX, 1, |_, _| Ok(())), Err(Errno::INVAL));
    }

    #[test]
    fn zeros_are_written_after_the_content_of_a_file() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"held").unwrap();
        write_zeros_from_end(&file, 2, 70_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 70_002);
        let mut bytes = [1; 6];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"held\0\0");
        assert_eq!(
            write_zeros_from_end(&file, u64::MAX, 1).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
