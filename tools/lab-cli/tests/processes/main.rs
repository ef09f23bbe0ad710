//! Tests of `kvorum-lab` as users run it, on real nodes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod access;
mod lab_command;
mod load_command;
mod options;
#[path = "../../../../crates/kvorum/tests/processes/support.rs"]
#[expect(dead_code, reason = "the tests of nodes use the rest of it")]
mod support;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The program.
const LAB: &str = env!("CARGO_BIN_EXE_kvorum-lab");

/// The program whose nodes it measures: cargo puts both into one folder.
const PROGRAM: &str = LAB.split_at(LAB.len() - "-lab".len()).0;

/// The command for the program with arguments, without variables that set options.
fn kvorum_lab<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    assert!(
        Path::new(PROGRAM).is_file(),
        "{PROGRAM} is missing: run cargo build --bin kvorum before these tests"
    );
    support::kvorum_by(Command::new(LAB), arguments)
}
