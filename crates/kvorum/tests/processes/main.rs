//! The program as its users meet it: real processes, real ports, real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of tests fails its test by panicking"
)]

mod dev;
mod options;
mod serve;
mod support;
