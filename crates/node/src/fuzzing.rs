//! What fuzzers call: see `lsm::fuzzing`.

pub use crate::stamping::fuzz_ceiling as ceiling;
pub use peer::fuzz_frames as frames;
