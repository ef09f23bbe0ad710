//! Removes backups and what only they needed, a step at a time.
//!
//! 1. It notes itself, and ends if a backup runs.
//! 2. It lists the backups. One that was completed before is among them, because its note was still
//!    there until then.
//! 3. It reads what those that are kept need, and only then removes the others: first what makes them
//!    backups, then the rest. Before each removal it finds its note once more.

use super::listing::{Listing, list, read_nodes, remove};
use super::notes::Running;
use crate::contents::{NodeContents, get};
use crate::error::BackupError;
use crate::layout::{self, BackupId, id_of};
use std::collections::{BTreeSet, VecDeque};

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The backups.
    pub backups: Vec<BackupId>,
    /// How many tables.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A pruning under way.
pub struct Prune {
    running: Running,
    listing: Listing,
    keep: usize,
    /// What is yet to be removed; `None` before it is known.
    waiting: Option<VecDeque<Removal>>,
    pruned: Pruned,
}

enum Removal {
    Backup(BackupId),
    Node(String),
    Table(String, u64),
    Unfinished(&'static str),
}

impl Prune {
    pub(super) fn new(running: Running, listing: Listing, keep: usize) -> Self {
        Self {
            running,
            listing,
            keep: keep.max(1),
            waiting: None,
            pruned: Pruned::default(),
        }
    }

    /// What was removed until now.
    #[must_use]
    pub fn progress(&self) -> &Pruned {
        &self.pruned
    }

    /// Does some of the work. Returns whether that was the end. After an error it must not be called
    /// again. Blocks.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] and [`BackupError::Newer`] if it cannot read what the others need:
    /// nothing was removed then. [`BackupError::TakenForDead`], those of the target: what was removed
    /// until then is gone, and no backup that is listed lacks anything.
    pub fn step(&mut self) -> Result<bool, BackupError> {
        let stepped = self.try_step();
        if stepped.is_err()
            && let Err(error) = self.running.end()
        {
            tracing::debug!(%error, "could not take the note of a pruning back");
        }
        stepped
    }

    /// Ends before the end.
    ///
    /// # Errors
    /// Those of the target.
    pub fn give_up(self) -> Result<(), BackupError> {
        self.running.end()
    }

    fn try_step(&mut self) -> Result<bool, BackupError> {
        let Some(waiting) = &mut self.waiting else {
            self.waiting = Some(self.plan()?);
            return Ok(false);
        };
        let Some(next) = waiting.pop_front() else {
            self.running.end()?;
            return Ok(true);
        };
        self.running.refresh()?;
        self.running.check_noted()?;
        let target = &*self.running.target;
        match next {
            Removal::Backup(id) => {
                remove(target, &layout::backup(&id))?;
                self.pruned.backups.push(id);
            }
            Removal::Node(name) => remove(target, &name)?,
            Removal::Table(name, bytes) => {
                remove(target, &name)?;
                self.pruned.tables += 1;
                self.pruned.bytes += bytes;
            }
            Removal::Unfinished(folder) => {
                let removed = target.remove_unfinished(folder);
                removed.map_err(|error| BackupError::target("clean", folder, error))?;
            }
        }
        Ok(false)
    }

    fn plan(&self) -> Result<VecDeque<Removal>, BackupError> {
        let target = &*self.running.target;
        let backups = &self.listing.backups;
        let (kept, gone) = backups.split_at(self.keep.min(backups.len()));
        let mut needed_nodes = BTreeSet::new();
        let mut needed_tables = BTreeSet::new();
        let mut need = |name: String, node: NodeContents| {
            needed_nodes.insert(name);
            let tables = node.tables.iter().map(|table| layout::table(&table.sha256));
            needed_tables.extend(tables);
        };
        for backup in kept {
            self.running.refresh()?;
            for (name, node) in read_nodes(target, backup)? {
                need(name, node);
            }
        }
        let nodes = list(target, layout::NODES)?;
        let is_unreadable = |name: &str| {
            let id = id_of(layout::NODES, name);
            id.is_some_and(|id| self.listing.unreadable.iter().any(|of| of.id == id))
        };
        // Somebody may still make it readable.
        for name in nodes.iter().filter(|name| is_unreadable(name)) {
            if let Some(node) = get(target, name)? {
                need(name.clone(), node);
            }
        }
        let tables = target.list(layout::TABLES);
        let tables = tables.map_err(|error| BackupError::target("list", layout::TABLES, error))?;
        let gone = gone.iter().map(|backup| Removal::Backup(backup.id.clone()));
        let nodes = nodes.into_iter().filter(|it| !needed_nodes.contains(it));
        let tables = tables.into_iter();
        let tables = tables.filter(|table| !needed_tables.contains(&table.name));
        // Those that note themselves are refused now, so nothing of them is lost that counts.
        let folders = [
            layout::TABLES,
            layout::NODES,
            layout::BACKUPS,
            layout::RUNNING,
        ];
        Ok(gone
            .chain(nodes.map(Removal::Node))
            .chain(tables.map(|table| Removal::Table(table.name, table.bytes)))
            .chain(folders.map(Removal::Unfinished))
            .collect())
    }
}
