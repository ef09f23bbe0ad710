//! What other nodes stream in a session, on its way into the tables.
//!
//! A session goes through the keys in order, so all that it brings fits one ingest.
//! The ingest is committed whenever it is large enough: what is committed is durable, and
//! a later session does not bring it again. What is not committed is dropped with the session,
//! and counts for nothing.

use base::Entry;
use lsm::{Admission, Engine, Error, Ingest};

/// What is streamed in a session.
pub(super) struct StreamIngest {
    engine: Engine,
    /// In the order of their keys, after all that the ingest has.
    waiting: Vec<Entry>,
    ingest: Option<Ingest>,
    /// The bytes of keys and values in the ingest.
    ingest_bytes: usize,
    /// From how many on it is committed.
    ingest_bytes_max: usize,
    /// How all that comes was admitted, or under a later state of the store.
    admission: Admission,
}

impl StreamIngest {
    /// Nothing has arrived yet.
    pub(super) fn new(engine: Engine, ingest_bytes_max: usize, admission: Admission) -> Self {
        Self {
            engine,
            waiting: Vec::new(),
            ingest: None,
            ingest_bytes: 0,
            ingest_bytes_max,
            admission,
        }
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
    /// As [`StreamIngest::commit`].
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
    /// not committed is lost then, so the session must not show that the two are equal.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        self.push_waiting()?;
        self.ingest_bytes = 0;
        if let Some(ingest) = self.ingest.take() {
            let ingested = ingest.commit()?;
            tracing::debug!(?ingested, "stored what a repair has streamed");
        }
        Ok(())
    }

    fn push_waiting(&mut self) -> Result<(), Error> {
        for entry in std::mem::take(&mut self.waiting) {
            let ingest = match &mut self.ingest {
                Some(ingest) => ingest,
                None => self
                    .ingest
                    .insert(self.engine.begin_ingest(self.admission)?),
            };
            self.ingest_bytes += entry.data_bytes();
            ingest.push(&entry)?;
        }
        Ok(())
    }
}
