//! Stores what the store of one node held, a step at a time, so that its owner can pause in
//! between.

use crate::catalog::is_running;
use crate::contents::{NodeContents, NodeSummary, TableContents, put};
use crate::error::BackupError;
use crate::layout::{self, BackupId, FORMAT, Hash, hash_of, hex};
use crate::pieces::Pieces;
use crate::snapshot::SharedSnapshot;
use crate::target::{ObjectWriter, Target};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lsm::SnapshotTable;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// After how many tables what the snapshot pins is looked at again.
const TABLES_PER_LOOK: usize = 32;

/// The hashes of tables of a store that are known. A store uses no number twice while it is open,
/// so they hold for as long; after a start tables are read anew.
pub type TableHashes = BTreeMap<SnapshotTable, [u8; 32]>;

/// What a node is to store.
pub struct UploadOrder {
    /// Where.
    pub target: Arc<dyn Target>,
    /// For which backup.
    pub backup: BackupId,
    /// The name of the node.
    pub node: String,
    /// The most bytes of removed tables that the snapshot may keep on the disk.
    pub pinned_bytes_max: u64,
}

/// How far an upload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadProgress {
    /// The bytes of all tables; 0 until they are known.
    pub bytes: u64,
    /// The bytes of those that are at the target.
    pub done_bytes: u64,
    /// What was stored of them.
    pub new_bytes: u64,
    /// What the snapshot keeps on the disk that compaction has removed.
    pub pinned_bytes: u64,
}

/// An upload under way.
pub struct Upload {
    order: UploadOrder,
    snapshot: SharedSnapshot,
    hashes: TableHashes,
    progress: UploadProgress,
    stage: Stage,
    /// The tables that are yet to be stored.
    waiting: VecDeque<SnapshotTable>,
    /// The lengths of the tables that the target has.
    stored: BTreeMap<String, u64>,
    done: Vec<TableContents>,
}

enum Stage {
    Begin,
    Next,
    /// Reads a table for its hash.
    Hash(SnapshotTable, Pieces),
    /// Reads a table again, and stores it under its hash.
    Store(SnapshotTable, Pieces, Hash, Box<dyn ObjectWriter>),
    Done(NodeSummary),
}

impl Upload {
    /// Begins to store a snapshot. `hashes` are those that the last upload of this store knew.
    #[must_use]
    pub fn begin(order: UploadOrder, snapshot: SharedSnapshot, hashes: TableHashes) -> Self {
        Self {
            order,
            snapshot,
            hashes,
            progress: UploadProgress::default(),
            stage: Stage::Begin,
            waiting: VecDeque::new(),
            stored: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> UploadProgress {
        let mut progress = self.progress;
        if let Stage::Store(_, pieces, ..) = &self.stage {
            progress.done_bytes += pieces.offset();
            progress.new_bytes += pieces.offset();
        }
        progress
    }

    /// What it has stored, once it has ended.
    #[must_use]
    pub fn end(&self) -> Option<&NodeSummary> {
        match &self.stage {
            Stage::Done(summary) => Some(summary),
            _ => None,
        }
    }

    /// The hashes that are known, for the next upload.
    #[must_use]
    pub fn into_hashes(self) -> TableHashes {
        self.hashes
    }

    /// Does some of the work: about a mebibyte, or the flush of what was in memory. Blocks.
    ///
    /// # Errors
    /// Those of the target and the store. A further step tries what failed again.
    pub fn step(&mut self) -> Result<(), BackupError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Next);
        let has_begun = !matches!(stage, Stage::Begin);
        let (table, stepped) = match stage {
            Stage::Begin => (None, self.begin_tables()),
            Stage::Next => {
                let table = self.waiting.front().copied();
                (table, self.next_table())
            }
            Stage::Hash(table, pieces) => (Some(table), self.hash(table, pieces)),
            Stage::Store(table, pieces, hash, writer) => {
                (Some(table), self.store(table, pieces, hash, writer))
            }
            Stage::Done(summary) => (None, Ok(Stage::Done(summary))),
        };
        match stepped {
            Ok(stage) => {
                self.stage = stage;
                Ok(())
            }
            Err(error) => {
                match table {
                    // From its begin.
                    Some(table) if self.waiting.front() != Some(&table) => {
                        self.waiting.push_front(table);
                    }
                    Some(_) => {}
                    None if has_begun => {}
                    None => self.stage = Stage::Begin,
                }
                Err(error)
            }
        }
    }

