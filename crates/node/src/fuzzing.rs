//! What fuzzers call: see `lsm::fuzzing`.

pub use crate::forgetting::fuzz_forget as forget;
pub use crate::membership::fuzz_cluster as cluster;
pub use crate::stamping::fuzz_ceiling as ceiling;
pub use crate::sweep::fuzz_sweep as sweep;
pub use peer::fuzz_frames as frames;
