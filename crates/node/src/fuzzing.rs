//! What fuzzers call: see `lsm::fuzzing`.

pub use crate::peer::fuzz_frames as frames;
