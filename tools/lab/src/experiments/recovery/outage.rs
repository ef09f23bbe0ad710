//! What clients notice while a node is killed, frozen and recovers.

use crate::context::ExperimentContext;
use crate::measure::phases::phases;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, LabNode, NodeEvent};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, figures};
use load::Run;
use load::plan::{Operation, Plan, Rate};
use load::report::{plot, units};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The greatest requested rate, in requests per second: well below the capacity
/// of three nodes on two cores.
const RATE_MAX: f64 = 3_000.0;
/// The requested rate as a share of the closed loop, so that a slow machine
/// gets less.
const SHARE: f64 = 0.3;

/// How long the handoff of hints may take.
const HANDOFF_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("outage.md"),
    name: "outage",
    run,
};

/// What happens to the third node, at equal intervals.
const EVENTS: [NodeEvent; 4] = [
    NodeEvent::Kill,
    NodeEvent::Start,
    NodeEvent::Freeze,
    NodeEvent::Thaw,
];

/// The results.
#[derive(Debug, Serialize)]
struct OutageResults {
    run: Measured<Run>,
    /// Hints for the third node at the end of the load.
    hints: u64,
    /// Seconds from then until all hints were handed over; none if some were
    /// left.
    heal_seconds: Option<f64>,
    /// The waits of the first node while the third is frozen.
    #[serde(skip)]
    frozen: Measured<FoldedProfile>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cluster = LabCluster::start(context, ClusterLayout::of_three(&["--durability", "os"]))?;
    let asked = cluster.targets().into_iter().take(2).collect();
    let mut plan = Plan {
        targets: asked,
        replicas: Some((2, 3)),
        operations: vec![(Operation::Put, 1.0), (Operation::Get, 1.0)],
        ..measure::plan_on(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let saturated = measure::run(context, &cluster, &plan)?.map_err(Error::Load)?;
    plan.rate = Rate::PerSecond((saturated.rate() * SHARE).clamp(1.0, RATE_MAX));
    plan.seconds = context.effort().pick(5.0, 50.0, 250.0);
    let step = plan.seconds / (EVENTS.len() + 1) as f64;
    let events = EVENTS.into_iter().zip(1..);
    let events = events.map(|(event, number)| (step * f64::from(number), event));
    let look = |_: &LabCluster, _, _| Ok(());
    let run = measure::run_with_events(context, &mut cluster, &plan, events.collect(), look)?;
    // A load that was cut short may leave the node frozen.
    cluster.nodes[2].thaw();
    let begin = Instant::now();
    let hints = hint_count(&cluster.nodes[..2])?;
    let healed = context.wait_until("hints to be handed over", HANDOFF_TIMEOUT, || {
        Ok((hint_count(&cluster.nodes[..2])? == 0).then_some(()))
    });
    let heal_seconds = match healed {
        Ok(()) => Some(begin.elapsed().as_secs_f64()),
        Err(Error::TimedOut(_)) => None,
        Err(error) => return Err(error),
    };
    cluster.nodes[2].freeze();
    let frozen = profile::under_load(context, &cluster.nodes[0], &plan, ProfileKind::Wait)?;
    cluster.nodes[2].thaw();
    describe(
        page,
        &OutageResults {
            run,
            hints,
            heal_seconds,
            frozen,
        },
    );
    Ok(())
}

/// The number of hints that nodes keep.
///
/// # Errors
/// One does not answer.
fn hint_count(nodes: &[LabNode]) -> Result<u64, Error> {
    let mut hints = 0;
    for node in nodes {
        let status = node.status()?;
        let members = status["cluster"].as_array().into_iter().flatten();
        let kept = members.filter_map(|member| member["hints"].as_u64());
        hints += kept.sum::<u64>();
    }
    Ok(hints)
}

fn describe(page: &mut Page, outcome: &OutageResults) {
    page.keep_value("hints", units::count(outcome.hints));
    let seconds = outcome.heal_seconds.map_or(f64::NAN, |seconds| seconds);
    page.keep_value("time to hand over", units::seconds(seconds));
    let title = format!("The third node frozen: {}", ProfileKind::Wait.title());
    figures::profile(page, "frozen-wait", &title, &outcome.frozen);
    let mut table = MarkdownTable::new([
        "the third node",
        "seconds",
        "failed",
        "p99 in the first second",
        "max in the first second",
        "median p99 afterwards",
        "max",
    ]);
    figures::failed_measurements(page, [("the load".to_owned(), &outcome.run)]);
    if let Ok(run) = &outcome.run {
        page.keep_value(
            "achieved",
            figures::achieved_text(Some(&text::requested(run)), run),
        );
        for phase in phases(run, "all nodes up") {
            let first = phase.first();
            table.row([
                phase.name.to_owned(),
                units::count(phase.seconds.len() as u64),
                units::count(phase.failed()),
                text::latency(first.map(|second| second.p99_ms)),
                text::latency(first.map(|second| second.max_ms)),
                text::latency(phase.p99_ms()),
                text::latency(phase.max_ms()),
            ]);
        }
        page.keep_chart("latency", plot::timeline(&[run]));
        page.keep_chart("throughput", plot::throughput(&[run]));
    }
    page.keep_table("measured", table);
    page.data("samples", outcome);
}
