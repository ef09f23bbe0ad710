//! Whether the stores of all nodes hold the same, by the digests that the nodes give of
//! ranges of keys.
//!
//! Under load the stores differ all the time in the writes that are on their way. So no
//! digest of everything is compared. A look at single keys, drawn in advance, says how
//! many keys differ; each takes so little time that hardly any write falls into it. And
//! every small range is compared until it was equal once, which shows that nothing in it
//! was left out.

use crate::http::Client;
use crate::nodes::LabCluster;
use crate::{Error, http};
use serde_json::Value;
use std::collections::VecDeque;
use std::time::Duration;

/// How many digits the number of a key has in keys of 16 bytes.
const KEY_DIGITS: usize = 12;
/// The keys of a look.
const SAMPLE: u64 = 150;
/// The parts into which the key space is split.
const RANGES: u64 = 256;
/// A check compares at most so many ranges, so that it does not disturb the load.
const RANGES_AT_ONCE: usize = 64;
/// It ends after so many that differ: those behind them most likely differ, too.
const DIFFERING_AT_ONCE: usize = 4;
/// How long a node may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Keys from one number to another, without that one.
type NumberRange = (u64, u64);

/// Compares the stores of nodes.
pub(crate) struct StoreComparison {
    client: Client,
    urls: Vec<String>,
    keys: u64,
    /// The ranges that were not equal yet.
    unequal: VecDeque<NumberRange>,
}

impl StoreComparison {
    /// Compares the nodes of a cluster, which keep keys of 16 bytes with the numbers
    /// below `keys`.
    ///
    /// # Errors
    /// The first node does not answer, or has no such keys.
    pub(crate) fn new(cluster: &LabCluster, keys: u64) -> Result<Self, Error> {
        let urls = cluster.nodes.iter().map(|node| node.url().to_owned());
        let mut comparison = Self {
            client: Client::new(ANSWER_TIMEOUT)?,
            urls: urls.collect(),
            keys,
            unequal: VecDeque::new(),
        };
        let url = digest_url(&comparison.urls[0], (0, keys));
        let page = http::get_page(&url, ANSWER_TIMEOUT)?;
        let digest: Value =
            serde_json::from_str(&page).map_err(|error| Error::http(&url, &error))?;
        if digest["count"].as_u64().unwrap_or(0) == 0 {
            return Err(Error::http(&url, &"it counts no keys"));
        }
        comparison.forget();
        Ok(comparison)
    }

    /// Takes all ranges for unequal.
    pub(crate) fn forget(&mut self) {
        self.unequal = ranges(self.keys).collect();
    }

    /// About how many keys differ; none while a node does not answer.
    pub(crate) fn differing_keys(&self) -> Option<f64> {
        let gc_threshold = self.gc_threshold()?;
        let sample = SAMPLE.min(self.keys);
        let mut differing = 0;
        for number in 0..sample {
            let key = number * self.keys / sample;
            // A write may have been on its way.
            let range = (key, key + 1);
            let is_equal =
                self.is_equal(range, gc_threshold)? || self.is_equal(range, gc_threshold)?;
            differing += u64::from(!is_equal);
        }
        Some(differing as f64 / sample as f64 * self.keys as f64)
    }

    /// Compares the ranges that were not equal yet, at most a bounded number of them.
    /// Gives whether every range has been equal.
    pub(crate) fn check(&mut self) -> bool {
        let Some(gc_threshold) = self.gc_threshold() else {
            return false;
        };
        let mut differing = 0;
        for _ in 0..RANGES_AT_ONCE {
            let Some(range) = self.unequal.pop_front() else {
                return true;
            };
            match self.is_equal(range, gc_threshold) {
                Some(true) => {}
                Some(false) => {
                    self.unequal.push_back(range);
                    differing += 1;
                }
                None => {
                    self.unequal.push_front(range);
                    return false;
                }
            }
            if differing == DIFFERING_AT_ONCE {
                return false;
            }
        }
        self.unequal.is_empty()
    }

    /// The greatest GC threshold of a node, below which a node may have dropped what is dead;
    /// none if one does not answer.
    fn gc_threshold(&self) -> Option<u64> {
        let mut greatest = 0;
        for url in &self.urls {
            // Without any key: each node names its own bound.
            let answer = self.client.get(&format!("{url}/v0/digest?start=0&end=0"));
            let digest: Value = serde_json::from_str(&answer.ok()?.body).ok()?;
            greatest = greatest.max(digest["gc_threshold"].as_str()?.parse().ok()?);
        }
        Some(greatest)
    }

    /// Whether all nodes give the same digest of what tombstone GC may not drop; none if one gives
    /// none.
    fn is_equal(&self, range: NumberRange, gc_threshold: u64) -> Option<bool> {
        let mut digests = self.urls.iter().map(|url| {
            let url = format!("{}&gc_threshold={gc_threshold}", digest_url(url, range));
            let answer = self.client.get(&url).ok()?;
            (answer.status == 200).then_some(answer.body)
        });
        let first = digests.next()??;
        let mut is_equal = true;
        for digest in digests {
            is_equal &= digest? == first;
        }
        Some(is_equal)
    }
}

/// The key space in equal parts.
fn ranges(keys: u64) -> impl Iterator<Item = NumberRange> {
    let parts = RANGES.min(keys).max(1);
    (0..parts).map(move |part| (part * keys / parts, (part + 1) * keys / parts))
}

/// The digest that a node gives of a range. No version is above the cut, so each node
/// counts everything.
fn digest_url(url: &str, (first, end): NumberRange) -> String {
    let cut = u64::MAX;
    format!("{url}/v0/digest?start={first:0KEY_DIGITS$}&end={end:0KEY_DIGITS$}&cut={cut}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_cover_each_key_once() {
        for keys in [1, 2, 255, 1_000, 100_003] {
            let mut next = 0;
            for (first, end) in ranges(keys) {
                assert!(
                    first == next && end > first,
                    "{keys} keys: {first} to {end}"
                );
                next = end;
            }
            assert_eq!(next, keys);
        }
    }

    #[test]
    fn a_range_is_named_by_the_digits_of_its_keys() {
        assert_eq!(
            digest_url("http://h:1", (7, 1_000)),
            "http://h:1/v0/digest?start=000000000007&end=000000001000&cut=18446744073709551615"
        );
    }
}
