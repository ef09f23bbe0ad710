//! What a repair session compares, and what it shows something of.

/// What a repair session compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairKind {
    /// What can have changed since the pair was last found equal.
    Incremental,
    /// Everything, and every block is read and its checksum verified.
    Full,
}

impl RepairKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Incremental, Self::Full];

    /// The word for it in metrics, on the status page and in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Incremental => "incremental",
            Self::Full => "full",
        }
    }
}

/// A store, and its last loss of data. What a session shows of a node holds for the
/// incarnation that has shown it: a store that was replaced, or has lost something since,
/// is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The number that was drawn when the store was created.
    pub store_id: u64,
    /// A random number that was drawn when it last lost data; 0 if it never has. A
    /// count would repeat: a copy of the folder that is restored brings an earlier one
    /// back.
    pub last_loss: u64,
}
