//! Admission: how much of the node's memory and time requests and connections may take.
//!
//! - [`Gate`]: requests that run, and requests that wait for a permit.
//! - [`Uploads`]: bytes of bodies that are being received.
//! - `places`: ranges that are streamed, and those that wait in line.
//! - `batch_places`: chunked batches.
//! - `page_limiter`: the time spent on pages, which are outside the gate.
//! - `fair_room`: what connections hold that are not done with their handshakes or records.
//!   A connection of the address that holds the most gives way (`owners`, `holdings`).

pub(crate) mod batch_places;
pub(crate) mod fair_room;
mod holdings;
pub(crate) mod owners;
pub(crate) mod page_limiter;
pub(crate) mod places;
mod request_gate;
mod upload_budgets;
mod upload_room;

pub(crate) use request_gate::{Admission, BatchPermits, Gate, Permit};
pub(crate) use upload_budgets::Uploads;
pub(crate) use upload_room::{Promise, RoomWait};
