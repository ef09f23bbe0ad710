//! What fuzzers call: see `lsm::fuzzing`.

pub use crate::forgetting::fuzz_forget as forget;
pub use crate::sweep::fuzz_sweep as sweep;
pub use membership::fuzz_cluster as cluster;
pub use peer::fuzz_frames as frames;
pub use replica::timestamps::fuzz_timestamp_bound as timestamp_bound;
