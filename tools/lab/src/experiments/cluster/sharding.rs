//! How evenly keys are spread over nodes, and what that costs.

use crate::context::ExperimentContext;
use crate::figures::{self, CAPACITY};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, Setup, share};
use crate::measure::profile::ProfileKind;
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page};
use crate::{Error, Experiment};
use load::plan::{Operation, Plan};
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The number of nodes over which keys are spread.
const NODES: usize = 10;

/// One copy of each key.
const OPTIONS: &[&str] = &["--durability", "os", "--ack", "1", "--from", "1"];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("sharding.md"),
    name: "sharding",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    describe_spread(page, &spread(context)?);
    let plan = measure::plan(context, Operation::Put);
    let setups = [(1, "1 node"), (3, "3 nodes")].map(|(nodes, series)| {
        let mut setup = Setup {
            fill: Some(plan.clone()),
            ..Setup::of(nodes, "512MiB", OPTIONS)
        };
        for operation in [Operation::Put, Operation::Get] {
            let method = figures::method(operation);
            let plan = measure::with(&plan, operation);
            let name = format!("{method}, {series}");
            let case = Case::new(&*name, plan.clone(), Load::BreakingPoint);
            setup.cases.push(case.at(series, method));
            if nodes == 3 {
                let file = format!("{}-cpu", method.to_lowercase());
                let title = format!("{method} on one of three nodes");
                let rate = share(0.7, name, Done::breaking_point);
                let profile = Case::profile(file, &title, plan, ProfileKind::Cpu, Some(rate));
                setup.cases.push(profile);
            }
        }
        setup
    });
    let done = matrix::run(context, setups)?;
    let cases = || done.iter().filter(|done| done.profile.is_none());
    figures::table(page, "measured", &["nodes"], &[CAPACITY], cases());
    let axis = Axis::linear("breaking point", Unit::PerSecond);
    figures::bars(
        page,
        "breaking-points",
        "Breaking points",
        axis,
        cases(),
        Done::breaking_point,
    );
    figures::profiles(page, &done);
    page.data("runs", &done);
    Ok(())
}

/// The size of the tables of each of ten nodes, and the number of keys.
#[derive(Debug, Serialize)]
struct KeySpread {
    keys: u64,
    bytes: Vec<u64>,
}

fn spread(context: &ExperimentContext<'_>) -> Result<KeySpread, Error> {
    let layout = ClusterLayout {
        nodes: NODES,
        memory: "128MiB",
        options: OPTIONS,
    };
    let mut cluster = LabCluster::start(context, layout)?;
    let plan = Plan {
        keys: context.effort().pick(10_000, 500_000, 5_000_000),
        ..measure::plan_on(context, &cluster, Operation::Put)
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

fn describe_spread(page: &mut Page, spread: &KeySpread) {
    let names = (1..=spread.bytes.len()).map(|number| format!("node-{number}"));
    let bytes = || spread.bytes.iter().map(|bytes| *bytes as f64);
    let mut table = MarkdownTable::new(["node", "tables", "of the mean"]);
    let mean = bytes().sum::<f64>() / spread.bytes.len().max(1) as f64;
    for (name, bytes) in names.clone().zip(bytes()) {
        table.row([name, units::bytes(bytes), units::share(bytes / mean)]);
    }
    page.keep_table("bytes", table);
    page.keep_value("keys", units::count(spread.keys));
    page.keep_value("smallest", units::bytes(bytes().fold(f64::NAN, f64::min)));
    page.keep_value("largest", units::bytes(bytes().fold(f64::NAN, f64::max)));
    let axis = Axis::linear("tables", Unit::Bytes);
    let bars = Bars::new("Bytes of tables, by node", names, axis).with("", bytes());
    page.keep_chart("bytes", bars.draw());
    page.data("bytes", spread);
}
