//! What the worlds are spared until the product keeps it. This list is to become empty.

/// Something that the product does not do yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Requests do not wait for a host that is known to be away.
    CutLinks,
}

/// What is awaited.
const AWAITED: &[Awaited] = &[];

/// Whether the product does it.
pub(crate) fn is_there(awaited: Awaited) -> bool {
    !AWAITED.contains(&awaited)
}
