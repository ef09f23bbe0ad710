//! Clocks: the hybrid clock that allocates timestamps, how far ahead timestamps are
//! reserved, and which clocks a node trusts.

mod bound;
mod hybrid;
mod timestamp_reservation;

pub use bound::{ClockBound, MedianAhead};
pub use hybrid::HybridClock;
pub use timestamp_reservation::TimestampReservation;
