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
//! No choice looks at all tables. A table is looked at when it is new, and again each time that
//! the clocks have advanced by a small part of the wait: a bounded number of times, however many
//! choices there are. Those that were due then are tried, the deepest first.
//!
//! A purge leaves nothing below the bound that it was picked for, unless something keeps the
//! tombstones: a snapshot, or an older version in memory. The table then waits anew.

use super::gc_thresholds::GcThresholds;
use super::merging::Replaced;
use super::pick::{Pick, PickSettings, PurgeRule, Reason, Waiting, pick_purge};
use crate::engine::core::Core;
use crate::engine::table_set::{Levels, TableSummary};
use crate::manifest::LEVELS;
use crate::table_id::TableId;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A table is looked at again once the clocks have advanced by this part of the time that it may
/// have to wait, each of them counted. So that is how late a purge may be.
const LOOKS_DIVISOR: u32 = 128;

/// How many tables that are due a choice looks at.
const DUE_LOOKS: usize = 256;

/// The tables that wait for their turn.
pub(super) struct Purges {
    /// Those that have ever waited, as long as they live: a snapshot lowers the bounds for a
    /// moment, and no table is to wait anew for that.
    waiting: BTreeMap<TableId, Waiting>,
    /// Those that were due when they were looked at last, each after the number of levels below.
    due: BTreeSet<(usize, TableId)>,
    /// How far the clocks had come.
    clocks: Clocks,
    /// The GC thresholds of the last purge.
    gc_thresholds: GcThresholds,
}

/// How far the clocks have ever come that decide about purges, in milliseconds.
#[derive(Default)]
struct Clocks([u64; 4]);

impl Clocks {
    /// Takes note of the clocks. Returns their sum, which never falls, and advances by no less
    /// than each of them.
    fn advance(&mut self, rule: &PurgeRule) -> u64 {
        let now = [
            rule.now.as_millis() as u64,
            rule.gc_thresholds.tombstones.unix_ms(),
            rule.gc_thresholds.non_owned.unix_ms(),
            rule.expired_before_unix_ms,
        ];
        for (clock, now) in self.0.iter_mut().zip(now) {
            *clock = now.max(*clock);
        }
        self.0
            .iter()
            .fold(0, |sum, clock| sum.saturating_add(*clock))
    }
}