    fn begin_tables(&mut self) -> Result<Stage, BackupError> {
        let target = &*self.order.target;
        if !is_running(target, &self.order.backup)? {
            return Err(BackupError::NotShared);
        }
        let tables = self.snapshot.with(|snapshot| {
            snapshot.flush()?;
            Ok(snapshot.tables())
        })?;
        self.progress.bytes = tables.iter().map(|table| table.bytes).sum();
        self.hashes.retain(|table, _| tables.contains(table));
        let listed = target
            .list(layout::TABLES)
            .map_err(|error| BackupError::target("list", layout::TABLES, error))?;
        let stored = listed.into_iter().map(|object| (object.name, object.bytes));
        self.stored = stored.collect();
        self.waiting = tables.into();
        Ok(Stage::Next)
    }

    fn next_table(&mut self) -> Result<Stage, BackupError> {
        if self.done.len().is_multiple_of(TABLES_PER_LOOK) {
            self.progress.pinned_bytes = self.snapshot.pinned_bytes();
        }
        if self.progress.pinned_bytes > self.order.pinned_bytes_max {
            return Err(BackupError::TooMuchPinned {
                pinned_bytes: self.progress.pinned_bytes,
            });
        }
        let Some(table) = self.waiting.pop_front() else {
            return self.complete();
        };
        match self.hashes.get(&table).copied() {
            Some(hash) => self.stored_or(table, hash),
            None => Ok(Stage::Hash(table, Pieces::of(table.bytes))),
        }
    }

    /// Goes on behind a table that the target has, or stores it. One of another length is replaced.
    fn stored_or(&mut self, table: SnapshotTable, hash: Hash) -> Result<Stage, BackupError> {
        let name = layout::table(&hex(&hash));
        if self.stored.get(&name) == Some(&table.bytes) {
            self.finish(table, hash)?;
            return Ok(Stage::Next);
        }
        let writer = self
            .order
            .target
            .create(&name)
            .map_err(|error| BackupError::target("create", &name, error))?;
        Ok(Stage::Store(table, Pieces::of(table.bytes), hash, writer))
    }

    /// Reads the next piece of a table.
    fn read<'a>(
        &self,
        table: SnapshotTable,
        pieces: &'a mut Pieces,
    ) -> Result<&'a [u8], BackupError> {
        pieces.next(|offset, buffer| {
            let snapshot = &self.snapshot;
            snapshot.with(|snapshot| snapshot.read(table, offset, buffer))
        })
    }

    fn hash(&mut self, table: SnapshotTable, mut pieces: Pieces) -> Result<Stage, BackupError> {
        self.read(table, &mut pieces)?;
        if !pieces.is_over() {
            return Ok(Stage::Hash(table, pieces));
        }
        // A table that was damaged before would be stored as it is.
        self.snapshot.with(|snapshot| snapshot.check(table))?;
        let hash = pieces.hash();
        self.hashes.insert(table, hash);
        self.stored_or(table, hash)
    }

    fn store(
        &mut self,
        table: SnapshotTable,
        mut pieces: Pieces,
        hash: Hash,
        mut writer: Box<dyn ObjectWriter>,
    ) -> Result<Stage, BackupError> {
        let name = layout::table(&hex(&hash));
        let failed = |error| BackupError::target("write", &name, error);
        let piece = self.read(table, &mut pieces)?;
        writer.write(piece).map_err(failed)?;
        if !pieces.is_over() {
            return Ok(Stage::Store(table, pieces, hash, writer));
        }
        if pieces.hash() != hash {
            // It was read before, and never changes.
            self.hashes.remove(&table);
            let what = "it was read twice, and was not the same";
            return Err(BackupError::damaged(&name, what));
        }
        writer.complete().map_err(failed)?;
        self.progress.new_bytes += table.bytes;
        self.stored.insert(name, table.bytes);
        self.finish(table, hash)?;
        Ok(Stage::Next)
    }

    fn finish(&mut self, table: SnapshotTable, hash: Hash) -> Result<(), BackupError> {
        self.snapshot.with(|snapshot| {
            snapshot.let_go(table);
            Ok(())
        })?;
        self.progress.done_bytes += table.bytes;
        self.done.push(TableContents {
            number: table.number,
            bytes: table.bytes,
            sha256: hex(&hash),
        });
        Ok(())
    }

    fn complete(&mut self) -> Result<Stage, BackupError> {
        let description = self.snapshot.with(|snapshot| Ok(snapshot.description()))?;
        let contents = NodeContents {
            format: FORMAT,
            name: self.order.node.clone(),
            store: STANDARD.encode(description),
            tables: self.done.clone(),
        };
        let name = layout::node(&self.order.backup, &self.order.node);
        let bytes = put(&*self.order.target, &name, &contents)?;
        let (tables, hash) = (contents.tables.len() as u64, hash_of(&bytes));
        let UploadProgress {
            bytes, new_bytes, ..
        } = self.progress;
        let summary = NodeSummary::new(contents.name, hash, tables, bytes, new_bytes);
        Ok(Stage::Done(summary))
    }
}
