//! Where the tables that a compaction writes end, besides at their size.
//!
//! A table goes down together with all that it overlaps on the next level. So it ends before it
//! overlaps too much there, however few bytes it has: otherwise a table of a few keys that lie
//! far apart would once drag hundreds of tables with it. And one that is more than half full
//! ends where a table of the next level ends, because one that it overlaps in part would be
//! rewritten whole. Both are taken from RocksDB (`CompactionOutputs::ShouldStopBefore`) and
//! pebble (`OutputSplitter`).

use bytes::Bytes;
use std::iter::Peekable;
use std::vec::IntoIter;

/// The tables on the level below the output, which decide where outputs end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// The first key of each, and its bytes, by their keys.
    pub(super) below: Vec<(Bytes, u64)>,
    /// The size of a full table, in bytes.
    pub(super) table_bytes: u64,
    /// The most bytes that an output overlaps, if it overlaps more than one table.
    pub(super) overlap_max: u64,
}

impl Cuts {
    /// Begins with the first output.
    pub(crate) fn start(self) -> Cutter {
        Cutter {
            below: self.below.into_iter().peekable(),
            table_bytes: self.table_bytes,
            overlap_max: self.overlap_max,
            at_bytes: 0,
            overlapped: 0,
            passed: 0,
        }
    }
}

/// Follows the keys that a compaction writes.
#[derive(Debug)]
pub(crate) struct Cutter {
    /// The tables that begin behind the last key.
    below: Peekable<IntoIter<(Bytes, u64)>>,
    table_bytes: u64,
    overlap_max: u64,
    /// The bytes of the table that the last key lies in or behind.
    at_bytes: u64,
    /// The bytes of the tables that the output overlaps.
    overlapped: u64,
    /// How many of them begin behind its first key.
    passed: u64,
}

impl Cutter {
    /// Takes note of the next key. Returns whether the output ends before it, if there is one,
    /// which has so many bytes.
    pub(crate) fn ends_before(&mut self, key: &[u8], output_bytes: Option<u64>) -> bool {
        let (mut entered, mut passed) = (0, 0);
        while let Some((_, bytes)) = self.below.next_if(|(first, _)| **first <= *key) {
            entered += bytes;
            passed += 1;
            self.at_bytes = bytes;
        }
        if passed == 0 {
            return false;
        }
        // The more of them are passed, the sooner another one begins.
        let nearly_full = self.table_bytes / 100 * (50 + 5 * self.passed.min(8));
        let overlaps_much = self.overlapped + entered > self.overlap_max;
        if output_bytes.is_none_or(|bytes| overlaps_much || bytes >= nearly_full) {
            self.begin();
            return output_bytes.is_some();
        }
        self.overlapped += entered;
        self.passed += passed;
        false
    }

    /// Takes note that an output begins with the last key.
    pub(crate) fn begin(&mut self) {
        self.overlapped = self.at_bytes;
        self.passed = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of 10 bytes that begin at each of these keys.
    fn cutter(below: &[&'static str], overlap_max: u64) -> Cutter {
        let below = below
            .iter()
            .map(|key| (Bytes::from_static(key.as_bytes()), 10));
        let cuts = Cuts {
            below: below.collect(),
            table_bytes: 100,
            overlap_max,
        };
        cuts.start()
    }

    /// Before which keys outputs end whose bytes grow by so many with each key.
    fn ends(mut cutter: Cutter, keys: &str, entry_bytes: u64) -> String {
        let mut ends = String::new();
        let mut output = None;
        for key in keys.chars() {
            let mut is_cut = cutter.ends_before(key.to_string().as_bytes(), output);
            if output.is_some_and(|bytes| bytes >= 100) {
                cutter.begin();
                is_cut = true;
            }
            if is_cut {
                ends.push(key);
                output = None;
            }
            output = Some(output.unwrap_or(0) + entry_bytes);
        }
        ends
    }

    #[test]
    fn an_output_ends_before_it_overlaps_too_much() {
        let below = ["b", "d", "f", "h", "k", "m"];
        assert_eq!(ends(cutter(&below, 1_000), "abcdefghijklmn", 1), "");
        assert_eq!(ends(cutter(&below, 20), "abcdefghijklmn", 1), "fk");
        // What lies between two keys counts for the output that has both.
        assert_eq!(ends(cutter(&below, 30), "aeln", 1), "l");
        // There is nothing to end where one table alone is too much.
        assert_eq!(ends(cutter(&below, 5), "abcdefg", 1), "bdf");
        assert_eq!(ends(cutter(&[], 0), "abcdefg", 1), "");
    }

    #[test]
    fn an_output_that_is_nearly_full_ends_where_the_next_level_has_an_end() {
        // Three keys are 54 bytes, six are more than a table.
        assert_eq!(ends(cutter(&["d"], 1_000), "abcdefgh", 18), "d");
        // After two ends it goes on up to 60 bytes at least.
        assert_eq!(ends(cutter(&["b", "c", "d"], 1_000), "abcdefgh", 18), "g");
        assert_eq!(ends(cutter(&["b", "c", "e"], 1_000), "abcdefgh", 18), "e");
        // Without one it ends when it is full.
        assert_eq!(ends(cutter(&[], 1_000), "abcdefghijklm", 18), "gm");
    }
}
