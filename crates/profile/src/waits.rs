//! Records waits for locks, in queues, for disks and for peers.
//!
//! A thread waits for a taken lock, so its stack says where ([`lock`]). In a
//! queue a request waits while the thread does something else, so the wait is
//! recorded under the name of a [`WaitSite`]: `queue;admission`. Idle threads
//! that wait for work are not recorded.

use crate::recorder::{self, ProfileKind};
use crate::spans;
use crate::stack::{Origin, Stack};
use crate::system::monotonic_ns;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
use std::time::Instant;

/// Takes a lock, and records the time if it has to wait. A poisoned lock is
/// taken as usual, because a panic of another thread is a bug that ends the
/// program.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => {
            waited(|| mutex.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

/// Takes a lock to read, as [`lock`] takes a mutex.
#[inline]
pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    match lock.try_read() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => {
            waited(|| lock.read().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

/// Takes a lock to write, as [`lock`] takes a mutex.
#[inline]
pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    match lock.try_write() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => {
            waited(|| lock.write().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

/// Waits, and records the time under the current stack.
#[cold]
fn waited<G>(wait: impl FnOnce() -> G) -> G {
    if !recorder::is_on(ProfileKind::Waits) {
        return wait();
    }
    let began = Instant::now();
    // Captured before the wait, so that the capture does not lengthen the time
    // under the lock.
    let stack = Stack::take(Origin::Here);
    let guard = wait();
    let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    recorder::record(ProfileKind::Waits, nanoseconds, || stack);
    guard
}

/// A named place where requests wait.
#[derive(Debug)]
pub struct WaitSite {
    /// Its name, outermost part first, separated by `;`.
    frames: Cow<'static, str>,
    waited: OnceLock<Arc<AtomicU64>>,
    /// Its number in recordings of spans.
    number: OnceLock<u32>,
}

/// The nanoseconds waited at each wait site where anything has waited during a
/// recording. Sites with equal names share a sum.
static SITES: Mutex<BTreeMap<String, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

impl WaitSite {
    /// A wait site with a name in parts, outermost first: `queue;admission`.
    #[must_use]
    pub const fn new(frames: &'static str) -> Self {
        Self {
            frames: Cow::Borrowed(frames),
            waited: OnceLock::new(),
            number: OnceLock::new(),
        }
    }

    /// A wait site whose name is known only when the program runs.
    #[must_use]
    pub fn named(frames: String) -> Self {
        Self {
            frames: Cow::Owned(frames),
            waited: OnceLock::new(),
            number: OnceLock::new(),
        }
    }

    /// Begins a wait at this site.
    #[inline]
    pub fn begin(&self) -> Waiting<'_> {
        Waiting {
            site: self,
            stopwatch: Stopwatch::start(),
        }
    }

    /// Runs `wait`, and records its time at this site.
    #[inline]
    pub fn time<T>(&self, wait: impl FnOnce() -> T) -> T {
        let _waiting = self.begin();
        wait()
    }

    /// Its number in recordings of spans.
    pub(crate) fn number(&self) -> u32 {
        *self.number.get_or_init(|| spans::site_number(&self.frames))
    }

    fn add(&self, nanoseconds: u64) {
        let waited = self.waited.get_or_init(|| {
            let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(sites.entry(self.frames.clone().into_owned()).or_default())
        });
        waited.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// A wait at a site, which is recorded when this is dropped: one that is given up counts, too.
#[derive(Debug)]
#[must_use = "the wait ends when this is dropped"]
pub struct Waiting<'a> {
    site: &'a WaitSite,
    stopwatch: Stopwatch,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.stopwatch.stop(self.site);
    }
}

/// The start of a wait, if waits are recorded.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a wait whose stopwatch is not stopped is not recorded"]
pub struct Stopwatch(Option<NonZeroU64>);

/// The start of the recording: waits that began before do not count.
static BEGAN: AtomicU64 = AtomicU64::new(0);

impl Stopwatch {
    /// Starts the stopwatch.
    #[inline]
    pub fn start() -> Self {
        if recorder::times_waits() {
            Self::start_now()
        } else {
            Self(None)
        }
    }

    /// It waits no more; it did so at `site`.
    #[inline]
    pub fn stop(self, site: &WaitSite) {
        if let Some(began) = self.0 {
            stop_now(began, site, 0);
        }
    }

    /// The same for a wait of something that has a number of its own, by which a recording
    /// of spans finds what belongs together: the version of a write.
    #[inline]
    pub fn stop_tagged(self, site: &WaitSite, tag: u64) {
        if let Some(began) = self.0 {
            stop_now(began, site, tag);
        }
    }

    #[cold]
    fn start_now() -> Self {
        Self(NonZeroU64::new(now()))
    }
}

#[cold]
fn stop_now(began: NonZeroU64, site: &WaitSite, tag: u64) {
    if recorder::records_spans() {
        recorder::during_spans(|| spans::push(site.number(), began.get(), tag));
        return;
    }
    recorder::during(ProfileKind::Waits, || {
        if began.get() >= BEGAN.load(Ordering::Relaxed) {
            site.add(now().saturating_sub(began.get()));
        }
    });
}

/// Nanoseconds of the monotonic clock; never 0.
fn now() -> u64 {
    monotonic_ns().max(1)
}

/// Clears all sums at the start of a recording.
pub(crate) fn clear() {
    BEGAN.store(now(), Ordering::Relaxed);
    for waited in sites().values() {
        waited.store(0, Ordering::Relaxed);
    }
}

/// The nanoseconds waited at each wait site, without sites where nothing
/// waited.
pub(crate) fn sums() -> Vec<(String, u64)> {
    let sites = sites();
    let sums = sites
        .iter()
        .map(|(frames, waited)| (frames.clone(), waited.load(Ordering::Relaxed)));
    sums.filter(|(_, waited)| *waited > 0).collect()
}

fn sites() -> MutexGuard<'static, BTreeMap<String, Arc<AtomicU64>>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}
