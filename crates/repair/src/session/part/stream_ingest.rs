//! What other nodes stream in a session, on its way into the tables.
//!
//! A session goes through the keys in order, so all that it brings fits one ingest.
//! Jobs of [`JobClass::Ingest`](lsm::JobClass::Ingest) write it, one range after another, while the
//! session scans, compares and streams the next range. The ingest is committed whenever it is large
//! enough: what is committed is durable, and a later session does not bring it again. What is not
//! committed is dropped with the session, and counts for nothing.

use base::Entry;
use lsm::{Admission, Engine, Error, Ingest};
use profile::lock;
use std::sync::{Arc, Mutex};

/// What is streamed in a session.
pub(super) struct StreamIngest {
    engine: Engine,
    /// From how many bytes of keys and values on the ingest is committed.
    bytes_max: usize,
    /// How all that comes was admitted, or under a later state of the store.
    admission: Admission,
    /// Held while tables are written: only jobs of the class of ingests take it.
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    ingest: Option<Ingest>,
    /// The bytes of keys and values in the ingest.
    bytes: usize,
    /// Why something was not written: nothing that comes later is committed then.
    failure: Option<Error>,
}

impl StreamIngest {
    /// Nothing has arrived yet.
    pub(super) fn new(engine: Engine, bytes_max: usize, admission: Admission) -> Arc<Self> {
        Arc::new(Self {
            engine,
            bytes_max,
            admission,
            tables: Mutex::default(),
        })
    }

    fn write(&self, tables: &mut Tables, entries: Vec<Entry>) -> Result<(), Error> {
        if let Some(failure) = &tables.failure {
            return Err(failure.clone());
        }
        for entry in entries {
            let ingest = match &mut tables.ingest {
                Some(ingest) => ingest,
                None => tables
                    .ingest
                    .insert(self.engine.begin_ingest(self.admission)?),
            };
            tables.bytes += entry.data_bytes();
            ingest.push(&entry)?;
        }
        Ok(())
    }

    fn commit(tables: &mut Tables) -> Result<(), Error> {
        tables.bytes = 0;
        if let Some(ingest) = tables.ingest.take() {
            let ingested = ingest.commit()?;
            tracing::debug!(?ingested, "stored what a repair has streamed");
        }
        Ok(())
    }
}

/// What was streamed of a range that is over, and where it goes. Its keys are after all that was
/// written before.
pub(in crate::session) struct Streamed {
    pub(super) entries: Vec<Entry>,
    pub(super) ingest: Arc<StreamIngest>,
}

impl Streamed {
    /// Whether there is nothing to write.
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes it into tables, and commits them if they are large. Blocks.
    ///
    /// # Errors
    /// As [`Streamed::commit`].
    pub(in crate::session) fn write(self) -> Result<(), Error> {
        let ingest = Arc::clone(&self.ingest);
        self.and(|tables| {
            if tables.bytes >= ingest.bytes_max {
                StreamIngest::commit(tables)
            } else {
                Ok(())
            }
        })
    }

    /// Makes it, and all that was written before, part of the store, durably. Blocks.
    ///
    /// # Errors
    /// See [`Engine::begin_ingest`], [`Ingest::push`] and [`Ingest::commit`]; or why something was not
    /// written before. What was not committed is lost then, so the session must not show that the two
    /// are equal.
    pub(in crate::session) fn commit(self) -> Result<(), Error> {
        self.and(StreamIngest::commit)
    }

    fn and(self, then: impl FnOnce(&mut Tables) -> Result<(), Error>) -> Result<(), Error> {
        let mut tables = lock(&self.ingest.tables);
        let written = self.ingest.write(&mut tables, self.entries);
        let done = written.and_then(|()| then(&mut tables));
        done.inspect_err(|error| {
            tables.ingest = None;
            tables.failure.get_or_insert_with(|| error.clone());
        })
    }
}
