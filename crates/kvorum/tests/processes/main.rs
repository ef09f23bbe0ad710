//! Tests of the program as users run it: real processes, real ports, real
//! files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[cfg(test)]
#[path = "../../../server/tests/console/browser.rs"]
mod browser;
mod cluster;
mod commands;
mod dev;
mod fixtures;
mod member_changes;
mod node;
#[expect(
    clippy::disallowed_methods,
    reason = "these tests observe other processes, which have clocks and files of their own"
)]
mod support;
mod tls;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_kvorum");
