//! Compactions of the whole store that operators ask for. One runs at a time, as a job of
//! the lane of compaction, so that no other compaction works beside it.

use base::Clock;
use lsm::{Engine, Error, Executor, Lane};
use profile::lock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// The compaction that operators have asked for, if one is running.
pub(crate) struct Compactions {
    engine: Engine,
    clock: Arc<dyn Clock>,
    executor: Arc<dyn Executor>,
    running: Mutex<Option<Running>>,
}

/// A compaction, and the requests that wait for its end.
struct Running {
    began_unix_ms: u64,
    waiting: Vec<oneshot::Sender<CompactionEnd>>,
}

/// How a compaction ended.
pub type CompactionEnd = Result<CompactionReport, Error>;

/// What a compaction has done to the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionReport {
    /// What they held before, once everything in memory was flushed.
    pub before: TableContents,
    /// What they hold now.
    pub after: TableContents,
}

/// What the tables of a store hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableContents {
    /// The bytes of their files.
    pub bytes: u64,
    /// Versions, not keys.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
}

/// A compaction that an operator has asked for.
#[derive(Debug)]
pub struct OrderedCompaction {
    /// Whether it was already running.
    pub has_begun: bool,
    /// How it ends; an error if the node stops before.
    pub end: oneshot::Receiver<CompactionEnd>,
}

impl TableContents {
    fn of(engine: &Engine) -> Self {
        let statistics = engine.statistics();
        Self {
            bytes: statistics.levels.iter().map(|level| level.bytes).sum(),
            entries: statistics.table_entries,
            tombstones: statistics.table_tombstones,
        }
    }
}

impl Compactions {
    pub(crate) fn new(
        engine: Engine,
        clock: Arc<dyn Clock>,
        executor: Arc<dyn Executor>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            clock,
            executor,
            running: Mutex::default(),
        })
    }

    /// Has the whole store compacted, or joins the compaction that is running.
    pub(crate) fn order(self: &Arc<Self>) -> OrderedCompaction {
        let (sender, end) = oneshot::channel();
        let has_begun = {
            let mut running = lock(&self.running);
            let has_begun = running.is_some();
            let running = running.get_or_insert_with(|| Running {
                began_unix_ms: self.clock.unix_ms(),
                waiting: Vec::new(),
            });
            // Those whose request has ended do not wait any more.
            running.waiting.retain(|waiting| !waiting.is_closed());
            running.waiting.push(sender);
            has_begun
        };
        if !has_begun {
            let compactions = Arc::clone(self);
            let job = Box::new(move || compactions.run());
            self.executor.spawn(Lane::Compaction, Duration::ZERO, job);
        }
        OrderedCompaction { has_begun, end }
    }

    /// When the compaction was asked for that is running, in milliseconds since 1970.
    pub(crate) fn began_unix_ms(&self) -> Option<u64> {
        lock(&self.running)
            .as_ref()
            .map(|running| running.began_unix_ms)
    }

    fn run(&self) {
        let end = self.compact();
        if let Err(error) = &end {
            tracing::warn!(%error, "the compaction that was asked for has failed");
        }
        let ended = lock(&self.running).take();
        for waiting in ended.into_iter().flat_map(|running| running.waiting) {
            // Fails where the request has ended.
            let _sent = waiting.send(end.clone()).is_ok();
        }
    }

    fn compact(&self) -> CompactionEnd {
        self.engine.flush()?;
        let before = TableContents::of(&self.engine);
        self.engine.compact()?;
        Ok(CompactionReport {
            before,
            after: TableContents::of(&self.engine),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Expiry, Timestamp};
    use lsm::testing::{BlockingWrite, environment};
    use lsm::{Environment, MemoryDisk, Options};

    #[test]
    fn one_compaction_runs_at_a_time_and_all_hear_how_it_ends() {
        let (environment, executor) = environment(Arc::new(MemoryDisk::new()));
        let environment = Environment {
            drop_bound: Arc::new(|| Timestamp::from_u64(9)),
            ..environment
        };
        let clock = Arc::clone(&environment.clock);
        let engine = Engine::open(environment, Options::default()).unwrap().0;
        let put = Entry::value(b"kept", Timestamp::from_u64(1), b"v", Expiry::NEVER, 1);
        engine.write(put).unwrap();
        for timestamp in [8, 10] {
            let key = [b'k', timestamp as u8];
            let dead = Entry::tombstone(&key, Timestamp::from_u64(timestamp), 1);
            engine.write(dead).unwrap();
        }
        let jobs = Arc::clone(&executor) as Arc<dyn Executor>;
        let compactions = Compactions::new(engine.clone(), clock, jobs);
        assert_eq!(compactions.began_unix_ms(), None);
        let mut first = compactions.order();
        let mut second = compactions.order();
        assert_eq!((first.has_begun, second.has_begun), (false, true));
        assert!(compactions.began_unix_ms().is_some());
        assert!(first.end.try_recv().is_err(), "it has not run yet");
        executor.run_all_due();
        let report = first.end.try_recv().unwrap().unwrap();
        assert_eq!(second.end.try_recv().unwrap().unwrap(), report);
        assert_eq!((report.before.entries, report.before.tombstones), (3, 2));
        assert_eq!((report.after.entries, report.after.tombstones), (2, 1));
        assert!(report.before.bytes > report.after.bytes && report.after.bytes > 0);
        assert_eq!(compactions.began_unix_ms(), None);

        engine.close().unwrap();
        let mut third = compactions.order();
        assert!(!third.has_begun);
        executor.run_all_due();
        let end = third.end.try_recv().unwrap();
        assert!(matches!(end, Err(Error::Closed)), "{end:?}");
    }
}
