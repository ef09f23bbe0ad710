//! What other nodes send in bulk during a pass, on its way into the tables.
//!
//! A pass goes through the keys in order, so all that it brings fits one ingest.
//! The ingest is committed whenever it is large enough: what is committed is durable, and
//! a later pass does not bring it again. What is not committed is dropped with the pass, and
//! counts for nothing.

use base::{Entry, Timestamp};
use lsm::{Admission, Barrier, Engine, Error, Ingest, LateSource};

/// What a pass brings in bulk.
pub(super) struct Filling {
    engine: Engine,
    /// In the order of their keys, after all that the ingest has.
    waiting: Vec<Entry>,
    ingest: Option<Ingest>,
    /// The bytes of keys and values in the ingest.
    ingest_bytes: usize,
    /// From how many on it is committed.
    ingest_bytes_max: usize,
    /// The F of this node when the pass began: all that comes was admitted under it, or
    /// under a greater one.
    drop_bound: Timestamp,
    /// The barrier of the store when the pass began, or when the pass has raised it.
    barrier: Barrier,
}

impl Filling {
    /// Nothing has arrived yet. `drop_bound` is the F of this node now.
    pub(super) fn new(engine: Engine, ingest_bytes_max: usize, drop_bound: Timestamp) -> Self {
        Self {
            barrier: engine.barrier(LateSource::Comparison),
            engine,
            waiting: Vec::new(),
            ingest: None,
            ingest_bytes: 0,
            ingest_bytes_max,
            drop_bound,
        }
    }

    /// Raises the barrier of the store, but not for what this pass brings.
    ///
    /// # Errors
    /// See [`Engine::raise_barrier`].
    pub(super) fn raise_barrier(&mut self) -> Result<(), Error> {
        self.engine
            .raise_barrier(&[LateSource::Comparison, LateSource::Read])?;
        self.barrier = self.engine.barrier(LateSource::Comparison);
        Ok(())
    }

    /// Adds versions, whose keys are after all others. They stay in memory until the
    /// next push.
    pub(super) fn add(&mut self, entries: Vec<Entry>) {
        if self.waiting.is_empty() {
            self.waiting = entries;
        } else {
            self.waiting.extend(entries);
        }
    }

    /// Writes what waits into tables, and commits them if they are large.
    ///
    /// # Errors
    /// As [`Filling::commit`].
    pub(super) fn push(&mut self) -> Result<(), Error> {
        self.push_waiting()?;
        if self.ingest_bytes >= self.ingest_bytes_max {
            self.commit()
        } else {
            Ok(())
        }
    }

    /// Makes everything part of the store, durably.
    ///
    /// # Errors
    /// See [`Engine::begin_ingest`], [`Ingest::push`] and [`Ingest::commit`]. What was
    /// not committed is lost then, so the pass must not count as clean.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        self.push_waiting()?;
        self.ingest_bytes = 0;
        if let Some(ingest) = self.ingest.take() {
            let ingested = ingest.commit()?;
            tracing::debug!(?ingested, "stored what a repair has brought in bulk");
        }
        Ok(())
    }

    fn push_waiting(&mut self) -> Result<(), Error> {
        let admission = Admission::Late {
            gc_threshold: self.drop_bound,
            barrier: self.barrier,
        };
        for entry in std::mem::take(&mut self.waiting) {
            let ingest = match &mut self.ingest {
                Some(ingest) => ingest,
                None => self.ingest.insert(self.engine.begin_ingest(admission)?),
            };
            self.ingest_bytes += entry.data_bytes();
            ingest.push(&entry)?;
        }
        Ok(())
    }
}
