//! A disk on which chosen calls fail.
//!
//! A test arms one fault, runs its work, and asks whether the fault occurred. If it
//! repeats this with `at` = 0, 1, 2 … until the fault no longer occurs, each call of
//! the work has failed once.

use lsm::{Disk, DiskFile};
use profile::lock;
use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A call on a [`Disk`] or a [`DiskFile`], by its name. An exchange counts as a rename.
#[expect(missing_docs, reason = "each is the method of the same name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    CreateFolder,
    List,
    Create,
    Open,
    Remove,
    Rename,
    SyncFolder,
    AvailableBytes,
    Lock,
    Read,
    Write,
    Allocate,
    SetLen,
    Len,
    Sync,
}

type Filter = Box<dyn Fn(Call, &Path) -> bool + Send>;
type PathFilter = Box<dyn Fn(&Path) -> bool + Send>;

/// The call that fails, and how.
pub struct Fault {
    at: u64,
    kind: io::ErrorKind,
    filter: Option<Filter>,
    lasting: bool,
    short_writes: bool,
}

impl Fault {
    /// The `at`-th call from now, counted from 0, fails with an error of this
    /// `kind` and does nothing.
    #[must_use]
    pub fn at(at: u64, kind: io::ErrorKind) -> Self {
        Self {
            at,
            kind,
            filter: None,
            lasting: false,
            short_writes: false,
        }
    }

    /// Counts and fails only calls that `filter` admits. It gets the call and the path
    /// of its file: the old path of a rename or an exchange, the path at which a handle was opened.
    #[must_use]
    pub fn only(mut self, filter: impl Fn(Call, &Path) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(filter));
        self
    }

    /// Fails that call and all counted calls after it.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Lets a failing write store the first half of its bytes.
    #[must_use]
    pub fn with_short_writes(mut self) -> Self {
        self.short_writes = true;
        self
    }
}

/// A disk that passes calls on to another, except for those that a [`Fault`] lets
/// fail.
pub struct FaultyDisk {
    inner: Arc<dyn Disk>,
    plan: Arc<Mutex<Plan>>,
    handles: Arc<Mutex<Handles>>,
}

/// The handles of files that were opened.
#[derive(Default)]
struct Handles {
    /// Which are counted.
    of: Option<PathFilter>,
    now: usize,
    max: usize,
}

#[derive(Default)]
struct Plan {
    fault: Option<Fault>,
    /// The calls since the fault was armed that its filter admits.
    calls: u64,
    failed: u64,
}

impl FaultyDisk {
    /// A disk on which nothing fails yet.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self {
            inner,
            plan: Arc::default(),
            handles: Arc::default(),
        }
    }

    /// Arms a fault in place of the one before, and counts from 0.
    pub fn arm(&self, fault: Fault) {
        *lock(&self.plan) = Plan {
            fault: Some(fault),
            ..Plan::default()
        };
    }

    /// Passes all calls on again, and counts from 0.
    pub fn heal(&self) {
        *lock(&self.plan) = Plan::default();
    }

    /// The number of calls since a fault was last armed or healed. With a filter, only
    /// the calls that it admits count.
    #[must_use]
    pub fn calls(&self) -> u64 {
        lock(&self.plan).calls
    }

    /// Counts from now on the handles of files at these paths that are opened, and not created.
    pub fn count_handles(&self, of: impl Fn(&Path) -> bool + Send + 'static) {
        *lock(&self.handles) = Handles {
            of: Some(Box::new(of)),
            ..Handles::default()
        };
    }

    /// How many handles there are of those that are counted.
    #[must_use]
    pub fn handles(&self) -> usize {
        lock(&self.handles).now
    }

    /// The most handles that there were at the same time.
    #[must_use]
    pub fn handles_max(&self) -> usize {
        lock(&self.handles).max
    }

    /// How many calls the armed fault has made fail.
    #[must_use]
    pub fn failed(&self) -> u64 {
        lock(&self.plan).failed
    }

    fn check(&self, call: Call, path: &Path) -> io::Result<()> {
        check(&self.plan, call, path).map_err(|failure| failure.error)
    }

    fn wrap(&self, file: Arc<dyn DiskFile>, path: &Path) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile {
            inner: file,
            path: path.to_owned(),
            plan: Arc::clone(&self.plan),
            _counted: None,
        })
    }
}

