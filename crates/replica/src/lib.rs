//! The replicas of keys as one node reaches them: its own store, and those of its peers.
//!
//! - [`ReplicaSet`] (`replicas`) asks any replica, [`LocalReplica`] is this node's own store,
//!   and [`Peers`] (`peers`) are the links of one runtime to the other nodes.
//! - [`pending`] are the requests of one runtime that wait for answers. Its queue takes answers of
//!   other threads: of group commits (`submissions`), and of `read_pool`, where reads may block.
//! - [`timestamps`] allocates the timestamps that order writes; `expiry` says which values have
//!   expired by the clocks of all nodes.
//! - [`hints`] keeps writes that peers missed, and delivers them.
//! - [`SharedBounds`] (`shared_bounds`) are the closed timestamp and the GC threshold of the
//!   store, and its repair session, as requests and compaction read them.
//! - [`background`] gives hints, repairs and compaction the time that clients leave.
//! - `wait_sites` names the places where requests wait, for profiles.

pub mod background;
mod expiry;
pub mod hints;
mod or_abort;
mod peers;
pub mod pending;
mod range_digest;
mod read_pool;
mod replicas;
mod shared_bounds;
mod submissions;
pub mod timestamps;
mod wait_sites;

pub use expiry::{ExpiryBound, OwnClock};
pub use or_abort::{before_abort, or_abort};
pub use peers::{AdoptedLinks, Peers};
pub use pending::{Completion, CompletionQueue, KeyRead};
pub use range_digest::RangeDigest;
pub use read_pool::{PAGE_BYTES_MAX, PageRead, PoolFull, Read, ReadJob, ReadPool, ReadsRun};
pub use replicas::{
    AnswerTime, LocalReplica, PageTelling, ReplicaHints, ReplicaRequest, ReplicaSet, VoidSession,
};
pub use shared_bounds::{Admitted, BeforeRead, SharedBounds};
pub use submissions::Submissions;
pub use wait_sites::SCAN_MEMORY;
