//! How far a store has come, in numbers that every edit of the manifest names anew.

use crate::table_id::TableId;
use base::{ByteReader, Timestamp};

/// Segments are numbered from 1, and no store lives long enough to reach this
/// number: the next one always exists.
const LOG_SEGMENT_MAX: u64 = u64::MAX / 2;

/// The same for tables.
const TABLE_MAX: TableId = TableId(u64::MAX / 2);

/// What the log holds for certain, however the last run ended. It covers the end of the
/// log, which the log's own groups do not cover (see [`crate::wal`]).
///
/// Of two claims of a store, the later one is the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogClaim {
    /// The file of this segment exists, and all live segments before it are sealed. 0
    /// before the store has its first segment.
    pub(crate) segment: u64,
    /// The number of bytes of the segment, its header and whole groups, that are durable;
    /// 0 if that is unknown.
    pub(crate) bytes: u64,
}

/// How far a store has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The number of the next table. All tables have lower numbers.
    pub(crate) next_table: TableId,
    /// The records of all log segments below this number are in tables.
    pub(crate) least_log_segment: u64,
    /// What the log holds for certain.
    pub(crate) log_claim: LogClaim,
    /// The greatest timestamp that any table has or had.
    pub(crate) greatest_timestamp: Timestamp,
    /// How many records were committed that are in no live log segment: those of the
    /// segments below `least_log_segment`, and those that were ingested.
    pub(crate) records_before: u64,
}

impl Progress {
    /// That of a store that holds nothing.
    pub(crate) const NEW: Self = Self {
        next_table: TableId(1),
        least_log_segment: 1,
        log_claim: LogClaim {
            segment: 0,
            bytes: 0,
        },
        greatest_timestamp: Timestamp::ZERO,
        records_before: 0,
    };

    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        for number in [
            self.next_table.0,
            self.least_log_segment,
            self.log_claim.segment,
            self.log_claim.bytes,
            self.greatest_timestamp.as_u64(),
            self.records_before,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn take(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            next_table: TableId(reader.u64()?),
            least_log_segment: reader.u64()?,
            log_claim: LogClaim {
                segment: reader.u64()?,
                bytes: reader.u64()?,
            },
            greatest_timestamp: Timestamp::from_u64(reader.u64()?),
            records_before: reader.u64()?,
        })
    }

    /// Checks that a store, with or without tables, may have come so far.
    pub(super) fn check(&self, has_tables: bool) -> Result<(), String> {
        if self.next_table > TABLE_MAX {
            return Err(format!("there is no table {}", self.next_table.0));
        }
        let least = self.least_log_segment;
        if !(1..=LOG_SEGMENT_MAX).contains(&least) {
            return Err(format!("there is no log segment {least}"));
        }
        let is_new = least == 1 && !has_tables && self.log_claim == LogClaim::default();
        let claimed = self.log_claim.segment;
        if !(least..=LOG_SEGMENT_MAX).contains(&claimed) && !is_new {
            return Err(format!("a claim for log segment {claimed}"));
        }
        Ok(())
    }

    /// Whether a number that only grows is less than that of another one.
    pub(super) fn is_behind(&self, other: &Self) -> bool {
        self.next_table < other.next_table
            || self.least_log_segment < other.least_log_segment
            || self.log_claim < other.log_claim
            || self.records_before < other.records_before
    }
}