impl Default for Purges {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            clocks: Clocks::default(),
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
        self.pick_by(&rule, &mut core.tables.summaries(), settings)
    }

    fn pick_by(
        &mut self,
        rule: &PurgeRule,
        levels: &mut Levels,
        settings: &PickSettings,
    ) -> Option<Pick> {
        if rule.gc_thresholds == GcThresholds::NONE && rule.expired_before_unix_ms == 0 {
            return None;
        }
        self.look(rule, levels);
        self.forget_removed(levels);
        let mut due = Vec::new();
        let mut not_due = Vec::new();
        for place in self.due.iter().take(DUE_LOOKS) {
            match levels.get(place.1) {
                Some((level, table)) if LEVELS - level == place.0 && self.is_due(rule, table) => {
                    due.push((level, table));
                }
                _ => not_due.push(*place),
            }
        }
        let bound = rule.gc_thresholds.tombstones;
        let pick = pick_purge(levels, due.into_iter(), bound, settings);
        for place in not_due {
            self.due.remove(&place);
        }
        if pick.is_some() {
            self.gc_thresholds = rule.gc_thresholds;
        }
        pick
    }

    /// Looks at the tables whose turn has come.
    fn look(&mut self, rule: &PurgeRule, levels: &mut Levels) {
        let clocks = self.clocks.advance(rule);
        let pause = (rule.wait / LOOKS_DIVISOR).as_millis() as u64;
        let turns = levels.take_turns(clocks, clocks.saturating_add(pause.max(1)));
        for table in turns.iter().filter(|table| rule.concerns(table)) {
            self.waiting.entry(table.id).or_insert(Waiting {
                since: rule.now,
                purged_below: None,
            });
            if self.is_due(rule, table)
                && let Some((level, _)) = levels.get(table.id)
            {
                self.due.insert((LEVELS - level, table.id));
            }
        }
    }

    fn is_due(&self, rule: &PurgeRule, table: &TableSummary) -> bool {
        let waiting = self.waiting.get(&table.id);
        rule.concerns(table) && waiting.is_some_and(|waiting| rule.is_due(table, *waiting))
    }

    /// Forgets the tables that are gone, once they are the most.
    fn forget_removed(&mut self, levels: &Levels) {
        if self.waiting.len() > 2 * levels.len() + 16 {
            self.waiting.retain(|id, _| levels.get(*id).is_some());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compaction::pick::tests::table;
    use crate::table::tests::touched::looks;
    use base::Timestamp;

    const MINUTE_MS: u64 = 60_000;
    const DAY_MS: u64 = 1440 * MINUTE_MS;

    const SETTINGS: PickSettings = PickSettings {
        level_zero_tables: 4,
        base_bytes: 100,
        table_bytes: 100,
        input_bytes_max: u64::MAX,
        room_bytes: u64::MAX,
    };

    /// The timestamp of this time after the least one.
    fn at(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(Timestamp::ZERO.unix_ms() + ms)
    }

    /// The rule at this time, which is also that of the bound. What may stay for a week.
    fn rule(ms: u64) -> PurgeRule {
        PurgeRule {
            gc_thresholds: GcThresholds {
                tombstones: at(ms),
                non_owned: Timestamp::ZERO,
            },
            expired_before_unix_ms: 0,
            wait: Duration::from_millis(7 * DAY_MS),
            now: Duration::from_millis(ms),
        }
    }

    /// Tables with a tombstone of this time among 100 entries.
    fn store_of(tables: u64, oldest_ms: u64) -> Levels {
        let mut levels = Levels::default();
        for number in 0..tables {
            let keys = format!("{number}[{number:05}a-{number:05}b]10");
            let summary = TableSummary {
                entries: 100,
                tombstones: 1,
                oldest_tombstone: at(oldest_ms),
                ..table(&keys)
            };
            levels.insert(LEVELS - 1, summary);
        }
        levels
    }

    #[test]
    fn tables_that_wait_are_looked_at_now_and_then() {
        const TABLES: u64 = 100;
        let mut levels = store_of(TABLES, 0);
        let mut purges = Purges::default();
        let mut choose = |minute: u64| {
            let rule = rule(minute * MINUTE_MS);
            let mut pick = None;
            let looks = looks(|| pick = purges.pick_by(&rule, &mut levels, &SETTINGS));
            (looks, pick)
        };
        assert_eq!(choose(1).0, TABLES, "at first each of them");
        assert_eq!(choose(2).0, 0);
        let of_a_day: u64 = (3..1443).map(|minute| choose(minute).0).sum();
        assert!((10 * TABLES..50 * TABLES).contains(&of_a_day), "{of_a_day}");
        // The week is over, and a part of it that is not looked at.
        assert!((1443..10_080).all(|minute| choose(minute).1.is_none()));
        let mut later = (10_080..10_160).map(|minute| choose(minute).1);
        let pick = later.find_map(|pick| pick).unwrap();
        assert_eq!((pick.reason, pick.inputs.len()), (Reason::Purge, 1));
        // Each of them is due, and a choice looks at a bounded number.
        assert!(choose(10_160).0 < 2 * DUE_LOOKS as u64 + 10);
    }

    #[test]
    fn a_clock_that_is_lost_for_a_while_stops_no_other() {
        let mut levels = store_of(1, 0);
        let mut purges = Purges::default();
        let with_expiry = PurgeRule {
            expired_before_unix_ms: 100 * 365 * DAY_MS,
            ..rule(DAY_MS)
        };
        assert_eq!(purges.pick_by(&with_expiry, &mut levels, &SETTINGS), None);
        let due = (1..9).find(|day| {
            let pick = purges.pick_by(&rule(day * DAY_MS), &mut levels, &SETTINGS);
            pick.is_some()
        });
        assert_eq!(due, Some(7));
    }
}
