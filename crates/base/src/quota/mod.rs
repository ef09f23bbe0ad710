//! Quotas: bounds on what may be taken at a time. There are three:
//!
//! - [`Quota`]: an amount that all threads share, of bytes mostly. Who takes a part has a
//!   [`Reservation`]; who finds too little waits in line ([`InLine`]) or is refused.
//! - [`Permits`]: a count that one thread keeps, without atomics: of requests that run. There is a
//!   queue for those that find none.
//! - [`FairQuota`]: an amount of which everyone gets what they need. What is too much is shed: the
//!   oldest usage of the owner that uses the most.
//!
//! Whatever was taken is given back when its guard is dropped.

mod bytes;
mod fair;
mod line;
mod permits;

pub use bytes::{LONG_VALUE_BYTES, Quota, Reservation};
pub use fair::FairQuota;
pub use line::{InLine, Promise, Turn};
pub use permits::{Admitted, BatchPermits, Permit, Permits, QueuedPermit};

/// Too little is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;
