//! An edit of the manifest: what changes, and how a manifest becomes the next one.

use super::damaged::{DamagedRange, check_damaged};
use super::encoding::{put_list, take_list};
use super::progress::Progress;
use super::set_aside::{SetAsidePart, check_set_aside, kept_tables};
use super::snapshot::Manifest;
use super::table::LiveTable;
use crate::table_id::TableId;
use base::ByteReader;
use std::collections::BTreeSet;

/// A change of the manifest, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestEdit {
    /// How far the store has come.
    pub(crate) progress: Progress,
    /// The live tables that go.
    pub(crate) removed: BTreeSet<TableId>,
    /// The tables that come, and live ones with their new levels.
    pub(crate) tables: Vec<LiveTable>,
    /// The damaged ranges, unless they are those before without the ranges of tables that go.
    pub(crate) damaged: Option<Vec<DamagedRange>>,
    /// What is set aside, unless it is that before without the parts of tables that go and of
    /// which none is kept.
    pub(crate) set_aside: Option<Vec<SetAsidePart>>,
}

impl ManifestEdit {
    /// An edit that only names how far the store has come.
    pub(crate) fn of_progress(progress: Progress) -> Self {
        Self {
            progress,
            removed: BTreeSet::new(),
            tables: Vec::new(),
            damaged: None,
            set_aside: None,
        }
    }

    /// Has the edit leave these damaged ranges and parts set aside. It has to name all tables
    /// before.
    pub(crate) fn leave<'a>(
        &mut self,
        before: &Manifest,
        damaged: impl Iterator<Item = &'a DamagedRange> + Clone,
        set_aside: &[SetAsidePart],
    ) {
        if !self.remaining_damage(before).eq(damaged.clone()) {
            self.damaged = Some(damaged.cloned().collect());
        }
        if !self.remaining_parts(before).eq(set_aside) {
            self.set_aside = Some(set_aside.to_vec());
        }
    }

    fn remaining_damage<'a>(
        &'a self,
        before: &'a Manifest,
    ) -> impl Iterator<Item = &'a DamagedRange> {
        let ranges = before.damaged.iter();
        ranges.filter(|range| !self.removed.contains(&range.table))
    }

    fn remaining_parts<'a>(
        &'a self,
        before: &'a Manifest,
    ) -> impl Iterator<Item = &'a SetAsidePart> {
        let kept = kept_tables(&before.set_aside);
        let is_live = |id| before.tables.contains_key(&id) && !self.removed.contains(&id);
        let parts = before.set_aside.iter();
        parts.filter(move |part| is_live(part.table) || kept.contains(&part.table))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.progress.put(&mut bytes);
        put_list(&mut bytes, &self.removed, |id, bytes| {
            bytes.extend_from_slice(&id.0.to_le_bytes());
        });
        put_list(&mut bytes, &self.tables, LiveTable::put);
        bytes.push(u8::from(self.damaged.is_some()));
        if let Some(damaged) = &self.damaged {
            put_list(&mut bytes, damaged, DamagedRange::put);
        }
        bytes.push(u8::from(self.set_aside.is_some()));
        if let Some(set_aside) = &self.set_aside {
            put_list(&mut bytes, set_aside, SetAsidePart::put);
        }
        bytes
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = ByteReader::new(payload);
        let progress = Progress::take(&mut reader)?;
        let removed = take_list(&mut reader, |reader| reader.u64().map(TableId))?;
        if !removed.is_sorted_by(|left, right| left < right) {
            return None;
        }
        let edit = Self {
            progress,
            removed: removed.into_iter().collect(),
            tables: take_list(&mut reader, LiveTable::take)?,
            damaged: match reader.u8()? {
                0 => None,
                1 => Some(take_list(&mut reader, DamagedRange::take)?),
                _ => return None,
            },
            set_aside: match reader.u8()? {
                0 => None,
                1 => Some(take_list(&mut reader, SetAsidePart::take)?),
                _ => return None,
            },
        };
        reader.rest().is_empty().then_some(edit)
    }

    /// Checks that the edit fits a manifest.
    ///
    /// # Errors
    /// What does not fit.
    pub(super) fn check(&self, before: &Manifest) -> Result<(), String> {
        if self.progress.is_behind(&before.progress) {
            return Err("the edit goes back".to_owned());
        }
        let left = before.tables.len().saturating_sub(self.removed.len());
        self.progress.check(left + self.tables.len() > 0)?;
        let is_live = |id: &TableId| before.tables.contains_key(id);
        if let Some(id) = self.removed.iter().find(|id| !is_live(id)) {
            return Err(format!("table {} is removed and not live", id.0));
        }
        let mut named = BTreeSet::new();
        for table in &self.tables {
            table.check(self.progress.next_table)?;
            let id = table.id;
            let is_other =
                |known: &LiveTable| (known.bytes, &known.keys) != (table.bytes, &table.keys);
            let is_changed = before.tables.get(&id).is_some_and(is_other);
            if is_changed || !named.insert(id) || self.removed.contains(&id) {
                return Err(format!("table {} is there twice", id.0));
            }
        }
        let is_live =
            |id: TableId| named.contains(&id) || is_live(&id) && !self.removed.contains(&id);
        if let Some(damaged) = &self.damaged {
            check_damaged(damaged, is_live)?;
        }
        if let Some(parts) = &self.set_aside {
            check_set_aside(parts, is_live, self.progress.next_table)?;
        }
        Ok(())
    }

    /// Makes a manifest that the edit fits the next one.
    pub(super) fn apply(self, manifest: &mut Manifest) {
        if !manifest.damaged.is_empty() || self.damaged.is_some() {
            let remaining = self.remaining_damage(manifest).cloned().collect();
            manifest.damaged = self.damaged.clone().unwrap_or(remaining);
        }
        if !manifest.set_aside.is_empty() || self.set_aside.is_some() {
            let remaining = self.remaining_parts(manifest).cloned().collect();
            manifest.set_aside = self.set_aside.clone().unwrap_or(remaining);
        }
        for id in &self.removed {
            manifest.tables.remove(id);
        }
        let tables = self.tables.into_iter().map(|table| (table.id, table));
        manifest.tables.extend(tables);
        manifest.progress = self.progress;
    }
}