struct Failure {
    error: io::Error,
    short_write: bool,
}

/// Counts a call; returns an error if it has to fail.
fn check(plan: &Mutex<Plan>, call: Call, path: &Path) -> Result<(), Failure> {
    let mut plan = lock(plan);
    let Some(fault) = &plan.fault else {
        plan.calls += 1;
        return Ok(());
    };
    if fault
        .filter
        .as_ref()
        .is_some_and(|admits| !admits(call, path))
    {
        return Ok(());
    }
    let hit = plan.calls == fault.at || (fault.lasting && plan.calls > fault.at);
    let failure = Failure {
        error: fault.kind.into(),
        short_write: fault.short_writes,
    };
    plan.calls += 1;
    if !hit {
        return Ok(());
    }
    plan.failed += 1;
    Err(failure)
}

impl Disk for FaultyDisk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.check(Call::CreateFolder, folder)?;
        self.inner.create_folder(folder)
    }

    fn check_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.check_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.check(Call::List, folder)?;
        self.inner.list(folder)
    }

    fn create(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check(Call::Create, file)?;
        Ok(self.wrap(self.inner.create(file)?, file))
    }

    fn open(&self, file: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check(Call::Open, file)?;
        let opened = FaultyFile {
            inner: self.inner.open(file)?,
            path: file.to_owned(),
            plan: Arc::clone(&self.plan),
            _counted: CountedHandle::new(&self.handles, file),
        };
        Ok(Arc::new(opened))
    }

    fn parallel_opens(&self) -> usize {
        self.inner.parallel_opens()
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.check(Call::Remove, file)?;
        self.inner.remove(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Call::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn exchange(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Call::Rename, from)?;
        self.inner.exchange(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.check(Call::SyncFolder, folder)?;
        self.inner.sync_folder(folder)
    }

    fn available_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.check(Call::AvailableBytes, folder)?;
        self.inner.available_bytes(folder)
    }

    fn size_bytes(&self, folder: &Path) -> io::Result<u64> {
        self.inner.size_bytes(folder)
    }

    fn lock(&self, folder: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        self.check(Call::Lock, folder)?;
        self.inner.lock(folder)
    }
}

struct FaultyFile {
    inner: Arc<dyn DiskFile>,
    path: PathBuf,
    plan: Arc<Mutex<Plan>>,
    _counted: Option<CountedHandle>,
}

/// Counts as a handle while it lives.
struct CountedHandle(Arc<Mutex<Handles>>);

impl CountedHandle {
    fn new(handles: &Arc<Mutex<Handles>>, path: &Path) -> Option<Self> {
        let mut counted = lock(handles);
        if !counted.of.as_ref()?(path) {
            return None;
        }
        counted.now += 1;
        counted.max = counted.max.max(counted.now);
        Some(Self(Arc::clone(handles)))
    }
}

impl Drop for CountedHandle {
    fn drop(&mut self) {
        lock(&self.0).now -= 1;
    }
}

impl FaultyFile {
    fn check(&self, call: Call) -> io::Result<()> {
        check(&self.plan, call, &self.path).map_err(|failure| failure.error)
    }
}

impl DiskFile for FaultyFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(Call::Read)?;
        self.inner.read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(failure) = check(&self.plan, Call::Write, &self.path) {
            if failure.short_write {
                self.inner.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            }
            return Err(failure.error);
        }
        self.inner.write_all_at(bytes, offset)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.check(Call::Allocate)?;
        self.inner.allocate(offset, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check(Call::SetLen)?;
        self.inner.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.check(Call::Len)?;
        self.inner.len()
    }

    fn has_name(&self) -> io::Result<bool> {
        self.inner.has_name()
    }

    fn sync(&self) -> io::Result<()> {
        self.check(Call::Sync)?;
        self.inner.sync()
    }
}
