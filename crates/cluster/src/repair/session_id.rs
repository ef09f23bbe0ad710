//! Which repair session a message belongs to.

use super::Token;
use crate::comparison::RepairKind;

/// Names a repair session in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionId {
    /// An incremental one, by a random number. It moves nothing below the closed timestamps, so
    /// that it needs no token, and any number of them may run.
    Incremental(u64),
    /// An attempt of a full one.
    Full(Token),
}

impl SessionId {
    /// What it compares.
    #[must_use]
    pub fn kind(self) -> RepairKind {
        match self {
            Self::Incremental(_) => RepairKind::Incremental,
            Self::Full(_) => RepairKind::Full,
        }
    }
}
