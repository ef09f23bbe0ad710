//! The generator against servers that behave, and others that do not.

mod failures;
mod latencies;
mod workloads;

use super::*;
use crate::plan::{KeyChoice, Operation, SizeDistribution};
use crate::testing::TestServer;

/// A short plan for a server: few keys, a closed loop over four connections.
fn plan(server: &TestServer, operation: Operation) -> Plan {
    Plan {
        connections: 4,
        warmup_seconds: 0.0,
        seconds: 0.3,
        keys: 200,
        ..Plan::new(server.url(), operation, Rate::Max)
    }
}

/// What comes of a plan that nobody stops.
fn run(plan: &Plan) -> Run {
    super::run(plan, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn fill(plan: &Plan) -> Run {
    super::fill(plan, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// How many requests failed, and by what.
fn failed(run: &Run) -> Vec<(&str, u64)> {
    let failed = run.failed.iter();
    failed.map(|(why, count)| (why.as_str(), *count)).collect()
}
