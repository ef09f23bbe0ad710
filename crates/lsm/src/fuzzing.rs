//! What fuzzers call: each decoder as a function of arbitrary bytes.
//!
//! Each function returns, whatever the bytes; a panic, a loop or an allocation
//! out of proportion to them is a bug.

pub use crate::table::{fuzz_block, fuzz_footer};
