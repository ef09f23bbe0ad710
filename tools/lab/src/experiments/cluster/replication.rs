//! The cost of more copies and more acknowledgements.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, OperationProfile, ProfileKind};
use crate::measure::{self, Capacity, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText};
use load::plan::{Operation, Plan};
use load::report::plot::{Axis, Bars};
use load::report::units::Unit;
use serde::Serialize;

/// The pairs of ACK and FROM.
const REPLICAS: [(u8, u8); 3] = [(1, 3), (2, 3), (3, 3)];
/// The pair that the study measured, which is also profiled.
const QUORUM: (u8, u8) = (2, 3);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("replication.md")),
    name: "replication",
    question: "How much does a request cost when three nodes keep each key and one, two or all of \
               them must answer, and where does the time go?",
    run,
};

/// The measurements with some replicas.
#[derive(Debug, Serialize)]
struct ReplicationCase {
    operation: Operation,
    /// ACK and FROM; none for one node alone.
    replicas: Option<(u8, u8)>,
    capacity: Measured<Capacity>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    let layout = |nodes| ClusterLayout {
        nodes,
        memory: "512MiB",
        options: &["--durability", "os"],
    };
    let alone = LabCluster::start(context, layout(1))?;
    let plan = measure::plan(context, &alone, Operation::Put);
    measure::fill(context, &plan)?;
    for operation in [Operation::Put, Operation::Get] {
        cases.push(case(context, &alone, &plan, operation, None)?);
    }
    drop(alone);

    for replicas in std::iter::once((1, 1)).chain(REPLICAS) {
        // New nodes for each pair, so that no copies of another pair are left.
        let cluster = LabCluster::start(context, layout(3))?;
        let plan = Plan {
            targets: cluster.targets(),
            replicas: Some(replicas),
            ..plan.clone()
        };
        measure::fill(context, &plan)?;
        for operation in [Operation::Put, Operation::Get] {
            let case = case(context, &cluster, &plan, operation, Some(replicas))?;
            if let (QUORUM, Ok(capacity)) = (replicas, &case.capacity) {
                let plan = Plan {
                    operations: vec![(operation, 1.0)],
                    rate: measure::share_of(capacity.rate(), 0.7),
                    ..plan.clone()
                };
                for kind in [ProfileKind::Cpu, ProfileKind::Alloc, ProfileKind::Lock] {
                    let node = &cluster.nodes[0];
                    profiles.push(OperationProfile {
                        operation,
                        kind,
                        profile: profile::under_load(context, node, &plan, kind)?,
                    });
                }
            }
            cases.push(case);
        }
    }
    describe(page, &cases, &profiles);
    Ok(())
}

fn case(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
    operation: Operation,
    replicas: Option<(u8, u8)>,
) -> Result<ReplicationCase, Error> {
    let plan = Plan {
        operations: vec![(operation, 1.0)],
        ..plan.clone()
    };
    let mut case = ReplicationCase {
        operation,
        replicas,
        capacity: Err(String::new()),
    };
    context.log(&case.name());
    case.capacity = measure::capacity(context, cluster, &plan)?;
    Ok(case)
}

impl ReplicationCase {
    fn name(&self) -> String {
        let method = sections::method(self.operation);
        match self.replicas {
            Some((ack, from)) => format!("{method} {ack}/{from}"),
            None => format!("{method}, one node"),
        }
    }
}

fn describe(page: &mut Page, cases: &[ReplicationCase], profiles: &[OperationProfile]) {
    let mut table = sections::capacity_table("request");
    table.column("of one node");
    for case in cases {
        let alone = cases.iter().find(|one| one.operation == case.operation);
        let alone = alone.map_or(f64::NAN, |one| sections::breaking_point(&one.capacity));
        let mut row = sections::capacity_row(&case.name(), &case.capacity);
        row.push(text::percent(
            sections::breaking_point(&case.capacity) / alone,
        ));
        table.row(row);
    }
    page.keep_table("measured", table);
    sections::failed_measurements(page, cases.iter().map(|case| (case.name(), &case.capacity)));
    let of = |operation| cases.iter().filter(move |case| case.operation == operation);
    let names = of(Operation::Put).map(|case| match case.replicas {
        Some((1, 1)) => "three nodes, 1/1".to_owned(),
        Some((ack, from)) => format!("{ack}/{from}"),
        None => "one node".to_owned(),
    });
    let names: Vec<String> = names.collect();
    for (file, title, axis, value) in [
        (
            "breaking-points",
            "Breaking points",
            Axis::linear("requests", Unit::PerSecond),
            sections::breaking_point as fn(&Measured<Capacity>) -> f64,
        ),
        (
            "cpu",
            "CPU time of all nodes per request",
            Axis::linear("CPU time", Unit::Milliseconds),
            sections::cpu_ms,
        ),
    ] {
        let mut bars = Bars::new(title, names.clone(), axis);
        for operation in [Operation::Put, Operation::Get] {
            let values = of(operation).map(|case| value(&case.capacity));
            bars = bars.with(sections::method(operation), values);
        }
        page.keep_chart(file, bars.draw());
    }
    sections::operation_profiles(page, " 2/3 on one of three nodes", profiles);
    page.data("runs", &cases);
}
