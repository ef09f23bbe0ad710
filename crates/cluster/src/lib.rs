//! What the nodes of a cluster decide together: pure functions and state
//! machines, without I/O and without a clock of their own.
//!
//! - [`HybridClock`] gives the timestamps that order versions.
//! - [`Members`] is the list of all nodes; a [`NodeNumber`] is a place in it,
//!   a [`NodeUrl`] where a node is reached.

mod hybrid_clock;
mod members;
mod node_number;
mod node_url;

pub use hybrid_clock::HybridClock;
pub use members::{Member, MemberError, Members, MembersError};
pub use node_number::NodeNumber;
pub use node_url::{NodeUrl, NodeUrlError};
