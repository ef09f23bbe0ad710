//! Tests of the generator with servers that work and servers that fail.

mod failures;
mod latencies;
mod owners;
mod tls;
mod workloads;

use super::*;
use crate::plan::{KeyChoice, Operation, SizeDistribution};
use crate::testing::{Reply, TestServer};

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

/// The run of a plan, to its end.
fn run(plan: &Plan) -> Run {
    super::run(plan, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

fn fill(plan: &Plan) -> Run {
    super::fill(plan, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// The number of failed requests by cause.
fn failed(run: &Run) -> Vec<(&str, u64)> {
    let failed = run.failed.iter();
    failed.map(|(why, count)| (why.as_str(), *count)).collect()
}
