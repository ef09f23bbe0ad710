//! The engine: what ties the log, memtables, tables and compaction together.
//!
//! # The life of a write
//!
//! 1. The writer submits an entry with an outbox. The entry waits in the `queue`,
//!    which is bounded in bytes.
//! 2. The commit job takes the waiting writes as one group (`jobs::commit`). If the
//!    active memtable is full, it is frozen first, and the log goes on in a new
//!    segment. If flush or compaction is behind, the group is held back
//!    (`backpressure`, `write_rate`).
//! 3. The group is appended to the `log` and, with
//!    [`Durability::Sync`](crate::Durability::Sync), synced.
//! 4. Only then is the group inserted into the memtable, so no reader sees a
//!    write that is less durable than its acknowledgement.
//! 5. For each write, `newer_versions` says which newer version the store held when it
//!    first arrived.
//! 6. Each `outbox` gets the outcomes of its writes in one call.
//! 7. Later the `flush` job writes the frozen memtable to a level-0 table, and the file
//!    of its log segment is free to be used again. `compaction` merges tables down the levels.
//!
//! # The life of an ingest
//!
//! 1. The caller pushes entries in the order of their keys. They are written to tables
//!    that no manifest names, so a crash leaves nothing of them (`ingest`).
//! 2. The commit names all tables in one edit of the manifest, each on the deepest level
//!    where it overlaps nothing.
//! 3. Under the commit lock the records get one sequence number, and become visible to
//!    readers at once. `changes` and `newer_versions` learn of their arrival.
//!
//! # The life of a read
//!
//! 1. A read loads the read state, an immutable value: the active memtable, the
//!    frozen ones and the live tables (`table_set`). It takes no lock of the engine.
//! 2. It looks the key up in the memtables, and then in those tables whose key
//!    range and filter admit it, in descending order of their greatest timestamp.
//!    It ends once no table can hold anything newer than what was found.
//! 3. A read that must not block ends where a block is not in the cache.
//! 4. A `scan` takes one of the `snapshots`, a sequence number, and merges all
//!    memtables and tables, a batch at a time. Flush and compaction keep the
//!    versions that a living snapshot sees.
//!
//! # The modules, in the order in which to read them
//!
//! Each imports only those above it.
//!
//! - `counters`: what was done, and how many records were ever committed;
//! - `health`: poisoned, full, failing, closing;
//! - `table_set`: the live tables and how they change, damaged parts of them, and what has
//!   changed since a commit;
//! - `writes`: the queue, the committer, which writes are refused below the closed
//!   timestamp or wait for a promise, the pace of writers, newer-version checks, outboxes; then [`wal`](crate::wal);
//! - `background`: the jobs that wait, and the folder lock;
//! - `snapshots`: what scans see, and what they hold between batches;
//! - `core`: wires the owners above together. Its `log` is the owner of the log;
//! - `flush`, `compaction`: they move records down;
//! - `store`: the core with flush and compaction, which all clones of an engine share;
//! - `jobs`: the code of each job: `commit`, `backpressure`, `closing`; the statistics;
//!   `store_snapshot`: all that a store holds at one moment, as files; and
//!   `set_aside`: what takes versions out of the store, for its operator;
//! - `scan`, `ingest`: a range of a snapshot; sorted entries that become tables;
//! - `recovery`: opening a store.
//!
//! # Locks, in the order in which they are taken
//!
//! The folder lock, for as long as a job or a call may write; the flusher's or the
//! compactor's; the closed timestamp's; the table set's manifest; the commit lock, then the spare
//! segment's, both of the log; that of the living snapshots; the table set's sealed
//! segments; the queue's; a memtable's. A thread that holds the commit lock must not wait
//! for the manifest's: it would keep all writers waiting across the manifest's syncs.
//! Readers take only the last: they load the read state.

mod background;
mod compaction;
mod core;
mod counters;
mod flush;
mod health;
mod ingest;
mod jobs;
mod recovery;
mod scan;
mod snapshots;
mod store;
mod table_set;
mod writes;

pub use compaction::WholeCompaction;
pub use counters::acknowledged::Acknowledged;
pub use counters::sync_times::SyncTimeStatistics;
pub use ingest::{Ingest, Ingested};
pub use jobs::set_aside::{CopiesPage, SetAsideStatus};
pub use jobs::statistics::{LevelStatistics, Statistics};
pub use jobs::store_snapshot::StoreSnapshot;
pub use recovery::RecoveryReport;
pub use recovery::restored::RestoredStore;
pub use scan::Scan;
pub use table_set::changes::LeastTimestamps;
pub use table_set::damage::DamageMark;
pub use table_set::{OverheadBytes, SetAsideKeys};
pub use writes::admission::{Admission, Generation, LateSource};
pub use writes::newer_versions::PendingCheck;
pub use writes::outbox::{Applied, Outbox, Outcome};
pub use writes::promises::KeptPromise;

