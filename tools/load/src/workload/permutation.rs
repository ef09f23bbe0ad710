//! A permutation of key numbers that needs no memory.
//!
//! A round multiplies by an odd number and folds the upper half onto the lower
//! one. Each step is a bijection of the numbers of `bits` bits, and so is their
//! sequence. A result of `count` or more goes through the rounds again until it
//! is below `count`, which preserves the bijection and takes fewer than two
//! passes on average.

/// A bijection of `0..count`, different for each seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    count: u64,
    bits: u32,
    multipliers: [u64; ROUNDS],
    additions: [u64; ROUNDS],
}

const ROUNDS: usize = 3;

impl Permutation {
    /// A bijection of `0..count`; `count` is at least one.
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            count,
            // At least two bits, so that there is a half to fold.
            bits: (u64::BITS - (count - 1).leading_zeros()).max(2),
            multipliers: std::array::from_fn(|_| random.u64(..) | 1),
            additions: std::array::from_fn(|_| random.u64(..)),
        }
    }

    /// The image of `number`, which must be below the count.
    pub(crate) fn of(&self, number: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.bits);
        let mut image = number;
        loop {
            for (multiplier, addition) in self.multipliers.iter().zip(self.additions) {
                image = image.wrapping_mul(*multiplier).wrapping_add(addition) & mask;
                image ^= image >> self.bits.div_ceil(2);
            }
            if image < self.count {
                return image;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_hit_once() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            for seed in 0..5 {
                let permutation = Permutation::new(count, seed);
                let mut images: Vec<u64> = (0..count).map(|n| permutation.of(n)).collect();
                images.sort_unstable();
                assert!(images.into_iter().eq(0..count), "{count} with seed {seed}");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let permutation = Permutation::new(100_000, 1);
        let near = (1..100_000u64)
            .filter(|n| permutation.of(*n).abs_diff(permutation.of(n - 1)) < 1_000)
            .count();
        // In a random permutation it would be 2% of them.
        assert!(near < 10_000, "{near}");
    }
}
