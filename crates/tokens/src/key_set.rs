//! The keys that a right covers.
//!
//! Each prefix stands for an interval of keys: from the prefix up to the first key behind
//! all that begin with it. A set keeps the union of the intervals, sorted and apart from
//! each other. So it also covers a range that goes over several prefixes, as long as no
//! key between them is left out.

/// A set of keys: all, none, or those with one of several prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    /// Sorted, and with a gap between each two.
    intervals: Box<[Interval]>,
}

/// The keys from `start` up to, but without, `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interval {
    start: Box<[u8]>,
    /// None: there is no greater key.
    end: Option<Box<[u8]>>,
}

impl Interval {
    fn of_prefix(prefix: &[u8]) -> Self {
        Self {
            start: prefix.into(),
            end: end_of_prefix(prefix),
        }
    }

    /// Whether nothing lies between this interval and one that begins at `start`, where it
    /// begins no later.
    fn reaches(&self, start: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| start <= end)
    }
}

/// The first key behind all that have a prefix; `None` if there is no greater key.
fn end_of_prefix(prefix: &[u8]) -> Option<Box<[u8]>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end: Box<[u8]> = prefix[..=last].into();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

/// Whether an end is before another one, where `None` is behind all keys.
fn ends_before(end: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    match (end, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(end), Some(other)) => end < other,
    }
}

impl KeySet {
    /// The ranges of its keys: from the first up to, but without, the second; `None` is behind the last.
    pub fn ranges(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let intervals = self.intervals.iter();
        intervals.map(|interval| (&*interval.start, interval.end.as_deref()))
    }

    /// All keys.
    #[must_use]
    pub fn all() -> Self {
        Self::of_prefixes(&[&[][..]])
    }

    /// No key.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The keys that begin with one of these prefixes.
    #[must_use]
    pub fn of_prefixes<P: AsRef<[u8]>>(prefixes: &[P]) -> Self {
        let intervals = prefixes.iter();
        let mut intervals: Vec<Interval> = intervals
            .map(|prefix| Interval::of_prefix(prefix.as_ref()))
            .collect();
        intervals.sort_unstable_by(|one, other| one.start.cmp(&other.start));
        let mut apart: Vec<Interval> = Vec::new();
        for next in intervals {
            match apart.last_mut().filter(|last| last.reaches(&next.start)) {
                Some(last) => {
                    if ends_before(last.end.as_deref(), next.end.as_deref()) {
                        last.end = next.end;
                    }
                }
                None => apart.push(next),
            }
        }
        Self {
            intervals: apart.into(),
        }
    }

    /// Whether the set has no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether the set has this key.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        self.interval_at(key).is_some_and(|interval| {
            let end = interval.end.as_deref();
            end.is_none_or(|end| key < end)
        })
    }

    /// Whether the set has all keys from `start` up to, but without, `end`; `None` is
    /// behind the last key. It has all of a range without keys, unless it is empty itself.
    #[must_use]
    pub fn has_range(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        if end.is_some_and(|end| start >= end) {
            return !self.is_empty();
        }
        self.interval_at(start)
            .is_some_and(|interval| !ends_before(interval.end.as_deref(), end))
    }

    /// The last interval that begins at the key or before.
    fn interval_at(&self, key: &[u8]) -> Option<&Interval> {
        let behind = self
            .intervals
            .partition_point(|interval| &*interval.start <= key);
        self.intervals.get(behind.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of prefixes and of the ends of ranges.
    const BYTES: [u8; 4] = [0, 7, 8, 255];

    /// The bytes of keys: each byte of a prefix, and the one behind it.
    const ALPHABET: [u8; 6] = [0, 1, 7, 8, 9, 255];

    /// Every key of up to three bytes of the alphabet.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![Vec::new()];
        let mut longest = keys.clone();
        for _ in 0..3 {
            let longer = longest.iter().flat_map(|key| {
                ALPHABET.map(|byte| {
                    let mut key = key.clone();
                    key.push(byte);
                    key
                })
            });
            longest = longer.collect();
            keys.extend(longest.iter().cloned());
        }
        keys.sort();
        keys
    }

    fn random_key(random: &mut fastrand::Rng, bytes_min: usize) -> Vec<u8> {
        let bytes = random.usize(bytes_min..=3);
        (0..bytes)
            .map(|_| BYTES[random.usize(..BYTES.len())])
            .collect()
    }

    #[test]
    fn a_set_has_exactly_the_keys_and_ranges_of_its_prefixes() {
        let keys = keys();
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let prefixes: Vec<Vec<u8>> = (0..random.usize(0..=5))
                .map(|_| random_key(&mut random, 1))
                .collect();
            let set = KeySet::of_prefixes(&prefixes);
            let has = |key: &[u8]| prefixes.iter().any(|prefix| key.starts_with(prefix));
            for key in &keys {
                assert_eq!(
                    set.has(key),
                    has(key),
                    "seed {seed}: {key:?} in {prefixes:?}"
                );
            }
            for _ in 0..50 {
                let start = random_key(&mut random, 0);
                let end = (random.u8(..8) > 0).then(|| random_key(&mut random, 0));
                let end = end.as_deref();
                // A key of one byte more may lie where none of those above does.
                let within =
                    |key: &[u8]| start.as_slice() <= key && end.is_none_or(|end| key < end);
                let longer = keys
                    .iter()
                    .flat_map(|key| [0, 255].map(|byte| [key.as_slice(), &[byte]].concat()));
                let is_covered = keys
                    .iter()
                    .cloned()
                    .chain(longer)
                    .filter(|key| within(key))
                    .all(|key| has(&key));
                assert_eq!(
                    set.has_range(&start, end),
                    is_covered && !prefixes.is_empty(),
                    "seed {seed}: {start:?} to {end:?} in {prefixes:?}"
                );
            }
        }
    }

    #[test]
    fn all_and_none_are_what_they_say() {
        for key in keys() {
            assert!(KeySet::all().has(&key));
            assert!(!KeySet::none().has(&key));
        }
        assert!(KeySet::all().has_range(b"", None));
        assert!(!KeySet::none().has_range(b"b", Some(b"a")));
        assert!(KeySet::none().is_empty() && !KeySet::all().is_empty());
    }

    #[test]
    fn prefixes_side_by_side_are_one_interval() {
        let set = KeySet::of_prefixes(&["b", "a", "ab", "d"]);
        assert!(set.has_range(b"a", Some(b"c")));
        assert!(!set.has_range(b"a", Some(b"c\0")));
        assert!(!set.has_range(b"a", Some(b"d")));
        assert!(!set.has_range(b"d", None));
    }
}
