//! How evenly keys are spread over nodes, and what that costs.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, Capacity, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page};
use crate::sections;
use crate::{Error, Experiment, PageText};
use load::plan::{Operation, Plan, Rate};
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The number of nodes over which keys are spread.
const NODES: usize = 10;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("sharding.md")),
    name: "sharding",
    question: "How evenly are keys spread over ten nodes, and how does the breaking point of \
               three nodes with one copy of each key compare with that of one node?",
    run,
};

/// The measurements of an operation on a number of nodes.
#[derive(Debug, Serialize)]
struct ShardingCase {
    nodes: usize,
    operation: Operation,
    capacity: Measured<Capacity>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let spread = spread(context)?;
    let mut cases = Vec::new();
    let mut profiles = Vec::new();
    for nodes in [1, 3] {
        let cluster = LabCluster::start(
            context,
            ClusterLayout {
                nodes,
                memory: "512MiB",
                options: &["--durability", "os", "--ack", "1", "--from", "1"],
            },
        )?;
        let plan = measure::plan(context, &cluster, Operation::Put);
        measure::fill(context, &plan)?;
        for operation in [Operation::Put, Operation::Get] {
            context.log(&format!("{} of {nodes}", sections::method(operation)));
            let mut plan = Plan {
                operations: vec![(operation, 1.0)],
                ..plan.clone()
            };
            let capacity = measure::capacity(context, &cluster, &plan)?;
            if let (3, Ok(capacity)) = (nodes, &capacity) {
                plan.rate = measure::share_of(capacity.rate(), 0.7);
                let node = &cluster.nodes[0];
                let profile = profile::under_load(context, node, &plan, ProfileKind::Cpu)?;
                profiles.push((operation, profile));
            }
            cases.push(ShardingCase {
                nodes,
                operation,
                capacity,
            });
        }
    }
    describe(page, &spread, &cases, &profiles);
    Ok(())
}

/// The size of the tables of each of ten nodes, and the number of keys.
#[derive(Debug, Serialize)]
struct KeySpread {
    keys: u64,
    bytes: Vec<u64>,
}

fn spread(context: &ExperimentContext<'_>) -> Result<KeySpread, Error> {
    let mut cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: NODES,
            memory: "128MiB",
            options: &["--durability", "os", "--ack", "1", "--from", "1"],
        },
    )?;
    let plan = Plan {
        keys: context.effort().pick(10_000, 500_000, 5_000_000),
        rate: Rate::Max,
        ..measure::plan(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let mut bytes = Vec::new();
    for node in &mut cluster.nodes {
        node.stop(context)?;
        bytes.push(node.table_bytes()?);
    }
    Ok(KeySpread {
        keys: plan.keys,
        bytes,
    })
}

impl KeySpread {
    /// The sizes of the smallest and the largest node, in bytes.
    fn extremes(&self) -> Option<(f64, f64)> {
        let least = self.bytes.iter().min()?;
        let most = self.bytes.iter().max()?;
        Some((*least as f64, *most as f64))
    }
}

fn describe(
    page: &mut Page,
    spread: &KeySpread,
    cases: &[ShardingCase],
    profiles: &[(Operation, Measured<FoldedProfile>)],
) {
    let names = (1..=spread.bytes.len()).map(|number| format!("node-{number}"));
    let mut table = MarkdownTable::new(["node", "tables", "of the mean"]);
    let mean = spread.bytes.iter().sum::<u64>() as f64 / spread.bytes.len().max(1) as f64;
    for (name, bytes) in names.clone().zip(&spread.bytes) {
        let bytes = *bytes as f64;
        table.row([name, units::bytes(bytes), units::share(bytes / mean)]);
    }
    page.keep_table("bytes", table);
    page.keep_value("keys", units::count(spread.keys));
    let extremes = spread.extremes().unwrap_or((f64::NAN, f64::NAN));
    page.keep_value("smallest", units::bytes(extremes.0));
    page.keep_value("largest", units::bytes(extremes.1));
    let axis = Axis::linear("tables", Unit::Bytes);
    let values = spread.bytes.iter().map(|bytes| *bytes as f64);
    let bars = Bars::new("Bytes of tables, by node", names, axis).with("", values);
    page.keep_chart("bytes", bars.draw());

    sections::capacities(
        page,
        "nodes",
        cases.iter().map(|case| (case.name(), &case.capacity)),
    );
    let axis = Axis::linear("breaking point", Unit::PerSecond);
    let mut bars = Bars::new("Breaking points", ["PUT", "GET"].map(str::to_owned), axis);
    for nodes in [1, 3] {
        let measured = cases.iter().filter(|case| case.nodes == nodes);
        let rates = measured.map(|case| sections::breaking_point(&case.capacity));
        let plural = if nodes == 1 { "" } else { "s" };
        bars = bars.with(format!("{nodes} node{plural}"), rates);
    }
    page.keep_chart("breaking-points", bars.draw());
    for (operation, profile) in profiles {
        let method = sections::method(*operation);
        let title = format!("{method} on one of three nodes: CPU time");
        let file = format!("{}-cpu", method.to_lowercase());
        sections::profile(page, &file, &title, profile);
    }
    page.data("bytes", spread);
    page.data("runs", &cases);
}

impl ShardingCase {
    fn name(&self) -> String {
        let plural = if self.nodes == 1 { "" } else { "s" };
        format!(
            "{}, {} node{plural}",
            sections::method(self.operation),
            self.nodes
        )
    }
}
