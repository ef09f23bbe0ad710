//! The fencing token of a repair session.

use crate::NodeId;
use base::ByteReader;
use std::fmt;

/// Names an attempt of a session. Tokens are ordered, and a store takes part only with a token
/// that is greater than all that it has seen; so what comes with an earlier token is refused for
/// good, however late it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The session: a round in the upper half, and in the lower half a random number and the ID of
    /// the coordinator, so that no two draw the same one.
    pub session: u64,
    /// How often the session has gone on from a checkpoint.
    pub attempt: u32,
}

impl Token {
    /// The first attempt of a session that begins after the one of `greatest`, the greatest token
    /// that is known.
    #[must_use]
    pub fn first_after(greatest: Self, coordinator: NodeId, random: u32) -> Self {
        let round = (greatest.session >> 32).saturating_add(1);
        Self {
            session: round << 32 | u64::from(random & !0xff) | coordinator.index() as u64,
            attempt: 0,
        }
    }

    /// Whether this node coordinates the session. It leads one at a time, so that all others of
    /// its sessions are over.
    #[must_use]
    pub fn is_of(self, node: NodeId) -> bool {
        self.coordinator() == node
    }

    /// The node that coordinates the session.
    #[must_use]
    pub fn coordinator(self) -> NodeId {
        NodeId::new(self.session as u8)
    }

    /// Another attempt of the same session.
    #[must_use]
    pub fn next_attempt(self) -> Self {
        Self {
            attempt: self.attempt.saturating_add(1),
            ..self
        }
    }

    /// Whether the session goes on from a checkpoint.
    #[must_use]
    pub fn is_resumed(self) -> bool {
        self.attempt > 0
    }

    /// Appends it as it is stored and sent: session u64 | attempt u32, little-endian.
    pub fn encode(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.session.to_le_bytes());
        bytes.extend_from_slice(&self.attempt.to_le_bytes());
    }

    /// Reads what [`Token::encode`] writes; [`None`] if there are too few bytes.
    pub fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            session: reader.u64()?,
            attempt: reader.u32()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}.{}", self.session, self.attempt)
    }
}
