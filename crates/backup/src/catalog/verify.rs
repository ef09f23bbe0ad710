//! Reads all of a backup, a step at a time.

use super::listing::{Listed, read_nodes};
use crate::error::BackupError;
use crate::layout::{self, hex};
use crate::pieces::Pieces;
use crate::target::{ObjectReader, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lsm::RestoredStore;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many tables.
    pub tables: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The bytes of all tables.
    pub bytes_of_all: u64,
}

/// A verification under way.
pub struct Verify {
    target: Arc<dyn Target>,
    backup: Listed,
    /// The tables that are yet to be read, by SHA-256, with their lengths; `None` at first.
    waiting: Option<BTreeMap<String, u64>>,
    current: Option<Table>,
    verified: Verified,
}

struct Table {
    sha256: String,
    name: String,
    reader: Box<dyn ObjectReader>,
    pieces: Pieces,
}

impl Verify {
    pub(super) fn new(target: Arc<dyn Target>, backup: Listed) -> Self {
        Self {
            target,
            backup,
            waiting: None,
            current: None,
            verified: Verified::default(),
        }
    }

    /// What was read until now.
    #[must_use]
    pub fn progress(&self) -> Verified {
        self.verified
    }

    /// Reads some of it. Returns whether that was the end. Blocks.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] names the first object that is not what was stored; those of the
    /// target.
    pub fn step(&mut self) -> Result<bool, BackupError> {
        if let Some(table) = self.current.take() {
            self.current = self.read(table)?;
            return Ok(false);
        }
        let Some(waiting) = &mut self.waiting else {
            let waiting = self.find_tables()?;
            self.verified.bytes_of_all = waiting.values().sum();
            self.waiting = Some(waiting);
            return Ok(false);
        };
        let Some((sha256, bytes)) = waiting.pop_first() else {
            return Ok(true);
        };
        let name = layout::table(&sha256);
        let reader = self
            .target
            .open(&name)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => BackupError::damaged(&name, "it is not there"),
                _ => BackupError::target("open", &name, error),
            })?;
        if reader.bytes() != bytes {
            let what = format!("it has {} bytes instead of {bytes}", reader.bytes());
            return Err(BackupError::damaged(&name, what));
        }
        self.current = Some(Table {
            sha256,
            name,
            reader,
            pieces: Pieces::of(bytes),
        });
        Ok(false)
    }

    fn find_tables(&self) -> Result<BTreeMap<String, u64>, BackupError> {
        let mut tables = BTreeMap::new();
        for (name, node) in read_nodes(&*self.target, &self.backup)? {
            let store = STANDARD.decode(&node.store);
            let store = store.map_err(|error| BackupError::damaged(&name, error.to_string()))?;
            let described = RestoredStore::of(&store)?.tables().len();
            if described != node.tables.len() {
                return Err(BackupError::damaged(&name, "its store has other tables"));
            }
            let of_node = node.tables.into_iter();
            tables.extend(of_node.map(|table| (table.sha256, table.bytes)));
        }
        Ok(tables)
    }

    fn read(&mut self, mut table: Table) -> Result<Option<Table>, BackupError> {
        let Table {
            name,
            reader,
            pieces,
            ..
        } = &mut table;
        let piece = pieces.next(|offset, buffer| reader.read(offset, buffer));
        let piece = piece.map_err(|error| BackupError::target("read", name, error))?;
        self.verified.bytes += piece.len() as u64;
        if !table.pieces.is_over() {
            return Ok(Some(table));
        }
        if hex(&table.pieces.hash()) != table.sha256 {
            return Err(BackupError::damaged(&table.name, "its SHA-256 is another"));
        }
        self.verified.tables += 1;
        Ok(None)
    }
}
