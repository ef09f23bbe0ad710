//! The cost of more copies and more acknowledgements.

use crate::context::ExperimentContext;
use crate::figures::{self, CAPACITY};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, Setup, share};
use crate::measure::profile::ProfileKind;
use crate::page::{Page, text};
use crate::{Error, Experiment};
use load::plan::{Operation, Plan};
use load::report::plot::Axis;
use load::report::units::Unit;

/// The number of nodes, the pair of ACK and FROM, and its place in charts.
type Replicas = (usize, Option<(u8, u8)>, &'static str);

const REPLICAS: [Replicas; 5] = [
    (1, None, "one node"),
    (3, Some((1, 1)), "three nodes, 1/1"),
    (3, Some((1, 3)), "1/3"),
    // The one that was measured of the earlier store, which is also profiled.
    (3, Some((2, 3)), "2/3"),
    (3, Some((3, 3)), "3/3"),
];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("replication.md"),
    name: "replication",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let setups = REPLICAS.map(|replicas| setup(context, replicas));
    let done = matrix::run(context, setups)?;
    describe(page, &done);
    Ok(())
}

/// New nodes for each pair, so that no copies of another pair are left.
fn setup(context: &ExperimentContext<'_>, replicas: Replicas) -> Setup<'static> {
    let (nodes, replicas, group) = replicas;
    let plan = Plan {
        replicas,
        ..measure::plan(context, Operation::Put)
    };
    let mut setup = Setup {
        fill: Some(plan.clone()),
        ..Setup::of(nodes, "512MiB", &["--durability", "os"])
    };
    for operation in [Operation::Put, Operation::Get] {
        let method = figures::method(operation);
        let plan = measure::with(&plan, operation);
        let name = match replicas {
            Some((ack, from)) => format!("{method} {ack}/{from}"),
            None => format!("{method}, one node"),
        };
        let case = Case::new(&*name, plan.clone(), Load::BreakingPoint);
        setup.cases.push(case.at(method, group));
        if replicas == Some((2, 3)) {
            let title = format!("{name} on one of three nodes");
            for kind in [ProfileKind::Cpu, ProfileKind::Alloc, ProfileKind::Wait] {
                let file = format!("{}-{}", method.to_lowercase(), kind.name());
                let rate = share(0.7, &*name, Done::breaking_point);
                let profile = Case::profile(file, &title, plan.clone(), kind, Some(rate));
                setup.cases.push(profile);
            }
        }
    }
    setup
}

fn describe(page: &mut Page, done: &[Done]) {
    let cases = || done.iter().filter(|done| done.profile.is_none());
    let mut table = figures::table_of(page, "measured", &["request"], &[CAPACITY], cases());
    table.column(
        "of one node",
        cases().map(|case| {
            let alone = cases().find(|one| one.at.0 == case.at.0);
            text::percent(case.breaking_point() / alone.map_or(f64::NAN, Done::breaking_point))
        }),
    );
    page.keep_table("measured", table);
    let axis = Axis::linear("requests", Unit::PerSecond);
    figures::bars(
        page,
        "breaking-points",
        "Breaking points",
        axis,
        cases(),
        Done::breaking_point,
    );
    let title = "CPU time of all nodes per request";
    let axis = Axis::linear("CPU time", Unit::Milliseconds);
    figures::bars(page, "cpu", title, axis, cases(), Done::cpu_ms);
    figures::profiles(page, done);
    page.data("runs", &done);
}
