//! Tests of the program as users run it: real processes, real ports, real
//! files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod authority;
#[cfg(test)]
#[path = "../../../server/tests/console/browser.rs"]
#[expect(dead_code, reason = "the tests of a node's console use the rest of it")]
mod browser;
mod client_commands;
mod client_load;
mod client_tokens;
mod client_transfers;
mod cluster;
mod dev;
mod dev_commands;
mod dev_console;
mod dev_faults;
mod dev_pages;
mod dev_screenshots;
mod forgotten_day;
mod frozen_ranges;
mod generated_load;
mod healing;
mod hostile_node;
mod killed_node;
mod ledger;
mod lost_folder;
mod namespaces;
mod node_report;
mod options;
mod outages;
mod partitions;
mod profile_command;
mod refusals;
mod serve;
mod starts;
mod steady_load;
#[expect(
    clippy::disallowed_methods,
    reason = "these tests observe other processes, which have clocks and files of their own"
)]
mod support;
mod thread_limits;
mod tls;
mod tls_certificates;
mod tls_changes;
mod tokens;
mod tombstone_gc;
mod traces;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_kvorum");
