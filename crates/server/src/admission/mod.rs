//! Admission: how much of the node's memory and time requests and connections may take. The quotas
//! of `base` are the mechanism; this module is their use. A request that finds neither what it
//! needs nor room in the queue for it is refused with `Problem::overloaded`.
//!
//! - [`base::Permits`], one for each runtime: running requests, and requests that wait for a
//!   permit.
//! - `uploads`: bytes of bodies that are being received; `upload_wait`: how they wait.
//! - `batch_streams`: chunked batches.
//! - `page_limiter`: the time spent on pages, which need no permit.
//! - `wait_sites`: where requests wait, by the names that profiles of waits show.
//! - `shedding`: usage by connections with incomplete handshakes or records, or whose clients do
//!   not read. One of the owner (`owners`) that uses the most is shed.
//!
//! Scans, long heads and the memory of batches have a [`base::Quota`] each, which all runtimes
//! share (`net::ListenerShared`). They are separate, so that clients that stall at one of them
//! block no client at another. The node has two more, for long answers and for the batches of
//! scans.

pub(crate) mod batch_streams;
pub(crate) mod owners;
pub(crate) mod page_limiter;
pub(crate) mod shedding;
mod upload_wait;
mod uploads;
pub(crate) mod wait_sites;

pub(crate) use upload_wait::UploadWait;
pub(crate) use uploads::Uploads;
