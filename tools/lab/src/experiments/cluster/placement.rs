//! What a client saves that asks the first replica of a key.

use crate::context::ExperimentContext;
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Ask, Operation, Plan, Rate};
use load::report::plot::{Axis, Bars};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The pairs of ACK and FROM.
const REPLICAS: [(u8, u8); 3] = [(1, 1), (2, 3), (3, 3)];

/// The load at which latencies are measured, as a share of what the nodes can do when any
/// of them is asked.
const CALM_SHARE: f64 = 0.4;

const OPERATIONS: [Operation; 2] = [Operation::Get, Operation::Put];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Template(include_str!("placement.md")),
    name: "placement",
    question: "What does a client save that knows where a key lies and asks its first replica, \
               rather than any node?",
    run,
};

/// The measurements of one operation with some replicas.
#[derive(Debug, Serialize)]
struct PlacementCase {
    operation: Operation,
    /// ACK and FROM.
    replicas: (u8, u8),
    /// One measurement for each round.
    any: Measured<Vec<AskCost>>,
    owner: Measured<Vec<AskCost>>,
}

/// What requests cost that are asked in one way.
#[derive(Debug, Serialize)]
struct AskCost {
    /// The closed loop.
    saturated: CostedRun,
    /// The run at a constant rate.
    calm: CostedRun,
    /// Bytes between the nodes for each request of the latter.
    peer_bytes: f64,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cases = Vec::new();
    for replicas in REPLICAS {
        // New nodes for each pair, so that no copies of another pair are left.
        let cluster = LabCluster::start(
            context,
            ClusterLayout {
                nodes: 3,
                memory: "512MiB",
                options: &["--durability", "os"],
            },
        )?;
        let plan = Plan {
            replicas: Some(replicas),
            ..measure::plan(context, &cluster, Operation::Put)
        };
        measure::fill(context, &plan)?;
        for operation in OPERATIONS {
            let plan = Plan {
                operations: vec![(operation, 1.0)],
                ..plan.clone()
            };
            context.log(&case_name(operation, replicas));
            cases.push(case(context, &cluster, &plan)?);
        }
    }
    describe(page, &cases);
    Ok(())
}

/// Measures a plan in both ways, in turn.
fn case(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
) -> Result<PlacementCase, Error> {
    let (mut any, mut owner) = (Ok(Vec::new()), Ok(Vec::new()));
    let mut rate = None;
    for _ in 0..context.effort().pick(1, 3, 5) {
        for (ask, costs) in [(Ask::Any, &mut any), (Ask::Owner, &mut owner)] {
            let plan = Plan {
                ask,
                ..plan.clone()
            };
            let cost = cost(context, cluster, &plan, rate)?;
            if let Ok(cost) = &cost {
                rate.get_or_insert(cost.saturated.rate() * CALM_SHARE);
            }
            match (cost, costs) {
                (Ok(cost), Ok(costs)) => costs.push(cost),
                (Err(problem), costs) => *costs = Err(problem),
                (Ok(_), Err(_)) => {}
            }
        }
    }
    Ok(PlacementCase {
        operation: plan.operations[0].0,
        replicas: plan.replicas.unwrap_or_default(),
        any,
        owner,
    })
}

/// Measures a plan in a closed loop and then at `rate`, or at a share of what the closed
/// loop achieved.
fn cost(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
    rate: Option<f64>,
) -> Result<Measured<AskCost>, Error> {
    let saturated = match measure::run(context, cluster, plan)? {
        Ok(saturated) => saturated,
        Err(problem) => return Ok(Err(problem)),
    };
    let rate = rate.unwrap_or(saturated.rate() * CALM_SHARE);
    let plan = Plan {
        rate: Rate::PerSecond(rate.max(1.0)),
        // Bytes are counted from the first request on.
        warmup_seconds: 0.0,
        ..plan.clone()
    };
    let before = peer_bytes(cluster)?;
    let calm = match measure::run(context, cluster, &plan)? {
        Ok(calm) => calm,
        Err(problem) => return Ok(Err(problem)),
    };
    let bytes = peer_bytes(cluster)? - before;
    let peer_bytes = bytes / calm.run.succeeded.max(1) as f64;
    Ok(Ok(AskCost {
        saturated,
        calm,
        peer_bytes,
    }))
}

