//! The result of a session.

/// The result of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// The ranges that were compared.
    pub ranges: u64,
    /// The ranges of pairs that differed.
    pub differing: u64,
    /// The non-owned copies that a full session has found, or an incremental one among what it
    /// read.
    pub non_owned: u64,
    /// How often the session went on from a checkpoint.
    pub resumed: u32,
    /// The pairs that are equal.
    pub equal_pairs: u64,
    /// The pairs of all nodes of the cluster.
    pub pairs: u64,
    /// Whether a full session was to raise the GC threshold, and could not.
    pub is_held_back: bool,
}

impl SessionReport {
    /// Whether all nodes took part, and all pairs of them are equal.
    pub(super) fn are_all_equal(&self) -> bool {
        self.equal_pairs == self.pairs
    }
}