use crate::disk::DiskSpace;
use crate::error::Error;
use crate::options::{Environment, Options};
use crate::table::{DiskAccess, Interrupt};
use base::{Entry, Timestamp};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use store::Store;

/// The answer of a read that must not block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The newest version, even if it is a tombstone or has expired; `None` when
    /// there is none.
    Found(Option<Entry>),
    /// The answer needs a read of the disk: call [`Engine::get`] where blocking is
    /// allowed.
    MayBlock,
}

/// A log-structured store. Cheap to clone; the clones are one store.
///
/// A store that is dropped without [`Engine::close`] loses nothing: its log is
/// replayed when it is opened again.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Store>,
}

impl Engine {
    /// Opens the store in a folder, or makes one there.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process uses the folder, [`Error::Corrupt`]
    /// when something that was synced is missing or damaged, [`Error::Invalid`] for
    /// a format of another version, [`Error::DiskFull`] when there is no room even
    /// for an empty log, [`Error::Io`].
    pub fn open(
        environment: Environment,
        options: Options,
    ) -> Result<(Self, RecoveryReport), Error> {
        options.validate()?;
        let (inner, report) = Store::open(environment, options)?;
        Ok((Self { inner }, report))
    }

    /// Submits an ordinary write to the next group commit, without waiting. Its outcome is
    /// delivered to `outbox` under `ticket`. Unless each commit is synced, a small
    /// one may be committed here, so that the outcome is delivered before this
    /// returns.
    ///
    /// # Errors
    /// [`Error::Overloaded`], [`Error::DiskFull`] (puts only), [`Error::Poisoned`],
    /// [`Error::Closed`], [`Error::Invalid`]: nothing is delivered to `outbox` then.
    pub fn submit(&self, entry: Entry, outbox: &Arc<dyn Outbox>, ticket: u64) -> Result<(), Error> {
        self.inner.submit(entry, outbox, ticket)
    }

    /// Submits many writes as [`Engine::submit`] does one, but under one lock and
    /// with one wake of the commit job. Each write is an entry with its admission
    /// and its ticket. The outcome of each is delivered to `outbox`; that of a
    /// refused one before this returns, unless the closed timestamp refuses it.
    pub fn submit_batch(
        &self,
        batch: impl IntoIterator<Item = (Entry, Admission, u64)>,
        outbox: &Arc<dyn Outbox>,
    ) {
        self.inner.submit_batch(batch, outbox);
    }

    /// Refuses ordinary writes below `closed_timestamp` from now on, with [`Error::Obsolete`]
    /// as their outcome. Everything below it that was committed is visible when this returns.
    /// A lower closed timestamp than the present one changes nothing. The caller makes the
    /// closed timestamp durable: see [`Options::closed_timestamp`]. Blocks.
    ///
    /// # Errors
    /// [`Error::Closed`]. [`Error::Poisoned`]: the log may hold writes that no scan
    /// sees and that come back with the next start.
    pub fn raise_closed_timestamp(&self, closed_timestamp: Timestamp) -> Result<(), Error> {
        let core = &self.inner.core;
        let _folder_lock = core.background.folder_lock().hold()?;
        // The edits first: an ingest takes the commit lock while it holds the closed timestamp.
        let held = core.closed_timestamp.hold();
        let mut committer = core.log.lock();
        core.health.check_poison()?;
        core.closed_timestamp
            .raise(closed_timestamp, &held, &mut committer);
        Ok(())
    }

    /// Refuses the late writes of these sources below the closed timestamp that were admitted
    /// before this call and are not committed yet, with [`Error::Overloaded`] as their outcome:
    /// those that wait in the store and those that their owner submits only later. So no scan
    /// that begins afterwards misses one of them. Blocks.
    ///
    /// # Errors
    /// As [`Engine::raise_closed_timestamp`].
    pub fn begin_generation(&self, sources: &[LateSource]) -> Result<(), Error> {
        let core = &self.inner.core;
        let _folder_lock = core.background.folder_lock().hold()?;
        let held = core.closed_timestamp.hold();
        let mut committer = core.log.lock();
        core.health.check_poison()?;
        for source in sources {
            core.closed_timestamp
                .begin_generation(*source, &held, &mut committer);
        }
        Ok(())
    }

