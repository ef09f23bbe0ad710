//! The damaged ranges of a read state: what the engine has noted of damaged parts of
//! tables, bounded in number.

use crate::manifest::DamagedRange;

/// The most ranges of a table. Those that lie closest together become one.
const RANGES_MAX: usize = 16;

/// A damaged range as it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotedRange {
    /// Ranges are numbered as they are noted, anew with each start.
    pub(crate) number: u64,
    /// The range.
    pub(crate) range: DamagedRange,
}

/// Adds a range. One that is known already changes nothing.
pub(super) fn add(ranges: &mut Vec<NotedRange>, new: NotedRange) {
    let table = new.range.table;
    let (mut own, others): (Vec<_>, Vec<_>) = std::mem::take(ranges)
        .into_iter()
        .partition(|noted| noted.range.table == table);
    *ranges = others;
    let is_known = |noted: &NotedRange| {
        let (known, new) = (&noted.range.bytes, &new.range.bytes);
        known.start <= new.start && new.end <= known.end
    };
    if !own.iter().any(is_known) {
        own.push(new);
        own.sort_by_key(|noted| noted.range.bytes.start);
        join_neighbours(&mut own);
    }
    ranges.extend(own);
}

/// Joins the ranges of a table that touch, and more of them if there are too many. They
/// come in the order of their bytes.
fn join_neighbours(ranges: &mut Vec<NotedRange>) {
    loop {
        let gaps = ranges.windows(2).map(|pair| match pair {
            [left, right] => {
                let (left, right) = (&left.range.bytes, &right.range.bytes);
                right.start.saturating_sub(left.end)
            }
            _ => u64::MAX,
        });
        let least = gaps.enumerate().min_by_key(|(_, gap)| *gap);
        let Some((index, gap)) = least else { return };
        if gap > 0 && ranges.len() <= RANGES_MAX {
            return;
        }
        let right = ranges.remove(index + 1);
        if let Some(left) = ranges.get_mut(index) {
            left.join(right);
        }
    }
}

impl NotedRange {
    /// Makes this range include another one of its table. What was compared or set aside of
    /// either does not count any more.
    fn join(&mut self, other: Self) {
        self.number = self.number.max(other.number);
        let (own, other) = (&mut self.range, other.range);
        own.is_set_aside &= other.is_set_aside;
        own.bytes = own.bytes.start.min(other.bytes.start)..own.bytes.end.max(other.bytes.end);
        if other.first_key < own.first_key {
            own.first_key = other.first_key;
        }
        own.last_key = match (own.last_key.take(), other.last_key) {
            (Some(left), Some(right)) => Some(left.max(right)),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_id::TableId;
    use bytes::Bytes;

    fn noted(number: u64, table: u64, bytes: std::ops::Range<u64>) -> NotedRange {
        let key = |byte: u64| Bytes::from(format!("{byte:04}"));
        NotedRange {
            number,
            range: DamagedRange {
                table: TableId(table),
                first_key: key(bytes.start),
                last_key: Some(key(bytes.end)),
                is_set_aside: false,
                bytes,
            },
        }
    }

    fn added(all: &[NotedRange]) -> Vec<NotedRange> {
        let mut ranges = Vec::new();
        for new in all {
            add(&mut ranges, new.clone());
        }
        ranges
    }

    #[test]
    fn ranges_that_touch_become_one_and_count_as_noted_last() {
        let both = added(&[noted(1, 7, 10..20), noted(2, 7, 20..30)]);
        assert_eq!(both, [noted(2, 7, 10..30)]);
        let both = added(&[noted(1, 7, 20..30), noted(2, 7, 5..25)]);
        assert_eq!(both, [noted(2, 7, 5..30)]);
        let apart = [noted(1, 7, 10..20), noted(2, 7, 21..30)];
        assert_eq!(added(&apart), apart);
        let of_two_tables = [noted(1, 7, 10..20), noted(2, 8, 20..30)];
        assert_eq!(added(&of_two_tables), of_two_tables);
    }

    #[test]
    fn a_range_that_is_known_is_not_noted_again() {
        let known = added(&[noted(1, 7, 10..30), noted(2, 7, 15..20)]);
        assert_eq!(known, [noted(1, 7, 10..30)]);
    }

    #[test]
    fn a_table_has_a_bounded_number_of_ranges() {
        let mut all: Vec<_> = (0..RANGES_MAX as u64)
            .map(|number| noted(number, 7, number * 100..number * 100 + 10))
            .collect();
        all.push(noted(99, 7, 515..520));
        let ranges = added(&all);
        assert_eq!(ranges.len(), RANGES_MAX);
        assert!(ranges.contains(&noted(99, 7, 500..520)), "{ranges:?}");
    }

    #[test]
    fn the_end_of_the_key_space_stays_the_end() {
        let mut all = noted(1, 7, 0..10);
        all.range.last_key = None;
        let ranges = added(&[all, noted(2, 7, 10..20)]);
        assert!(ranges[0].range.admits(&[0xff; 100]));
        assert!(!ranges[0].range.admits(b""));
    }
}
