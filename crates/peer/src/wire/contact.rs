//! The message about contact: tells a peer how well this node can reach it back.

/// How a node deals with a peer, as it says with its heartbeats. A node that was just
/// started is of use to the others once all of them say both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// It serves all requests of the peer, and not only those that fill the peer's store.
    pub serves: bool,
    /// All of its runtimes have a live link to the peer.
    pub reaches: bool,
}

/// The bits of the code.
const SERVES: u8 = 1;
const REACHES: u8 = 2;

impl Contact {
    /// Nothing is missing.
    pub const FULL: Self = Self {
        serves: true,
        reaches: true,
    };

    /// The code in a frame.
    pub(crate) fn code(self) -> u8 {
        (u8::from(self.serves) * SERVES) | (u8::from(self.reaches) * REACHES)
    }

    /// The contact with a code. Bits that this release does not know are passed over.
    pub(crate) fn from_code(code: u8) -> Self {
        Self {
            serves: code & SERVES != 0,
            reaches: code & REACHES != 0,
        }
    }
}
