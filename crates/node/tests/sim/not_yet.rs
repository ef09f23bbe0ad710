//! What the worlds are spared until the product keeps it. This list is to become empty.

use crate::weather::{FaultKind, Loss};

/// Something that the product does not do yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Acks count only while nothing newer is there, so that the first of two
    /// stamps is never seen.
    OneStampSeen,
    /// Quorums go on while one host is away.
    Availability,
    /// A node's own stamps obey the clock bound.
    OwnStampsBounded,
    /// No stamp is given twice.
    UniqueStamps,
    /// A store that lost data, or was rolled back, does not witness.
    Unfilled,
}

/// What is awaited.
const AWAITED: &[Awaited] = &[Awaited::Availability, Awaited::Unfilled];

/// Whether the product does it.
pub(crate) fn is_there(awaited: Awaited) -> bool {
    !AWAITED.contains(&awaited)
}

/// Whether faults of this kind can be borne.
pub(crate) fn allows_fault(kind: FaultKind) -> bool {
    kind != FaultKind::FarSkewAtStart || is_there(Awaited::OwnStampsBounded)
}

/// Whether such a loss can be borne.
pub(crate) fn allows_loss(loss: Loss) -> bool {
    loss == Loss::Rot || is_there(Awaited::Unfilled)
}
