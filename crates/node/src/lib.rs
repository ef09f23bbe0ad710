//! A node.

mod config;

pub use config::{ConfigError, MEMORY_BYTES_MIN, MemorySplit, NodeConfig, ReplicasDefault};
