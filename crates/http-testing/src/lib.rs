//! HTTP/1.1 for tests, over blocking sockets, plain or with TLS.
//!
//! A [`Connection`] sends any bytes, right or wrong, and reads requests and responses
//! exactly as they come; a library would repair the one and hide the other. What is malformed
//! panics. What a connection fails with is an [`io::Error`](std::io::Error).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "only tests depend on it, and what is malformed ends them"
)]

mod connection;
mod message;

pub use connection::{Connection, Stream, WAIT_MAX};
pub use message::{Fields, Reply, Request};

#[cfg(test)]
mod tests;
