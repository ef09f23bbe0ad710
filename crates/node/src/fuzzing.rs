//! What fuzzers call: see `lsm::fuzzing`.

pub use membership::fuzz_cluster as cluster;
pub use peer::fuzz_frames as frames;
pub use repair::session::fuzz_repair_file as repair_file;
pub use repair::store::fuzz_store_file as store_file;
pub use replica::timestamps::fuzz_timestamp_bound as timestamp_bound;
