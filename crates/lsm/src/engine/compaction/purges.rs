//! When a table is rewritten for a few tombstones below the drop bound.
//!
//! A table of which half are such tombstones is picked at once. One that holds fewer
//! waits: the drop bound rises all the time on a node alone, and a table with a
//! tombstone in a thousand entries must not be rewritten for each. It has its turn
//! after a day, or after a week if its tombstones are few. Most of these turns are
//! never needed, because the ordinary compactions come first. So each table is
//! rewritten at most once in that time for this, and a tombstone leaves the disk at
//! the latest a week after the drop bound has passed it and it was flushed, while the
//! process runs. A restart begins the wait anew.

use super::merging::Replaced;
use super::pick::{Pick, PickSettings, Reason, pick_purge, summarize};
use crate::engine::core::Core;
use crate::table_id::TableId;
use base::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A table waits for the shorter time if one entry in this many is a tombstone.
const MANY_DIVISOR: u64 = 16;

/// How long a table waits that holds many tombstones.
const MANY_WAIT: Duration = Duration::from_secs(86_400);

/// How long a table waits that holds few.
const FEW_WAIT: Duration = Duration::from_secs(7 * 86_400);

/// The tables with tombstones, and since when each waits.
#[derive(Default)]
pub(super) struct Purges {
    waiting: BTreeMap<TableId, Waiting>,
    /// The drop bound of the last pick.
    drop_bound: Timestamp,
}

struct Waiting {
    since: Duration,
    /// Below it the table holds no tombstone that could go.
    purged_below: Timestamp,
}

impl Purges {
    /// What is due, if there is room for it.
    pub(super) fn pick(
        &mut self,
        core: &Core,
        settings: &PickSettings,
        drop_bound: Timestamp,
    ) -> Option<Pick> {
        if drop_bound == Timestamp::ZERO {
            return None;
        }
        self.drop_bound = drop_bound;
        let now = core.now();
        let levels = summarize(&core.tables.load().tables);
        let may_hold = levels.iter().flatten().filter(|table| {
            table.tombstones > 0 && table.least_timestamp < drop_bound && !table.is_damaged
        });
        let mut due = BTreeSet::new();
        let mut waiting = BTreeMap::new();
        for table in may_hold {
            let known = self.waiting.remove(&table.id);
            let known = known.unwrap_or(Waiting {
                since: now,
                purged_below: Timestamp::ZERO,
            });
            let wait = match table.tombstones >= table.entries.div_ceil(MANY_DIVISOR) {
                true => MANY_WAIT,
                false => FEW_WAIT,
            };
            if now.saturating_sub(known.since) >= wait && known.purged_below < drop_bound {
                due.insert(table.id);
            }
            waiting.insert(table.id, known);
        }
        self.waiting = waiting;
        pick_purge(&levels, &due, drop_bound, settings)
    }

    /// Notes what a compaction has replaced. What it has pushed down waits as long as
    /// it has waited already.
    pub(super) fn note_replaced(&mut self, replaced: &Replaced, now: Duration) {
        let inputs = replaced.pick.inputs.iter();
        let waited = inputs.filter_map(|(_, id)| self.waiting.remove(id));
        let since = waited.map(|waiting| waiting.since).min().unwrap_or(now);
        let (since, purged_below) = match replaced.pick.reason {
            Reason::Purge => (now, self.drop_bound),
            Reason::PushDown => (since, Timestamp::ZERO),
            _ => return,
        };
        for (output, _) in &replaced.outputs {
            let waiting = Waiting {
                since,
                purged_below,
            };
            self.waiting.insert(*output, waiting);
        }
    }
}