/// The bytes that the nodes have sent each other.
fn peer_bytes(cluster: &LabCluster) -> Result<f64, Error> {
    let mut bytes = 0.0;
    for node in &cluster.nodes {
        bytes += node.metrics()?.sum("kvorum_peer_bytes_total", "");
    }
    Ok(bytes)
}

fn case_name(operation: Operation, (ack, from): (u8, u8)) -> String {
    format!("{} {ack}/{from}", sections::method(operation))
}

impl PlacementCase {
    fn name(&self) -> String {
        case_name(self.operation, self.replicas)
    }

    /// Both measurements, with how they asked.
    fn both(&self) -> [(&'static str, &Measured<Vec<AskCost>>); 2] {
        [("any", &self.any), ("owner", &self.owner)]
    }
}

/// The median of a figure over all rounds; none if none has it.
fn median(costs: &[AskCost], figure: impl Fn(&AskCost) -> Option<f64>) -> Option<f64> {
    statistics::median(costs.iter().filter_map(figure))
}

fn cpu_us(cost: &AskCost) -> Option<f64> {
    cost.saturated.cpu_us
}

fn p50_ms(cost: &AskCost) -> Option<f64> {
    cost.calm.latency_ms(50.0)
}

fn peer_bytes_of(cost: &AskCost) -> Option<f64> {
    Some(cost.peer_bytes)
}

fn describe(page: &mut Page, cases: &[PlacementCase]) {
    let mut table = MarkdownTable::new([
        "request",
        "asked",
        "closed loop",
        "CPU per request",
        "at",
        "p50",
        "p99",
        "between nodes",
    ]);
    for case in cases {
        for (asked, cost) in case.both() {
            let Ok(costs) = cost else { continue };
            let asked_rate = costs.first().map(|first| text::requested(&first.calm.run));
            table.row([
                case.name(),
                asked.to_owned(),
                text::rate(median(costs, |cost| Some(cost.saturated.rate()))),
                text::cpu(median(costs, cpu_us)),
                asked_rate.unwrap_or_default(),
                text::latency(median(costs, p50_ms)),
                text::latency(median(costs, |cost| cost.calm.latency_ms(99.0))),
                units::bytes(median(costs, peer_bytes_of).unwrap_or(f64::NAN)),
            ]);
        }
    }
    page.keep_table("measured", table);
    let failed = cases.iter().flat_map(|case| {
        let both = case.both().into_iter();
        both.map(|(asked, cost)| (format!("{}, {asked}", case.name()), cost))
    });
    sections::failed_measurements(page, failed);
    for (file, title, axis, value) in [
        (
            "cpu",
            "CPU time of all nodes per request",
            Axis::linear("CPU time", Unit::Milliseconds),
            (|cost| Some(cpu_us(cost)? / 1e3)) as fn(&AskCost) -> Option<f64>,
        ),
        (
            "bytes",
            "Bytes between nodes per request",
            Axis::linear("bytes", Unit::Bytes),
            peer_bytes_of,
        ),
        (
            "latency",
            "Median latency at a constant rate",
            Axis::linear("p50", Unit::Milliseconds),
            p50_ms,
        ),
    ] {
        let mut bars = Bars::new(title, cases.iter().map(PlacementCase::name), axis);
        for (index, asked) in ["any", "owner"].into_iter().enumerate() {
            let values = cases.iter().map(|case| {
                let costs = case.both()[index].1.as_ref().ok();
                let figure = costs.and_then(|costs| median(costs, value));
                figure.unwrap_or(f64::NAN)
            });
            bars = bars.with(asked, values);
        }
        page.keep_chart(file, bars.draw());
    }
    page.data("runs", &cases);
}
