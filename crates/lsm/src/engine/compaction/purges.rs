//! When a table is rewritten for a few tombstones or non-owned versions below the GC threshold, or
//! for a few values that have expired.
//!
//! A table of which half are such entries is picked at once. One that holds fewer waits: the
//! GC threshold rises all the time on a node alone, and a table with a tombstone in a thousand
//! entries must not be rewritten for each. It has its turn once the bound has passed the
//! oldest of them by [`Options::purge_wait`](crate::Options::purge_wait), or by a part of
//! that if they are many. Most of these turns are never needed, because the ordinary
//! compactions come first.
//!
//! How far the bound is past them the table itself knows, so a restart forgets nothing. A
//! bound that has stopped never gets that far; then it counts how long the table has been
//! here. For non-owned versions nothing else counts: a read may bring one back at any time,
//! and no table is to be rewritten each time for the one that a flush has added.
//!
//! A purge leaves nothing below the bound that it was picked for, unless something keeps the
//! tombstones: a snapshot, or an older version in memory. The table then waits anew.

use super::gc_thresholds::GcThresholds;
use super::merging::Replaced;
use super::pick::{Pick, PickSettings, PurgeRule, Reason, Waiting, pick_purge, summarize};
use crate::engine::core::Core;
use crate::table_id::TableId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The tables that wait for their turn.
pub(super) struct Purges {
    /// Those that have ever waited, as long as they live: a snapshot lowers the bounds for a
    /// moment, and no table is to wait anew for that.
    waiting: BTreeMap<TableId, Waiting>,
    /// The GC thresholds of the last purge.
    gc_thresholds: GcThresholds,
}

impl Default for Purges {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            gc_thresholds: GcThresholds::NONE,
        }
    }
}

impl Purges {
    /// What is due, if there is room for it.
    pub(super) fn pick(
        &mut self,
        core: &Core,
        settings: &PickSettings,
        gc_thresholds: GcThresholds,
        expired_before_unix_ms: u64,
    ) -> Option<Pick> {
        let rule = PurgeRule {
            gc_thresholds,
            expired_before_unix_ms,
            wait: core.options.purge_wait,
            now: core.now(),
        };
        let levels = summarize(&core.tables.load().tables);
        let live: BTreeSet<TableId> = levels.iter().flatten().map(|table| table.id).collect();
        self.waiting.retain(|id, _| live.contains(id));
        let mut due = BTreeSet::new();
        for table in levels.iter().flatten().filter(|table| rule.concerns(table)) {
            let known = self.waiting.entry(table.id).or_insert(Waiting {
                since: rule.now,
                purged_below: None,
            });
            if rule.is_due(table, *known) {
                due.insert(table.id);
            }
        }
        let pick = pick_purge(&levels, &due, gc_thresholds.tombstones, settings);
        if pick.is_some() {
            self.gc_thresholds = gc_thresholds;
        }
        pick
    }

    /// Notes what a compaction has replaced. What it has pushed down waits as long as
    /// it has waited already.
    pub(super) fn note_replaced(&mut self, replaced: &Replaced, now: Duration) {
        let inputs = replaced.pick.inputs.iter();
        let waited = inputs.filter_map(|(_, id)| self.waiting.remove(id));
        let since = waited.map(|waiting| waiting.since).min().unwrap_or(now);
        let waiting = match replaced.pick.reason {
            Reason::Purge => Waiting {
                since: now,
                purged_below: Some(self.gc_thresholds),
            },
            Reason::PushDown => Waiting {
                since,
                purged_below: None,
            },
            _ => return,
        };
        for (output, _) in &replaced.outputs {
            self.waiting.insert(*output, waiting);
        }
    }
}
