//! The program as its users meet it: real processes, real ports, real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what only tests use fails them by panicking"
)]

mod cluster;
mod dev;
mod dev_commands;
mod generator;
mod kills;
mod lab;
mod ledger;
mod load;
mod lost_folder;
mod namespaces;
mod options;
mod outages;
mod partitions;
mod profiles;
mod refusals;
mod serve;
mod support;
