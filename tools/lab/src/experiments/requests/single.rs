//! One node under load over one connection and over many.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FILTERS, OperationProfile, ProfileKind, StackMatcher};
use crate::measure::{self, Capacity, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText};
use load::plan::{Operation, Rate};
use serde::Serialize;

/// The stable load as a share of the breaking point, as in the study: 30,000 of 40,000 to
/// 45,000 requests per second.
const STABLE_SHARE: f64 = 30.0 / 42.5;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("single.md")),
    name: "single",
    question: "What is the breaking point of one node over a single connection, what are the \
               latencies below it, and where do CPU time and allocations go?",
    run,
};

/// The measurements of one operation over a number of connections.
#[derive(Debug, Serialize)]
struct SingleNodeCase {
    operation: Operation,
    connections: usize,
    capacity: Measured<Capacity>,
    stable: Measured<CostedRun>,
}

impl SingleNodeCase {
    fn name(&self) -> String {
        let (method, connections) = (sections::method(self.operation), self.connections);
        let plural = if connections == 1 { "" } else { "s" };
        format!("{method}, {connections} connection{plural}")
    }
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "1GiB",
            options: &["--durability", "os", "--memtable-bytes", "4MiB"],
        },
    )?;
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    for operation in [Operation::Put, Operation::Get] {
        let mut plan = measure::plan(context, &cluster, operation);
        measure::fill(context, &plan)?;
        for connections in [1, 64] {
            context.log(&format!(
                "{} over {connections}",
                sections::method(operation)
            ));
            plan.connections = connections;
            plan.rate = Rate::Max;
            let capacity = measure::capacity(context, &cluster, &plan)?;
            let stable = match &capacity {
                Ok(capacity) => {
                    plan.rate = measure::share_of(capacity.rate(), STABLE_SHARE);
                    let mut longer = plan.clone();
                    longer.seconds = context.effort().pick(0.5, 8.0, 30.0);
                    measure::run(context, &cluster, &longer)?
                }
                Err(problem) => Err(problem.clone()),
            };
            cases.push(SingleNodeCase {
                operation,
                connections,
                capacity,
                stable,
            });
        }
        // The plan is now that of the stable load over 64 connections.
        for kind in [ProfileKind::Cpu, ProfileKind::Alloc] {
            let profile = profile::under_load(context, &cluster.nodes[0], &plan, kind)?;
            profiles.push(OperationProfile {
                operation,
                kind,
                profile,
            });
        }
    }
    let flushes = cluster.nodes[0].metrics()?;
    page.keep_value(
        "flushes",
        text::count(flushes.sum("kvorum_store_flushes_total", "")),
    );
    for (name, operation, kind, frames) in [
        (
            "flushes' share",
            Operation::Put,
            ProfileKind::Cpu,
            StackMatcher::Thread("flush"),
        ),
        (
            "filters' share",
            Operation::Get,
            ProfileKind::Alloc,
            StackMatcher::Named(FILTERS),
        ),
    ] {
        let mut taken = profiles.iter();
        let taken = taken.find(|taken| taken.operation == operation && taken.kind == kind);
        let profile = taken.and_then(|taken| taken.profile.as_ref().ok());
        page.keep_value(
            name,
            text::percent(profile.map_or(f64::NAN, |profile| profile.share(frames))),
        );
    }
    describe(page, &cases, &profiles);
    Ok(())
}

fn describe(page: &mut Page, cases: &[SingleNodeCase], profiles: &[OperationProfile]) {
    sections::capacities(
        page,
        "load",
        cases.iter().map(|case| (case.name(), &case.capacity)),
    );
    let stable = || cases.iter().map(|case| (case.name(), &case.stable));
    sections::latencies(page, "at-the-stable-load", "load", stable());
    page.keep_chart("latency", sections::percentiles(stable()));
    sections::operation_profiles(page, "", profiles);
    page.data("runs", &cases);
}
