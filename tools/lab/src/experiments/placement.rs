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

pub(super) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Placement",
        method: &[
            "Three nodes on this machine, with `--durability os`, for each of the pairs 1/1, 2/3 and \
         3/3. `GET` and `PUT` of 64-byte values over 64 connections, twice: each request goes to \
         the connection that has been free longest, whatever node it leads to (`--ask any`), or \
         to the first replica of its key (`--ask owner`). With 1/1 that is the only node that has \
         the key.",
            "CPU time is that of all nodes for each request, in a closed loop. Latencies and bytes \
         are measured at a constant rate, the same for both: two fifths of what a closed loop \
         achieves when any node is asked. The bytes are those that nodes send each other \
         (`kvorum_peer_bytes_total`), heartbeats included, for each request. The two ways are \
         measured in turn, several times, and each figure is the median.",
        ],
    },
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
    page.section("Measured");
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
    page.table(&table);
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
        page.figure(file, title, bars.draw());
    }
    page.section("What it shows");
    page.list(cases.iter().filter_map(finding));
    page.paragraph(
        "[Which nodes hold a key](../reference/placement.md) says how a client computes the first replica, \
         and [the load generator](../how-to/load.md) what `--ask owner` does.",
    );
    page.data("runs", &cases);
}

/// What a case shows; none if a measurement failed.
fn finding(case: &PlacementCase) -> Option<String> {
    let (any, owner) = (case.any.as_ref().ok()?, case.owner.as_ref().ok()?);
    let ratio = |figure: fn(&AskCost) -> Option<f64>| {
        statistics::ratio(median(owner, figure), median(any, figure))
    };
    let (cpu, p50, bytes) = (ratio(cpu_us)?, ratio(p50_ms)?, ratio(peer_bytes_of)?);
    Some(format!(
        "{}: asking the first replica costs {} of the CPU time, {} of the median latency and {} of \
         the bytes between nodes of asking any node.",
        case.name(),
        text::percent(cpu),
        text::percent(p50),
        text::percent(bytes),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, load, page_text};

    fn cost(cpu_us: f64, peer_bytes: f64) -> AskCost {
        AskCost {
            saturated: load(10_000, 20.0, cpu_us),
            calm: load(4_000, 5.0, cpu_us),
            peer_bytes,
        }
    }

    #[test]
    fn each_pair_says_what_asking_the_owner_saves() {
        let mut cases = [PlacementCase {
            operation: Operation::Get,
            replicas: (1, 1),
            any: Ok(vec![cost(40.0, 200.0)]),
            // The round that was disturbed does not count.
            owner: Ok(vec![cost(10.0, 8.0), cost(900.0, 8.0), cost(9.0, 8.0)]),
        }];
        assert_contains(
            &page_text(|page| describe(page, &cases)),
            &[
                "GET 1/1: asking the first replica costs 25% of the CPU time, 100% of the median \
                 latency and 4.0% of the bytes between nodes",
                "| GET 1/1 | owner |",
            ],
        );
        cases[0].owner = Err("refused".to_owned());
        let page = page_text(|page| describe(page, &cases));
        assert_contains(&page, &["- GET 1/1, owner: refused"]);
        assert!(!page.contains("asking the first replica costs"), "{page}");
    }
}
