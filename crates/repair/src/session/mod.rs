//! Repair sessions: the nodes compare what they keep, and send what is missing where it
//! belongs (anti-entropy). What is compared is decided in [`cluster::comparison`], how a session goes in
//! [`cluster::repair`].
//!
//! ```text
//! coordinator                 each node                     two nodes that differ
//!   begin         ---------->   token
//!   close         ---------->   closed timestamp
//!   agree         ---------->   bounds
//!   advance       ---------->   scan ahead, about 8 MiB
//!   digest        ---------->   digests with each peer
//!   reconcile     ------------------------------------->    streaming, if one lacks most of it;
//!                                                           symbols, then repair writes both ways
//!   ... next range ...
//!   sync          ---------->   in a full session now and then: makes durable what arrived,
//!                               and then a checkpoint is stored
//!   finish        ---------->   makes durable what arrived; has anything come in behind the scan?
//!   outcome       ---------->   which pairs are equal, and the GC threshold
//! ```
//!
//! An incremental session has no `close` and no `finish`, and compares only what is above the
//! greatest closed timestamp of those that take part.
//!
//! Each of these modules may use those before it:
//! - `progress`: how far a session has come, and how far the rebuild of the store of this node.
//! - `part`: what a node keeps of a session, and what it reads from its store for it; jobs of
//!   [`JobClass::Scan`](lsm::JobClass::Scan).
//! - `checkpoint`: what survives a restart, and how far a full session has come; `record`: what
//!   this node knows of sessions; `overdue`: how late the GC threshold is; `orders`: the sessions
//!   that operators have asked for; `untold`: who has not heard of the end of one.
//! - `worker`: what the runtimes of a node share of all that, and what it does beside the requests;
//!   jobs of [`JobClass::Ingest`](lsm::JobClass::Ingest); `calls`: how a node asks another one.
//! - `change`: what repair does for a change of the members.
//! - `exchange`: makes two nodes equal in a range.
//! - `serving`: what a node does as its peers ask.
//! - `coordinator`: leads a session; `schedule`: when this node does.
//!
//! A repair write is an ordinary version: whatever arrives in whatever order, the newest
//! wins. So nothing has to be undone when a session is cut short anywhere.

mod calls;
mod change;
mod checkpoint;
mod coordinator;
mod exchange;
mod orders;
mod overdue;
mod part;
mod progress;
mod record;
mod schedule;
mod serving;
mod untold;
mod worker;

pub use change::ChangeView;
pub use checkpoint::{CheckpointEnvironment, LastEqual, REPAIR_VERSIONS, fuzz_repair_file};
pub use orders::{OrderedRepair, SessionReport};
pub use progress::{RebuildProgress, SessionProgress};
pub use record::{EndedSessions, RepairCounts, RepairStatus, RunningSession};
pub use worker::{RepairEnvironment, RepairSessions, RepairWorker};
