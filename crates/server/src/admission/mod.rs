//! Admission: how much of the node's memory and time requests and connections may take. What
//! bounds an amount is one of the quotas of `base`; here is what they are used for.
//!
//! - [`base::Permits`], one for each runtime: requests that run, and requests that wait for that.
//! - `uploads`: bytes of bodies that are being received; `upload_wait`: how they wait.
//! - `batch_streams`: chunked batches.
//! - `page_limiter`: the time spent on pages, which need no permit.
//! - `shedding`: what connections hold that are not done with their handshakes or records, or
//!   that do not read. One of the owner (`owners`) that uses the most is shed.
//!
//! Ranges, long heads and the memory of batches have a [`base::Quota`] each, which all runtimes
//! share (`net::ListenerShared`). They are separate, so that clients that stall at one of them
//! block no client at another. The node has two more, for long answers and for the batches of
//! ranges.

pub(crate) mod batch_streams;
pub(crate) mod owners;
pub(crate) mod page_limiter;
pub(crate) mod shedding;
mod upload_wait;
mod uploads;

pub(crate) use upload_wait::UploadWait;
pub(crate) use uploads::Uploads;
