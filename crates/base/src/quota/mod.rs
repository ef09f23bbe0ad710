//! Quotas: bounds on usage. There are three types:
//!
//! - [`Quota`]: an amount that all threads share, mostly bytes. A part of it is a [`Reservation`];
//!   if too little is left, a request waits in line ([`InLine`]) or is refused.
//! - [`Permits`]: a count of running requests that one thread keeps, without atomics, and a queue
//!   of those that wait for a permit.
//! - [`FairQuota`]: an amount that is divided fairly between owners. A usage that is added always
//!   succeeds, and when the total is too large, the oldest usage of the owner that uses the most
//!   is shed. Where nothing can be shed, a usage is refused instead ([`FairQuota::try_add`]).
//!
//! Dropping the guard of a [`Quota`] or of [`Permits`] returns what it holds. A [`FairQuota`] hands
//! out numbers instead of guards: whoever adds a usage removes it.

mod bytes;
mod fair;
mod hold;
mod line;
mod permits;

pub use bytes::{LONG_VALUE_BYTES, Quota, Reservation};
pub use fair::FairQuota;
pub use hold::Hold;
pub use line::{InLine, Promise, Turn};
pub use permits::{Admitted, BatchPermits, Permit, Permits, QueuedPermit};

/// Too little is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;
