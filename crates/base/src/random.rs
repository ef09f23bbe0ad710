//! The randomness seam: the system's random numbers, or seeded ones in tests.

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers.
pub trait Random: Send + Sync {
    /// The next random number; all values are equally likely.
    fn next_u64(&self) -> u64;
}

/// The operating system's random numbers, fit for identifiers that must never collide.
#[derive(Clone, Copy, Debug)]
pub struct OsRandom(());

impl OsRandom {
    /// Draws a first random number. Shortly after the start of a machine this waits
    /// until the system has gathered enough entropy.
    ///
    /// # Errors
    /// The system does not have `getrandom`, or forbids it.
    pub fn new() -> io::Result<Self> {
        os_random()?;
        Ok(Self(()))
    }
}

impl Random for OsRandom {
    fn next_u64(&self) -> u64 {
        match os_random() {
            Ok(number) => number,
            // A request this small fails only if the call itself is missing.
            Err(error) => unreachable!("the system no longer returns random numbers: {error}"),
        }
    }
}

fn os_random() -> io::Result<u64> {
    let mut bytes = [MaybeUninit::<u8>::uninit(); 8];
    loop {
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok((filled, _)) => {
                if let Ok(whole) = <[u8; 8]>::try_from(&*filled) {
                    return Ok(u64::from_le_bytes(whole));
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Random numbers from a seed, for tests, simulations, and samples of what happens (SplitMix64: Steele, Lea and
/// Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self
            .state
            .fetch_add(STEP, Ordering::Relaxed)
            .wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_yields_the_published_sequence() {
        let random = SeededRandom::new(1_234_567);
        let numbers: [u64; 3] = std::array::from_fn(|_| random.next_u64());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn random_numbers_of_the_system_differ() {
        let random = OsRandom::new().unwrap();
        assert_ne!(random.next_u64(), random.next_u64());
    }
}
