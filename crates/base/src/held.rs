//! What a store says to a write that it has stored.

use crate::timestamp::Timestamp;

/// What a store held of a key when a version of it first arrived: newer ones
/// that came before. A store tells the same however often the version comes, for
/// as long as it keeps its verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing newer.
    Clean,
    /// This newer version, the newest there is, which was read.
    Newer(Timestamp),
    /// That cannot be told: because it came too long ago, or because a block is
    /// damaged. Nothing that the store holds of the key is above this, which is
    /// above the version itself.
    Unknown(Timestamp),
}
