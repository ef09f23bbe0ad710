//! Which parts of tables are set aside, and how an edit changes that.

use super::edit::TableEdit;
use super::read_state::ReadState;
use super::tables::Tables;
use crate::manifest::{LiveTable, SetAsidePart, kept_tables};
use crate::table::Table;
use crate::table_id::TableId;
use base::Timestamp;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Of which keys what the store holds is set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAsideKeys {
    /// Of all.
    All,
    /// Of those in damaged ranges for which that was not done yet.
    Damaged,
}

/// The edit that sets aside what lies in the tables below a timestamp.
pub(super) fn edit_of(state: &ReadState, below: Timestamp, keys: SetAsideKeys) -> TableEdit {
    let mut edit = TableEdit::default();
    // One that did not open can show nothing; what it may have held is damaged.
    let tables = state.tables.iter().map(|(_, table)| table);
    let tables =
        tables.filter(|table| !table.is_lost() && table.properties().least_timestamp < below);
    match keys {
        SetAsideKeys::All => {
            for table in tables {
                let properties = table.properties();
                edit.set_aside.push(part_of(
                    table,
                    below,
                    (&properties.least_key, &properties.greatest_key),
                ));
                if properties.greatest_timestamp < below {
                    edit.removed.push(table.id());
                }
            }
        }
        SetAsideKeys::Damaged => {
            edit.sets_damage_aside = true;
            let damaged = state.damaged.iter().map(|noted| &noted.range);
            let damaged: Vec<_> = damaged.filter(|range| !range.is_set_aside).collect();
            for table in tables {
                let properties = table.properties();
                for range in &damaged {
                    let first = range.first_key.as_ref().max(&*properties.least_key);
                    let last = &*properties.greatest_key;
                    let last = range.last_key.as_ref().map_or(last, |key| last.min(key));
                    if first <= last {
                        edit.set_aside.push(part_of(table, below, (first, last)));
                    }
                }
            }
        }
    }
    edit
}

fn part_of(table: &Table, below: Timestamp, (first, last): (&[u8], &[u8])) -> SetAsidePart {
    SetAsidePart {
        table: table.id(),
        file_bytes: table.file_bytes(),
        versions: table.properties().entries,
        below,
        is_kept: true,
        first_key: Bytes::copy_from_slice(first),
        last_key: Bytes::copy_from_slice(last),
    }
}

/// The parts that are set aside after an edit, and those of tables that are neither live nor
/// kept any more.
pub(super) fn after(
    edit: &TableEdit,
    state: &ReadState,
    is_live: impl Fn(TableId) -> bool,
) -> Arc<[SetAsidePart]> {
    let changes = !edit.set_aside.is_empty() || edit.discarded.is_some();
    let is_removed = |part: &SetAsidePart| edit.removed.contains(&part.table);
    if !changes && !state.set_aside.iter().any(is_removed) {
        return Arc::clone(&state.set_aside);
    }
    // Of two equal parts the one that reaches higher includes the other.
    let mut parts: BTreeMap<_, SetAsidePart> = BTreeMap::new();
    for part in state.set_aside.iter().chain(&edit.set_aside) {
        let mut part = part.clone();
        part.is_kept &= edit.discarded.is_none_or(|up_to| part.below > up_to);
        let keys = (part.first_key.clone(), part.last_key.clone());
        let known = parts.entry((part.table, part.is_kept, keys));
        let known = known.or_insert_with(|| part.clone());
        known.below = known.below.max(part.below);
    }
    let mut parts: Vec<_> = parts.into_values().collect();
    let kept = kept_tables(&parts);
    parts.retain(|part| is_live(part.table) || kept.contains(&part.table));
    if *parts == *state.set_aside {
        return Arc::clone(&state.set_aside);
    }
    parts.into()
}

/// The files that an edit has made useless: those of tables that were live or kept before it,
/// and are neither after it; of the latter the lengths, too. `live` are those that are live then.
pub(super) fn useless_files(
    edit: &TableEdit,
    before: &ReadState,
    after: &ReadState,
    live: &BTreeMap<TableId, LiveTable>,
) -> (BTreeSet<TableId>, Vec<(TableId, u64)>) {
    let kept = kept_tables(&after.set_aside);
    let removed = edit.removed.iter().copied();
    let removed = removed.filter(|table| !kept.contains(table)).collect();
    let mut discarded = BTreeMap::new();
    if edit.discarded.is_some() {
        let parts = before.set_aside.iter().filter(|part| part.is_kept);
        discarded.extend(parts.map(|part| (part.table, part.file_bytes)));
        discarded.retain(|table, _| !kept.contains(table) && !live.contains_key(table));
    }
    (removed, discarded.into_iter().collect())
}

/// Tells tables what of them is set aside.
pub(crate) fn tell_tables(tables: &Tables, parts: &[SetAsidePart]) {
    let mut of_table: BTreeMap<TableId, Vec<SetAsidePart>> = BTreeMap::new();
    for part in parts {
        of_table.entry(part.table).or_default().push(part.clone());
    }
    for (_, table) in tables.iter() {
        if let Some(parts) = of_table.remove(&table.id()) {
            table.set_aside(parts);
        }
    }
}
