//! Writes key numbers as keys.
//!
//! ```text
//! 000000012345 k ----
//! number, in   |  filler up to the key's length
//! `digits`     k: a key that is put; m: one that never is
//! ```
//!
//! Keys sort like their numbers. A key that is never put sorts next to one that
//! is, so a store cannot tell from the key ranges of its tables that the key is
//! missing. All bytes are valid in a URL.

use crate::Error;
use crate::plan::{KEY_DIGITS_MAX, SizeDistribution};

/// Writes the keys of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpace {
    bytes: SizeDistribution,
    digits: usize,
    numbers: u64,
}

/// Whether a key is ever put.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyKind {
    /// It may be put.
    Present,
    /// It is never put.
    Missing,
}

impl KeySpace {
    /// Keys with sizes of `bytes` for at least `keys` numbers.
    ///
    /// # Errors
    /// [`Error::Plan`] if the shortest keys cannot hold that many numbers.
    pub(crate) fn new(bytes: SizeDistribution, keys: u64) -> Result<Self, Error> {
        let digits = bytes.key_digits(keys)?;
        Ok(Self {
            bytes,
            digits,
            numbers: 10u64.pow(digits as u32),
        })
    }

    /// Appends the key with `number`. Numbers that the shortest key cannot hold
    /// wrap around.
    pub(crate) fn write(&self, number: u64, kind: KeyKind, to: &mut Vec<u8>) {
        let mut rest = number % self.numbers;
        let mut digits = [b'0'; KEY_DIGITS_MAX];
        for digit in digits[..self.digits].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        to.extend_from_slice(&digits[..self.digits]);
        to.push(match kind {
            KeyKind::Present => b'k',
            KeyKind::Missing => b'm',
        });
        let bytes = self.length_of(number);
        let filler = bytes.saturating_sub(self.digits + 1);
        to.resize(to.len() + filler, b'-');
    }

    /// The length of a key depends on its number only, so that the number
    /// identifies the key.
    fn length_of(&self, number: u64) -> usize {
        match self.bytes {
            SizeDistribution::Fixed(bytes) => bytes,
            drawn => drawn.draw(&mut fastrand::Rng::with_seed(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(space: &KeySpace, number: u64, kind: KeyKind) -> String {
        let mut key = Vec::new();
        space.write(number, kind, &mut key);
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn keys_are_numbers_in_order() {
        let space = KeySpace::new(SizeDistribution::Fixed(16), 1_000_000).unwrap();
        assert_eq!(key(&space, 12_345, KeyKind::Present), "000000012345k---");
        assert_eq!(key(&space, 12_345, KeyKind::Missing), "000000012345m---");
        let keys: Vec<String> = (95..105)
            .map(|n| key(&space, n, KeyKind::Present))
            .collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn short_keys_hold_as_many_numbers_as_they_have_digits_for() {
        let space = KeySpace::new(SizeDistribution::Fixed(3), 100).unwrap();
        assert_eq!(key(&space, 99, KeyKind::Present), "99k");
        let refusal = KeySpace::new(SizeDistribution::Fixed(3), 101)
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("at least 4"), "{refusal}");
        assert!(KeySpace::new(SizeDistribution::Fixed(1), 1).is_err());
    }

    #[test]
    fn a_number_always_gives_the_same_key() {
        let space = KeySpace::new(SizeDistribution::Uniform(8, 40), 1_000).unwrap();
        let mut lengths = Vec::new();
        for number in 0..1_000 {
            let written = key(&space, number, KeyKind::Present);
            assert_eq!(written, key(&space, number, KeyKind::Present));
            assert!((8..=40).contains(&written.len()), "{written}");
            lengths.push(written.len());
        }
        lengths.sort_unstable();
        lengths.dedup();
        assert_eq!(lengths.len(), 33);
    }
}
