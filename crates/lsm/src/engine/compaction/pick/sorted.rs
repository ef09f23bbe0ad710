//! Choosing tables of a level other than 0, to be merged with what they overlap below.
//!
//! Tables have their turn by key. Neighbours go down together as long as that makes it cheaper:
//! they share the tables that they overlap at their ends.
//!
//! RocksDB (`kMinOverlappingRatio`) and pebble (`pickCompactionSeedFile`) look at all tables for
//! the one that overlaps least for its bytes. In the simulation that writes between 1% less and
//! 3% more than turns do, because outputs end where the tables below them end
//! ([`cuts`](super::cuts)), and a table whose turn comes is the one that has gathered the most.

use super::busy::Busy;
use super::choice::{Pick, PickSettings, Reason};
use super::cuts::Cuts;
use super::targets::Targets;
use crate::engine::table_set::{Levels, TableSummary};
use bytes::Bytes;
use std::sync::Arc;

/// How many tables of the level a choice tries if those in turn are too large.
const LOOKS: usize = 256;

/// How many neighbours it takes.
const NEIGHBOURS: usize = 32;

/// Tables that follow each other, and what they overlap.
#[derive(Clone, Copy)]
struct Choice<'a> {
    first: &'a Arc<TableSummary>,
    last: &'a Arc<TableSummary>,
    bytes: u64,
    below_bytes: u64,
}

impl Choice<'_> {
    fn all_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.below_bytes)
    }

    /// How many bytes are rewritten for each that goes down.
    fn amplification(&self) -> f64 {
        self.below_bytes as f64 / self.bytes.max(1) as f64
    }
}

/// The tables of a level to be merged next. What does not fit the room is returned if nothing
/// else is found.
pub(super) fn pick_sorted(
    levels: &Levels,
    level: usize,
    targets: &Targets,
    cursor: Option<&Bytes>,
    settings: &PickSettings,
    busy: &Busy,
) -> Option<Pick> {
    let output_level = targets.base.max(level + 1);
    let bytes_max = settings.room_bytes.min(settings.input_bytes_max);
    let target = match level {
        _ if level < targets.base => 0,
        _ => targets.of(level),
    };
    let excess = busy.bytes_left(levels, level).saturating_sub(target);
    let looks = LOOKS.min(levels.len_of(level));
    let in_turn = levels.after(level, cursor).chain(levels.after(level, None));
    let mut too_large = None;
    let mut fitting = None;
    for first in in_turn.take(looks).filter(|table| !busy.reads(table)) {
        let choice = neighbours(levels, level, output_level, first, bytes_max, excess);
        let (least_key, greatest_key) = (&first.least_key, &choice.last.greatest_key);
        let taken = levels.between(level, least_key, greatest_key);
        let below = levels.between(output_level, least_key, greatest_key);
        if !busy.is_free(output_level, taken.chain(below)) {
            continue;
        }
        if choice.all_bytes() <= bytes_max {
            fitting = Some(choice);
            break;
        }
        too_large.get_or_insert(choice);
    }
    let choice = fitting.or(too_large)?;
    let (least_key, greatest_key) = (&choice.first.least_key, &choice.last.greatest_key);
    let taken = levels.between(level, least_key, greatest_key);
    let mut inputs: Vec<_> = taken.map(|table| (level, table.id)).collect();
    let below = levels.between(output_level, least_key, greatest_key);
    let below: Vec<_> = below.map(|table| (output_level, table.id)).collect();
    if choice.all_bytes() > settings.input_bytes_max && inputs.len() == 1 && below.len() > 1 {
        return Some(Pick::rewrite(level, choice.first.id, Reason::Wide));
    }
    inputs.extend(below);
    Some(Pick {
        inputs,
        output_level,
        reason: if level < targets.base {
            Reason::LevelLeftOver
        } else {
            Reason::LevelSize
        },
        cursor: Some((level, greatest_key.clone())),
        cuts: Cuts::default(),
    })
}

/// A table, with those that follow it as long as each makes it cheaper, as the level has
/// `excess` bytes too many, and as all that is merged has no more than `bytes_max`.
fn neighbours<'a>(
    levels: &'a Levels,
    level: usize,
    output_level: usize,
    first: &'a Arc<TableSummary>,
    bytes_max: u64,
    excess: u64,
) -> Choice<'a> {
    let key = &first.least_key;
    let below = levels.between(output_level, key, key);
    let mut below = below
        .chain(levels.after(output_level, Some(key)))
        .peekable();
    let mut below_bytes = |last: &TableSummary| {
        let mut bytes = 0;
        while let Some(other) = below.next_if(|other| other.least_key <= last.greatest_key) {
            bytes += other.bytes;
        }
        bytes
    };
    let mut choice = Choice {
        first,
        last: first,
        bytes: first.bytes,
        below_bytes: below_bytes(first),
    };
    for last in levels.after(level, Some(key)).take(NEIGHBOURS - 1) {
        if choice.bytes >= excess {
            break;
        }
        let more = Choice {
            last,
            bytes: choice.bytes + last.bytes,
            below_bytes: choice.below_bytes + below_bytes(last),
            ..choice
        };
        if more.all_bytes() > bytes_max || more.amplification() > choice.amplification() {
            break;
        }
        choice = more;
    }
    choice
}
