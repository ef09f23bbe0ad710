//! The randomness seam.

/// Where random numbers come from.
pub trait Random: Send + Sync {
    /// The next random number; all values are equally likely.
    fn next_u64(&self) -> u64;
}
