//! Compactions of the whole store that operators order. The engine does the work; this module knows
//! when one was ordered, and what the tables held then.

use base::Clock;
use lsm::{Engine, Error};
use profile::lock;
use std::sync::{Arc, Mutex};

/// The compactions that operators ask for.
pub(crate) struct Compactions {
    engine: Engine,
    clock: Arc<dyn Clock>,
    /// The last one that was ordered, and when, in milliseconds since 1970.
    last: Mutex<Option<(OrderedCompaction, u64)>>,
}

/// A compaction that an operator has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedCompaction {
    /// Whether it was already under way.
    pub has_begun: bool,
    /// What the tables held when it was ordered.
    pub before: TableContents,
    /// The engine's number of it.
    number: u64,
}

/// How a compaction ended: what the tables hold now, or why it has failed.
pub type CompactionEnd = Result<TableContents, Error>;

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

/// A compaction that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningCompaction {
    /// When it was ordered, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The bytes of the keys and values that it has merged.
    pub merged_bytes: u64,
}

impl TableContents {
    fn of(engine: &Engine) -> Self {
        let statistics = engine.statistics();
        Self {
            bytes: statistics.table_bytes(),
            entries: statistics.table_entries,
            tombstones: statistics.table_tombstones,
        }
    }
}

impl Compactions {
    pub(crate) fn new(engine: Engine, clock: Arc<dyn Clock>) -> Self {
        Self {
            engine,
            clock,
            last: Mutex::default(),
        }
    }

    /// Has the whole store compacted, or joins the compaction under way.
    ///
    /// # Errors
    /// See [`Engine::order_compaction`].
    pub(crate) fn order(&self) -> Result<OrderedCompaction, Error> {
        let mut last = lock(&self.last);
        let before = TableContents::of(&self.engine);
        let number = self.engine.order_compaction()?;
        // The engine gives a number again only while that compaction is under way.
        if let Some((joined, _)) = last.as_ref().filter(|(last, _)| last.number == number) {
            return Ok(OrderedCompaction {
                has_begun: true,
                ..*joined
            });
        }
        let ordered = OrderedCompaction {
            has_begun: false,
            before,
            number,
        };
        *last = Some((ordered, self.clock.unix_ms()));
        Ok(ordered)
    }

    /// How a compaction has ended; `None` while it is under way.
    pub(crate) fn end(&self, ordered: &OrderedCompaction) -> Option<CompactionEnd> {
        let whole = self.engine.whole_compaction();
        (whole.ended >= ordered.number).then(|| match whole.failure {
            Some(error) if whole.ended == ordered.number => Err(error),
            // The failure, if there is one, is that of a later one.
            _ => Ok(TableContents::of(&self.engine)),
        })
    }

    /// The compaction that is under way.
    pub(crate) fn running(&self) -> Option<RunningCompaction> {
        let (ordered, began_unix_ms) = (*lock(&self.last))?;
        let whole = self.engine.whole_compaction();
        (whole.ended < ordered.number).then_some(RunningCompaction {
            began_unix_ms,
            merged_bytes: whole.merged_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Entry, Expiry, Timestamp};
    use lsm::{Environment, Options};
    use lsm_testing::{BlockingWrite, MemoryDisk, environment};

    #[test]
    fn one_compaction_runs_at_a_time_and_all_hear_how_it_ends() {
        let (environment, executor) = environment(Arc::new(MemoryDisk::new()));
        let environment = Environment {
            gc_threshold: Arc::new(|| Timestamp::from_u64(9)),
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
        engine.flush().unwrap();
        let compactions = Compactions::new(engine.clone(), clock);
        assert_eq!(compactions.running(), None);
        let first = compactions.order().unwrap();
        let second = compactions.order().unwrap();
        assert_eq!((first.has_begun, second.has_begun), (false, true));
        assert_eq!(first.before, second.before);
        assert_eq!((first.before.entries, first.before.tombstones), (3, 2));
        assert_eq!(compactions.running().unwrap().merged_bytes, 0);
        assert!(compactions.end(&second).is_none(), "it has not run yet");
        executor.run_all_due();
        let after = compactions.end(&first).unwrap().unwrap();
        assert_eq!(compactions.end(&second).unwrap().unwrap(), after);
        assert_eq!((after.entries, after.tombstones), (2, 1));
        assert!(first.before.bytes > after.bytes && after.bytes > 0);
        assert_eq!(compactions.running(), None);

        let third = compactions.order().unwrap();
        assert!(!third.has_begun);
        engine.close().unwrap();
        let end = compactions.end(&third).unwrap();
        assert!(matches!(end, Err(Error::Closed)), "{end:?}");
        assert!(
            compactions.end(&first).unwrap().is_ok(),
            "it had ended well"
        );
        assert!(matches!(compactions.order(), Err(Error::Closed)));
    }
}
