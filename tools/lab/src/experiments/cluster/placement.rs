//! What a client saves that asks the first replica of a key.

use crate::context::ExperimentContext;
use crate::figures::{self, CPU, Column, P50, P99};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, Setup, share};
use crate::page::{MarkdownTable, Page};
use crate::{Error, Experiment};
use load::plan::{Ask, Operation, Plan};
use load::report::plot::Axis;
use load::report::units::{self, Unit};

/// The pairs of ACK and FROM.
const REPLICAS: [(u8, u8); 3] = [(1, 1), (2, 3), (3, 3)];

/// The load at which latencies are measured, as a share of what the nodes can do when any
/// of them is asked.
const CALM_SHARE: f64 = 0.4;

/// The columns of the closed loop, and of the load at a constant rate.
const CLOSED: &[Column] = &[("closed loop", |done| units::rate(done.rate())), CPU];
const CALM: &[Column] = &[
    ("at", figures::REQUESTED.1),
    P50,
    P99,
    ("between nodes", |done| units::bytes(peer_bytes(done))),
];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("placement.md"),
    name: "placement",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let setups = REPLICAS.iter().flat_map(|replicas| {
        let operations = [Operation::Get, Operation::Put].into_iter();
        operations.map(|operation| setup(context, *replicas, operation))
    });
    let done = matrix::run(context, setups.collect::<Vec<_>>())?;
    describe(page, &done);
    Ok(())
}

/// New nodes for each pair, so that no copies of another pair are left. Both ways are measured in
/// turn: in a closed loop, and then at a rate.
fn setup(
    context: &ExperimentContext<'_>,
    replicas: (u8, u8),
    operation: Operation,
) -> Setup<'static> {
    let fill = Plan {
        replicas: Some(replicas),
        ..measure::plan(context, Operation::Put)
    };
    let name = format!(
        "{} {}/{}",
        figures::method(operation),
        replicas.0,
        replicas.1
    );
    let case = |asked: &'static str, ask, is_calm| {
        let mut plan = Plan {
            ask,
            ..measure::with(&fill, operation)
        };
        let mut load = Load::Closed;
        if is_calm {
            // Bytes are counted from the first request on.
            plan.warmup_seconds = 0.0;
            load = Load::At(share(CALM_SHARE, format!("{name}, any"), Done::rate));
        }
        Case::new(&*name, plan, load).with(asked).at(asked, &*name)
    };
    let cases = [false, true].iter().flat_map(|is_calm| {
        let ways = [("any", Ask::Any), ("owner", Ask::Owner)].into_iter();
        ways.map(|(asked, ask)| case(asked, ask, *is_calm))
    });
    Setup {
        cases: cases.collect(),
        fill: Some(fill.clone()),
        rounds: context.effort().pick(1, 3, 5),
        ..Setup::of(3, "512MiB", &["--durability", "os"])
    }
}

/// The bytes that the nodes sent each other, for each request.
fn peer_bytes(done: &Done) -> f64 {
    let requests = done.median(|round| Some(round.load.run.succeeded as f64));
    done.grown("kvorum_peer_bytes_total", "") / requests
}

fn describe(page: &mut Page, done: &[Done]) {
    let calm = || done.iter().filter(|done| done.is_open());
    let closed = || done.iter().filter(|done| !done.is_open());
    let heads = ["request", "asked"].into_iter();
    let heads = heads.chain(CLOSED.iter().chain(CALM).map(|(head, _)| *head));
    let mut table = MarkdownTable::new(heads);
    for (closed, calm) in closed().zip(calm()) {
        let cells = CLOSED.iter().map(|(_, cell)| cell(closed));
        let cells = cells.chain(CALM.iter().map(|(_, cell)| cell(calm)));
        table.row(closed.names.iter().cloned().chain(cells));
    }
    page.keep_table("measured", table);
    let rounds = done.iter().map(|done| (done.name(), &done.rounds));
    figures::failed_measurements(page, rounds);
    let title = "CPU time of all nodes per request";
    let axis = Axis::linear("CPU time", Unit::Milliseconds);
    figures::bars(page, "cpu", title, axis, closed(), Done::cpu_ms);
    let axis = Axis::linear("bytes", Unit::Bytes);
    let title = "Bytes between nodes per request";
    figures::bars(page, "bytes", title, axis, calm(), peer_bytes);
    let axis = Axis::linear("p50", Unit::Milliseconds);
    let title = "Median latency at a constant rate";
    figures::bars(page, "latency", title, axis, calm(), |done| {
        done.latency_ms(50.0)
    });
    page.data("runs", &done);
}
