//! The program as its users meet it: real processes, real ports, real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what only tests use fails them by panicking"
)]

mod dev;
mod kills;
mod options;
mod serve;
mod support;
