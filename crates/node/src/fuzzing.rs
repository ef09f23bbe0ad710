//! What fuzzers call: see `lsm::fuzzing`.

pub use crate::peer::fuzz_frames as frames;
pub use crate::stamping::fuzz_ceiling as ceiling;
