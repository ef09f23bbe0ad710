//! The Bloom filter of a table, cut into pages.
//!
//! A key's hash picks one page, and all bits of the key are in that page. So a
//! probe reads one block of the cache, however large the table is, and a filter
//! need not be in memory as a whole. All pages of a filter have the same size, at
//! most [`PAGE_BYTES_MAX`], and follow one another in the file. A page's offset
//! follows from its number, so no index of pages is needed.
//!
//! Within a page, enhanced double hashing chooses the bits (Dillinger and
//! Manolios, "Bloom Filters in Probabilistic Verification", 2004). Plain double
//! hashing repeats patterns and misses the configured rate in a page of this size.

pub(super) mod pinned;

use super::block::malformed::Malformed;

/// The size of a page of a large filter, in bytes. A page serves about 13,000
/// keys at a rate of 1%, so pages fill evenly, and the cache handles blocks of this size well.
const PAGE_BYTES_MAX: u64 = 16 << 10;

/// Pages consist of whole words, in small filters too.
const PAGE_BYTES_STEP: u64 = 8;

/// The largest number of bits that a key sets. With this many the rate is below one
/// in a billion.
const PROBES_MAX: u32 = 30;

/// The lowest rate that a filter is built for. A lower one would cost memory
/// without an effect that anybody could measure.
const RATE_MIN: f64 = 1e-9;

/// The hash of a key; one hash serves the filters of all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    /// The hash of `key`.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(key))
    }

    /// The hash as a number, to spread keys by.
    pub(crate) fn as_u64(self) -> u64 {
        self.0
    }
}

/// The size of a filter. A table's properties hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterShape {
    /// The number of pages, at least 1.
    pub(super) pages: u32,
    /// The size of each page, in bytes, at least 1.
    pub(super) page_bytes: u32,
    /// How many bits a key sets.
    pub(super) probes: u32,
}

impl FilterShape {
    /// The shape of a filter for `keys` keys that admits about `rate` of all other
    /// keys; `None` if no filter is needed for that.
    pub(super) fn new(keys: usize, rate: f64) -> Option<Self> {
        if keys == 0 || rate.is_nan() || rate >= 1.0 {
            return None;
        }
        let rate = rate.max(RATE_MIN);
        // The best number of probes is log2(1/rate), rounded. With it, the number of
        // bits that meets the rate follows from
        // rate = (1 - exp(-probes * keys / bits)) ^ probes.
        let probes = (-rate.log2()).round().clamp(1.0, f64::from(PROBES_MAX));
        let bits_per_key = -probes / (1.0 - rate.powf(1.0 / probes)).ln();
        let bytes = (keys as f64 * bits_per_key / 8.0).ceil() as u64;
        let pages = bytes.div_ceil(PAGE_BYTES_MAX);
        let page_bytes = bytes.div_ceil(pages).next_multiple_of(PAGE_BYTES_STEP);
        Some(Self {
            pages: u32::try_from(pages).ok()?,
            page_bytes: page_bytes as u32,
            probes: probes as u32,
        })
    }

    /// Refuses a shape that no writer writes.
    pub(super) fn check(self) -> Result<Self, Malformed> {
        let sizes = 1..=PAGE_BYTES_MAX;
        if self.pages == 0
            || !sizes.contains(&u64::from(self.page_bytes))
            || !(1..=PROBES_MAX).contains(&self.probes)
        {
            return Err(Malformed("the filter's shape is impossible"));
        }
        Ok(self)
    }

    /// The page that holds the bits of a key.
    pub(super) fn page(self, hash: KeyHash) -> u32 {
        ((u128::from(hash.0) * u128::from(self.pages)) >> 64) as u32
    }

    /// The bits that a key has in its page.
    fn bits(self, page_bits: u64, hash: KeyHash) -> impl Iterator<Item = usize> {
        // The high bits of the hash chose the page. The multiplication makes all
        // bits depend on the low ones.
        let mixed = hash.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (mut position, mut step) = (mixed as u32, (mixed >> 32) as u32);
        (0..self.probes).map(move |probe| {
            let bit = (u64::from(position) * page_bits) >> 32;
            position = position.wrapping_add(step);
            step = step.wrapping_add(probe);
            bit as usize
        })
    }

    /// Whether `page`, which is the key's page, may hold the key. `false` is always
    /// right; `true` may be wrong.
    pub(super) fn admits(self, page: &[u8], hash: KeyHash) -> bool {
        self.bits(page.len() as u64 * 8, hash).all(|bit| {
            page.get(bit / 8)
                .is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
        })
    }

    /// The pages of a filter that admits `hashes`, in one buffer.
    pub(super) fn build(self, hashes: &[KeyHash]) -> Vec<u8> {
        let page_bytes = self.page_bytes as usize;
        let mut pages = vec![0; self.pages as usize * page_bytes];
        for &hash in hashes {
            let start = self.page(hash) as usize * page_bytes;
            for bit in self.bits(page_bytes as u64 * 8, hash) {
                pages[start + bit / 8] |= 1 << (bit % 8);
            }
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> KeyHash {
        KeyHash::of(format!("key-{number}").as_bytes())
    }

    fn admits(shape: FilterShape, pages: &[u8], hash: KeyHash) -> bool {
        let page_bytes = shape.page_bytes as usize;
        let page = shape.page(hash) as usize;
        shape.admits(&pages[page * page_bytes..][..page_bytes], hash)
    }

    /// The share of absent keys that a filter over `keys` keys admits.
    fn measured_rate(keys: u64, rate: f64) -> f64 {
        let hashes: Vec<_> = (0..keys).map(hash).collect();
        let shape = FilterShape::new(hashes.len(), rate).unwrap();
        let pages = shape.build(&hashes);
        assert!(hashes.iter().all(|&hash| admits(shape, &pages, hash)));
        let absent = 200_000;
        let admitted = (keys..keys + absent)
            .filter(|&number| admits(shape, &pages, hash(number)))
            .count();
        admitted as f64 / absent as f64
    }

    #[test]
    fn the_measured_rate_is_the_configured_one() {
        for rate in [0.5, 0.1, 0.03, 0.01, 0.001] {
            let measured = measured_rate(150_000, rate);
            let allowed = rate * 0.7 - 0.0005..=rate * 1.3 + 0.0005;
            assert!(allowed.contains(&measured), "{rate} became {measured}");
        }
    }

    #[test]
    fn small_filters_keep_the_rate() {
        for keys in [1, 10, 100, 1000, 13_000, 14_000] {
            let measured = measured_rate(keys, 0.01);
            assert!(measured <= 0.02, "{keys} keys: {measured}");
        }
    }

    #[test]
    fn rates_at_the_limits_give_no_filter_or_the_strongest() {
        assert_eq!(FilterShape::new(0, 0.01), None);
        for rate in [1.0, 7.0, f64::NAN, f64::INFINITY] {
            assert_eq!(FilterShape::new(100, rate), None, "{rate}");
        }
        for rate in [0.0, -1.0, f64::NEG_INFINITY, 1e-300] {
            let shape = FilterShape::new(100, rate).unwrap();
            assert_eq!(shape.probes, PROBES_MAX, "{rate}");
            assert!(shape.check().is_ok());
        }
    }
}
