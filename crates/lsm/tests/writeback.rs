//! What the system fails to write back is told to the writes that relied on
//! it, though it tells each handle of a file only once.

#![expect(clippy::expect_used, reason = "a test that cannot go on panics")]

mod common;

use common::{World, put, read};
use lsm::testing::BlockingWrite;
use lsm::{Disk, DiskFile, Error, Lane};
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

/// Stands between a file and its sync.
type Hook = dyn Fn(&Path, &dyn Fn() -> io::Result<()>) -> io::Result<()> + Send + Sync;

/// A disk that passes all calls on, syncs of files by way of the hook.
struct HookedDisk {
    inner: Arc<dyn Disk>,
    hook: Arc<Mutex<Option<Arc<Hook>>>>,
}

struct HookedFile {
    inner: Arc<dyn DiskFile>,
    path: PathBuf,
    hook: Arc<Mutex<Option<Arc<Hook>>>>,
}

impl HookedDisk {
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

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(file, self.inner.create(file)?))
    }

    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.wrap(file, self.inner.open(file)?))
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.inner.remove(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.sync_folder(folder)
    }

    fn available_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.inner.available_bytes(folder)
    }

    fn lock(&self, file: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        self.inner.lock(file)
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

    fn sync(&self) -> io::Result<()> {
        let hook = self.hook.lock().expect("no test panics in it").clone();
        match hook {
            Some(hook) => hook(&self.path, &|| self.inner.sync()),
            None => self.inner.sync(),
        }
    }
}

/// The fill of a segment syncs it beside a commit, and is told of the failure
/// first: the commit must not be acknowledged all the same.
#[test]
fn a_sync_aside_does_not_eat_the_error_of_a_commit() {
    let mut world = World::new();
    let hook = Arc::new(Mutex::new(None));
    world.disk = Arc::new(HookedDisk {
        inner: Arc::clone(&world.memory) as _,
        hook: Arc::clone(&hook),
    });
    let engine = world.open();
    engine.write(put("a", 1, "before")).unwrap();

    let first_segment = World::folder().join("log-0000000000000001.wal");
    let committer = thread::current().id();
    let (memory, segment) = (Arc::clone(&world.memory), first_segment);
    let (arrive, arrived) = channel();
    let (fail, failing) = channel();
    let (tell, told) = channel();
    let (release, released) = channel();
    let failing = Mutex::new(failing);
    let told = Mutex::new(told);
    let released = Mutex::new(released);
    *hook.lock().unwrap() = Some(
        Arc::new(move |path: &Path, sync: &dyn Fn() -> io::Result<()>| {
            if path != segment {
                return sync();
            }
            if thread::current().id() == committer {
                // The group is written; the kernel fails to write it back.
                memory.fail_writeback(&segment)?;
                fail.send(()).unwrap();
                told.lock().unwrap().recv().unwrap();
                return sync();
            }
            arrive.send(()).unwrap();
            failing.lock().unwrap().recv().unwrap();
            let result = sync();
            tell.send(()).unwrap();
            // The store has not heard of it when the commit's sync returns.
            released.lock().unwrap().recv().unwrap();
            result
        }) as Arc<Hook>,
    );
    thread::scope(|scope| {
        scope.spawn(|| world.executor.run_lane(Lane::Log));
        arrived.recv().unwrap();
        let written = engine.write(put("a", 2, "after"));
        release.send(()).unwrap();
        assert!(
            matches!(written, Err(Error::Poisoned { .. })),
            "{written:?}"
        );
    });
    assert_eq!(read(&engine, "a").as_deref(), Some("before"));
}
