//! `delimiter=`: one level of a tree of keys, as object stores list it.
//!
//! Of all keys that have the same text up to the first delimiter behind the prefix, a scan tells that
//! text once, as a common prefix. Of a long group it does not read all: at the end of a batch it skips
//! what is left of it, once it has passed over enough that a seek costs less.

use crate::http::query::QueryBytes;
use base::Entry;

/// A group is skipped once so many of its keys were passed over, or so many bytes.
const KEYS_MIN: usize = 64;
const BYTES_MIN: usize = 64 << 10;

/// How keys are grouped.
pub(crate) struct Listing {
    /// How long the prefix is that all keys have.
    prefix_bytes: usize,
    delimiter: QueryBytes,
    /// The common prefix that was told last; empty before the first.
    group: Vec<u8>,
    /// Whether the last entry belongs to it.
    is_in_group: bool,
    /// How many keys of it were passed over since the scan last skipped, and their bytes.
    passed_keys: usize,
    passed_bytes: usize,
}

/// What is told of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// The entity.
    Entity,
    /// The common prefix of its group.
    Prefix(Vec<u8>),
}

/// Where a scan goes on behind a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Continuation {
    /// At the next key.
    Next,
    /// At this key, behind the group.
    SkipTo(Vec<u8>),
    /// Nowhere: no key can follow the group.
    End,
}

impl Listing {
    /// Groups keys by the first `delimiter` behind their first `prefix_bytes` bytes.
    pub(crate) fn new(prefix_bytes: usize, delimiter: QueryBytes) -> Self {
        Self {
            prefix_bytes,
            delimiter,
            group: Vec::new(),
            is_in_group: false,
            passed_keys: 0,
            passed_bytes: 0,
        }
    }

    /// What is told of the next entry by key; `None` if its group was told already, or if it is
    /// dead.
    pub(crate) fn next(&mut self, entry: &Entry, now_unix_ms: u64) -> Option<Listed> {
        let key = entry.key();
        self.is_in_group = !self.group.is_empty() && key.starts_with(&self.group);
        if self.is_in_group {
            self.passed_keys += 1;
            self.passed_bytes += entry.data_bytes();
            return None;
        }
        if !entry.is_live(now_unix_ms) {
            return None;
        }
        let rest = key.get(self.prefix_bytes..).unwrap_or_default();
        let Some(place) = memchr::memmem::find(rest, &self.delimiter) else {
            return Some(Listed::Entity);
        };
        let end = self.prefix_bytes + place + self.delimiter.len();
        self.group = key[..end].to_vec();
        self.is_in_group = true;
        (self.passed_keys, self.passed_bytes) = (0, entry.data_bytes());
        Some(Listed::Prefix(self.group.clone()))
    }

    /// Where the scan goes on behind the entries that it has seen. It skips a group once: a batch
    /// may be empty although more follows, and would skip for ever.
    pub(crate) fn continuation(&mut self) -> Continuation {
        let is_long = self.passed_keys >= KEYS_MIN || self.passed_bytes >= BYTES_MIN;
        if !self.is_in_group || !is_long {
            return Continuation::Next;
        }
        self.is_in_group = false;
        (self.passed_keys, self.passed_bytes) = (0, 0);
        match crate::http::query::keys::end_of_prefix(&self.group) {
            Some(key) => Continuation::SkipTo(key.to_vec()),
            None => Continuation::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Expiry, Timestamp};

    /// What is told of keys, as lines, and where the scan goes on then.
    fn listed(prefix: &[u8], delimiter: &[u8], keys: &[&[u8]]) -> (Vec<String>, Continuation) {
        let mut listing = Listing::new(prefix.len(), QueryBytes::from_slice(delimiter));
        let mut lines = Vec::new();
        for key in keys {
            // A value of each group is as long as what makes a skip worth while.
            let value = vec![b'v'; BYTES_MIN];
            let entry = Entry::value(key, Timestamp::from_u64(9), &value, Expiry::NEVER, 1);
            match listing.next(&entry, 0) {
                Some(Listed::Entity) => lines.push(String::from_utf8_lossy(key).into_owned()),
                Some(Listed::Prefix(prefix)) => {
                    lines.push(format!("{}…", String::from_utf8_lossy(&prefix)));
                }
                None => {}
            }
        }
        (lines, listing.continuation())
    }

    #[test]
    fn keys_with_a_delimiter_are_told_once_by_their_common_prefix() {
        let keys: [&[u8]; 6] = [b"a", b"b/1", b"b/2/x", b"b0", b"c", b"d/"];
        let (lines, continuation) = listed(b"", b"/", &keys);
        assert_eq!(lines, ["a", "b/…", "b0", "c", "d/…"]);
        assert_eq!(continuation, Continuation::SkipTo(b"d0".to_vec()));
        // Delimiters in the prefix do not count.
        let keys: [&[u8]; 4] = [b"b/", b"b/1", b"b/2/x", b"b/2/y"];
        let (lines, continuation) = listed(b"b/", b"/", &keys);
        assert_eq!(lines, ["b/", "b/1", "b/2/…"]);
        assert_eq!(continuation, Continuation::SkipTo(b"b/20".to_vec()));
        let (lines, continuation) = listed(b"b/", b"/", &keys[..2]);
        assert_eq!(lines, ["b/", "b/1"]);
        assert_eq!(continuation, Continuation::Next);
        // One of several bytes; and a group behind which nothing can lie.
        let (lines, _) = listed(b"", b"::", &[b"a:b", b"a::b", b"a::c"]);
        assert_eq!(lines, ["a:b", "a::…"]);
        let (_, continuation) = listed(b"", b"\xff", &[b"\xff\xffa"]);
        assert_eq!(continuation, Continuation::End);
    }

    #[test]
    fn a_group_is_skipped_once_and_only_if_it_is_long() {
        let mut listing = Listing::new(0, QueryBytes::from_slice(b"/"));
        let next = |listing: &mut Listing, number: usize| {
            let key = format!("a/{number:03}");
            let entry = Entry::value(
                key.as_bytes(),
                Timestamp::from_u64(9),
                b"v",
                Expiry::NEVER,
                1,
            );
            listing.next(&entry, 0)
        };
        assert!(next(&mut listing, 0).is_some());
        for number in 1..KEYS_MIN {
            assert_eq!(next(&mut listing, number), None);
            assert_eq!(listing.continuation(), Continuation::Next);
        }
        next(&mut listing, KEYS_MIN);
        let skip = Continuation::SkipTo(b"a0".to_vec());
        assert_eq!(listing.continuation(), skip);
        assert_eq!(listing.continuation(), Continuation::Next, "an empty batch");
        // What comes of the group nevertheless is not told again.
        assert_eq!(next(&mut listing, KEYS_MIN + 1), None);
    }

    #[test]
    fn a_group_without_a_live_key_is_not_told() {
        let mut listing = Listing::new(0, QueryBytes::from_slice(b"/"));
        let expired = Entry::value(
            b"a/1",
            Timestamp::from_u64(9),
            b"v",
            Expiry::at_unix_ms(1),
            1,
        );
        assert_eq!(listing.next(&expired, 2), None);
        assert_eq!(listing.continuation(), Continuation::Next);
        let live = Entry::value(b"a/2", Timestamp::from_u64(9), b"v", Expiry::NEVER, 1);
        assert_eq!(listing.next(&live, 2), Some(Listed::Prefix(b"a/".to_vec())));
        assert_eq!(listing.next(&expired, 2), None);
        assert_eq!(listing.passed_keys, 1, "dead keys of a group count");
    }
}
