//! Keys, values and the orders in which they are written, the same for all engines.
//!
//! The keys that exist have even numbers, so that an absent key lies between two
//! existing ones: only a table's filter rules it out, not the table's range of keys. A
//! value begins with the number of its key, so that a wrong answer is noticed. The rest
//! compresses to about half its size.

/// The length of a key, in bytes.
pub const KEY_BYTES: usize = 16;

/// A key: sixteen hexadecimal digits, which sort like the number.
pub type Key = [u8; KEY_BYTES];

/// The key of the `index`-th value.
pub fn present_key(index: u64) -> Key {
    digits(index * 2)
}

/// A key between those of the `index`-th value and the next. No value has it.
pub fn absent_key(index: u64) -> Key {
    digits(index * 2 + 1)
}

fn digits(number: u64) -> Key {
    let mut key = [0; KEY_BYTES];
    for (place, digit) in key.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place)) as usize & 15];
    }
    key
}

/// Creates values of one length.
pub struct Values {
    /// Pieces of which one half repeats the other.
    pool: Vec<u8>,
    value: Vec<u8>,
    random: fastrand::Rng,
}

impl Values {
    /// The length of a piece, in bytes. The shortest value has room for a whole piece.
    const PIECE_BYTES: usize = 64;

    const POOL_BYTES: usize = 1 << 20;

    /// Values of `value_bytes` bytes, at least 8. The same seed gives the same values.
    pub fn new(value_bytes: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pool = vec![0; Self::POOL_BYTES + value_bytes];
        for piece in pool.chunks_mut(Self::PIECE_BYTES) {
            let half = piece.len() / 2;
            random.fill(&mut piece[..half]);
            piece.copy_within(..half, half);
        }
        Self {
            pool,
            value: vec![0; value_bytes],
            random,
        }
    }

    /// A value for the key of `index`.
    pub fn next(&mut self, index: u64) -> &[u8] {
        let start = self.random.usize(..Self::POOL_BYTES);
        let end = start + self.value.len();
        self.value.copy_from_slice(&self.pool[start..end]);
        self.value[..8].copy_from_slice(&index.to_le_bytes());
        &self.value
    }
}

/// Whether [`Values`] may have created `value` for `index`.
pub fn is_value_of(value: &[u8], index: u64, value_bytes: usize) -> bool {
    value.len() == value_bytes && value.starts_with(&index.to_le_bytes())
}

/// Every number below a bound once, in an order that looks random, without a list of
/// them. A congruential generator has a full period over the next power of two; numbers
/// past the bound are skipped.
pub struct Shuffled {
    state: u64,
    mask: u64,
    bound: u64,
    left: u64,
}

impl Shuffled {
    /// The numbers from 0 up to, but without, `bound`.
    pub fn new(bound: u64, seed: u64) -> Self {
        Self {
            state: seed,
            mask: bound.next_power_of_two() - 1,
            bound,
            left: bound,
        }
    }
}

impl Iterator for Shuffled {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        loop {
            // The period is full: the factor is 1 modulo 4, and the summand is odd.
            self.state = self
                .state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f)
                & self.mask;
            // The low bits alternate; the fold, which is a bijection, hides that.
            let bits = self.mask.count_ones();
            let folded = self.state ^ (self.state >> bits.div_ceil(2));
            if folded < self.bound {
                return Some(folded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_numbers_and_absent_ones_lie_between() {
        for index in [0, 1, 15, 16, 255, 1 << 20, 1 << 40] {
            assert!(present_key(index) < absent_key(index));
            assert!(absent_key(index) < present_key(index + 1));
        }
    }

    #[test]
    fn shuffled_numbers_come_once_each_and_out_of_order() {
        for bound in [1, 2, 3, 1000, 4096] {
            let numbers: Vec<u64> = Shuffled::new(bound, 7).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..bound).collect::<Vec<_>>());
            let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]);
            if bound >= 1000 {
                let share = ascents.count() as f64 / bound as f64;
                assert!((0.4..0.6).contains(&share), "{share} of the steps go up");
            }
        }
    }

    #[test]
    fn a_value_is_told_from_that_of_another_key() {
        let mut values = Values::new(100, 1);
        let value = values.next(5).to_vec();
        assert!(is_value_of(&value, 5, 100));
        assert!(!is_value_of(&value, 6, 100));
        assert!(!is_value_of(&value, 5, 99));
        assert_ne!(value, values.next(5));
    }
}
