//! The ID of a trace. The logs of all nodes name by it the requests of one client that belong
//! together.

use std::fmt;

/// The id of a trace (W3C Trace Context). Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// The trace with this id, the highest byte first; `None` if it is 0.
    #[must_use]
    pub fn of(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The id, the highest byte first.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}