    /// The present generation of a source, for the admissions of its late writes.
    #[must_use]
    pub fn generation(&self, source: LateSource) -> Generation {
        self.inner.core.closed_timestamp.generation(source)
    }

    /// Commits what was submitted, on this thread. Blocks. Does nothing on a closed
    /// engine, whose close has committed everything.
    pub fn commit_waiting(&self) {
        if let Ok(_folder_lock) = self.inner.core.background.folder_lock().hold() {
            self.inner.commit_waiting();
        }
    }

    /// The newest version of a key, if memory is enough to find it.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub fn get_cached(&self, key: &[u8]) -> Result<Lookup, Error> {
        match self
            .inner
            .core
            .tables
            .load()
            .newest(key, DiskAccess::Cached)
        {
            Ok(newest) => Ok(Lookup::Found(newest)),
            Err(Interrupt::WouldBlock) => Ok(Lookup::MayBlock),
            Err(Interrupt::Failed(error)) => Err(error),
        }
    }

    /// The newest version of a key, even if it is a tombstone or has expired. May
    /// read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let state = self.inner.core.tables.load_full();
        state
            .newest(key, DiskAccess::MayRead)
            .map_err(|interrupt| match interrupt {
                Interrupt::Failed(error) => error,
                Interrupt::WouldBlock => {
                    unreachable!("a get that may read the disk cannot return WouldBlock")
                }
            })
    }

    /// The newest version of a key that is not in a damaged part of a table, for one
    /// who compares the store with others. May read the disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`], where the damage is not noted yet.
    pub fn get_skipping_damage(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        self.inner
            .core
            .tables
            .load_full()
            .newest_skipping_damage(key)
    }

    /// Whether a damaged part of a table may have held versions of `key`, so that
    /// nothing the store says about the key is certain. Costs nothing while no damage
    /// is noted.
    #[must_use]
    pub fn is_damaged(&self, key: &[u8]) -> bool {
        self.inner.core.tables.is_damaged(key)
    }

    /// The first keys from `start` on that a damaged part of a table may have held: the first
    /// one, and the last one, or [`None`] for the end of the key space.
    #[must_use]
    pub fn damage_from(&self, start: &[u8]) -> Option<(Bytes, Option<Bytes>)> {
        self.inner.core.tables.load().damage_from(start)
    }

    /// How often damage was met that was not noted yet. If it is the same before and after a
    /// scan for a comparison, the scan has passed over none but what was noted.
    #[must_use]
    pub fn damage_met(&self) -> u64 {
        let reports = self.inner.core.tables.files().cache().damage_reports();
        reports.reported()
    }

    /// The damage that is noted now. A scan for a comparison that begins later passes over
    /// all of it.
    #[must_use]
    pub fn damage_mark(&self) -> DamageMark {
        table_set::damage::mark_of(&self.inner.core.tables.load().damaged)
    }

    /// Whether damage was noted that was not compared yet.
    #[must_use]
    pub fn has_uncompared_damage(&self) -> bool {
        let core = &self.inner.core;
        core.damage.needs_comparison(&core.tables.load())
    }

    /// Takes note that the store was compared with all others since the mark was
    /// taken, and was written what it lacked. Compaction then rewrites the tables
    /// without the parts that were damaged up to the mark. A table in which more
    /// damage was noted since then waits for the next comparison.
    pub fn damage_compared(&self, up_to: DamageMark) {
        let core = &self.inner.core;
        if core.damage.compared(up_to, &core.tables.load()) {
            core.schedule_compaction(Duration::ZERO);
        }
    }

    /// Sets aside what the store holds of these keys below `below`: it is not part of the store
    /// any more when this returns, and is kept for the operator. With [`SetAsideKeys::All`] the
    /// store also refuses from now on ordinary writes below, and late ones that were admitted
    /// under a lower GC threshold; the caller makes that durable. To repeat it changes nothing.
    /// Blocks.
    ///
    /// # Errors
    /// As [`Engine::flush`]. Nothing is set aside then, unless a failed sync leaves that unknown
    /// until the next start.
    pub fn set_aside(&self, below: Timestamp, keys: SetAsideKeys) -> Result<(), Error> {
        self.inner.set_aside(below, keys)
    }

    /// Whether damage was noted of whose keys nothing was set aside yet. Reads nothing but
    /// memory.
    #[must_use]
    pub fn has_damage_to_set_aside(&self) -> bool {
        self.inner.has_damage_to_set_aside()
    }

    /// The copies that are set aside, from the key `start` on: of each key the newest, if it is a
    /// value and the store holds nothing as new. They fit `bytes_max` bytes of keys and values,
    /// unless it is a single one. A page may have none before the last. Blocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Invalid`], [`Error::Io`]. Damaged parts of tables are passed
    /// over.
    pub fn copies_set_aside(&self, start: &[u8], bytes_max: usize) -> Result<CopiesPage, Error> {
        self.inner.copies_set_aside(start, bytes_max)
    }

    /// Keeps no more what was set aside below a timestamp of `up_to` or less. Its files are
    /// removed; what lies in live tables goes with the next compaction of each. Blocks.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`], [`Error::Io`].
    pub fn discard_set_aside(&self, up_to: Timestamp) -> Result<(), Error> {
        self.inner.discard_set_aside(up_to)
    }

    /// Starts a scan, as of now, of the keys from `start` up to, but without, `end`.
    /// With `None` it goes on to the last key.
    #[must_use]
    pub fn scan(&self, start: &[u8], end: Option<&[u8]>) -> Scan {
        Scan::new(Arc::clone(&self.inner), start, end)
    }

    /// How many records this store has ever committed. Reads nothing but memory.
    #[must_use]
    pub fn acknowledged(&self) -> Acknowledged {
        self.inner.core.acknowledged.get()
    }

    /// Begins to write sorted entries straight to tables, past the log and the
    /// memtables. Nothing of them is visible before [`Ingest::commit`], which refuses all
    /// of it if one entry is obsolete by `admission`.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`].
    pub fn begin_ingest(&self, admission: Admission) -> Result<Ingest, Error> {
        Ingest::begin(Arc::clone(&self.inner), admission)
    }

    /// Makes everything durable that is committed. Blocks.
    ///
    /// # Errors
    /// [`Error::Sync`], [`Error::Poisoned`], [`Error::Closed`].
    pub fn sync(&self) -> Result<(), Error> {
        let core = &self.inner.core;
        let _folder_lock = core.background.folder_lock().hold()?;
        core.health.check_poison()?;
        core.log.sync(core)
    }

    /// Writes everything in memory to tables. Blocks.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::Poisoned`], [`Error::Closed`], [`Error::Io`].
    pub fn flush(&self) -> Result<(), Error> {
        let _folder_lock = self.inner.core.background.folder_lock().hold()?;
        self.inner.flush_all()
    }

    /// Has compaction look at once for what it may drop now that the GC threshold has risen.
    /// By itself it looks once a minute. Never blocks.
    pub fn apply_gc_threshold(&self) {
        self.inner.core.schedule_compaction(Duration::ZERO);
    }

    /// Has the store compact all that it holds now, in the background, even when automatic
    /// compaction is off. Returns the number of this compaction. It is done in pieces,
    /// between which ordinary compactions come, so writes go on. Afterwards nothing is left
    /// in tables that was dead below the GC threshold when it began, except what a living
    /// scan sees and what damaged tables hold. A call while one is under way joins that
    /// one. Does not block.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`].
    pub fn order_compaction(&self) -> Result<u64, Error> {
        let core = &self.inner.core;
        core.health.check_poison()?;
        core.queue.lock().check_closed()?;
        Ok(self.inner.compactor.order_whole(core))
    }

    /// Where the compactions stand that [`Engine::order_compaction`] has ordered. A close
    /// ends the one under way. Reads nothing but memory.
    #[must_use]
    pub fn whole_compaction(&self) -> WholeCompaction {
        self.inner.compactor.whole(&self.inner.core)
    }

    /// Does what [`Engine::order_compaction`] orders on this thread. Blocks.
    ///
    /// # Errors
    /// As [`Engine::flush`], and [`Error::Corrupt`].
    pub fn compact(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let _folder_lock = inner.core.background.folder_lock().hold()?;
        inner.flush_all()?;
        let number = inner.compactor.order_whole(&inner.core);
        while !inner.compactor.drive_whole(number, &inner.core)? {
            inner.flush_all()?;
        }
        Ok(())
    }

    /// What the store holds and has done.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.inner.core.statistics()
    }

    /// Looks at the store's folder, and returns the space of its file system. If the folder or the log in it was moved or removed, no write is taken until a
    /// later look finds it: [`Statistics::failing`]. Call it every second or so. Blocks.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Io`].
    pub fn look_at_folder(&self) -> Result<DiskSpace, Error> {
        let core = &self.inner.core;
        let _folder_lock = core.background.folder_lock().hold()?;
        core.look_at_folder()
    }

    /// How many promises the store keeps. Reads nothing but memory.
    #[must_use]
    pub fn promises_kept(&self) -> usize {
        self.inner.core.log.promises_kept()
    }

    /// The promises that the store keeps for at least so long, up to `max` of them, in the order of
    /// the keys behind `after`. Blocks while a group is committed.
    #[must_use]
    pub fn promises_kept_for(&self, age: Duration, after: &[u8], max: usize) -> Vec<KeptPromise> {
        let core = &self.inner.core;
        let committer = core.log.lock();
        committer.promises.kept_for(age, after, max, core.now())
    }

    /// Whether puts are accepted now: the disk has room, and the store is not poisoned.
    /// Reads nothing but memory.
    #[must_use]
    pub fn takes_puts(&self) -> bool {
        let health = &self.inner.core.health;
        !health.is_full() && health.check_poison().is_ok() && !health.failing().is_refusing()
    }

    /// Why no write can be taken now, if the store is poisoned or cannot make a file that writes
    /// need. It tries that again by itself. Reads nothing but memory.
    #[must_use]
    pub fn refuses_writes(&self) -> Option<Arc<str>> {
        let health = &self.inner.core.health;
        if let Some(cause) = health.poison_cause() {
            return Some(Arc::clone(cause));
        }
        let cause = health
            .failing()
            .is_refusing()
            .then(|| health.failing().cause());
        cause.flatten().map(Arc::from)
    }

    /// Freezes what the store holds now, and holds its commits off from this moment on: until
    /// [`Engine::end_hold`] with this `number`, which must be new, or for `hold_max`. Everything
    /// that was acknowledged before is in the snapshot; nothing else is. Blocks.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if the store is behind with flushes, or has another snapshot or hold;
    /// [`Error::Corrupt`] if a part of it is damaged; those of [`Engine::flush`]. Nothing is held
    /// off then.
    pub fn freeze(&self, number: u64, hold_max: Duration) -> Result<StoreSnapshot, Error> {
        StoreSnapshot::freeze(Arc::clone(&self.inner), number, hold_max)
    }

    /// Lets commits go on that [`Engine::freeze`] holds off. Returns whether none was made since.
    #[must_use]
    pub fn end_hold(&self, number: u64) -> bool {
        let core = &self.inner.core;
        let has_lasted = core.log.lock().hold.end(number);
        core.schedule_commits(Duration::ZERO);
        has_lasted
    }

    /// The greatest timestamp that was ever written to this store.
    #[must_use]
    pub fn greatest_timestamp(&self) -> Timestamp {
        self.inner.core.tables.greatest_timestamp()
    }

    /// The sequence number of the last record that was committed.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.inner.core.snapshots.visible()
    }

    /// How old the versions are that were committed after `sequence`, a number
    /// that [`Engine::last_sequence`] gave since the store was opened. All of them
    /// are at or above the bound of their key in one of the lists.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn changes_since(&self, sequence: u64) -> Result<Vec<LeastTimestamps>, Error> {
        let core = &self.inner.core;
        core.changes.since(sequence, &core.tables.load())
    }

    /// The last key of the store, or one behind it. Reads nothing but memory.
    #[must_use]
    pub fn last_key(&self) -> Option<Vec<u8>> {
        self.inner.core.tables.load().last_key()
    }

    /// The bytes of keys and values of all versions in tables: of those whose keys are below `key`,
    /// about, and of all. Looks at each table, and reads nothing but memory.
    #[must_use]
    pub fn table_bytes_below(&self, key: &[u8]) -> (u64, u64) {
        self.inner.core.tables.load().table_bytes_below(key)
    }

    /// A random number that was chosen when this store was made.
    #[must_use]
    pub fn store_id(&self) -> u64 {
        self.inner.core.tables.store_id()
    }

    /// A number that only this store knows, derived for one `purpose` of its
    /// owner: for example as the secret of a log that the owner keeps beside it.
    #[must_use]
    pub fn derive_secret(&self, purpose: &str) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(purpose.as_bytes(), self.inner.core.log.secret())
    }

    /// Commits what was submitted, refuses what comes after, flushes the
    /// memtables, claims the log and unlocks the folder, even if one of these
    /// fails. Blocks until no job or call of this engine can write any more, so
    /// the folder can be opened again at once. Reads go on, from what this engine
    /// holds; one that has to open the file of a table again fails with [`Error::Io`] if
    /// another engine has removed that since. A second call does nothing.
    ///
    /// # Errors
    /// As [`Engine::flush`]. What was acknowledged is in the log then, and the next
    /// start replays it.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.close()
    }
}
