//! How far the filling of this node's store has come.

use std::time::Duration;

/// What a pass has brought to this node in bulk so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillProgress {
    /// The bytes of keys and values that peers have sent.
    pub received_bytes: u64,
    /// The keys that they belong to.
    pub received_keys: u64,
    /// How far the pass has come, about, in thousandths of what the sender keeps.
    pub position_permille: u16,
    /// How long the pass still takes, about, if it goes on as fast as so far; [`None`]
    /// as long as that cannot be told.
    pub time_left: Option<Duration>,
}
