//! A node that is killed, frozen and healed while clients go on.

use crate::context::ExperimentContext;
use crate::measure::{self, Measured};
use crate::nodes::{ClusterLayout, LabCluster, LabNode};
use crate::page::{MarkdownTable, Page, text};
use crate::profile::{self, FoldedProfile, ProfileKind};
use crate::{Error, Experiment, sections, statistics};
use load::Run;
use load::plan::{Operation, Plan, Rate};
use load::report::{plot, units};
use load::results::Second;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What is asked at most, in requests a second: well below what three nodes on two cores hold.
const RATE_MAX: f64 = 3_000.0;
/// The same, as a share of what a closed loop reaches: a slow machine is asked for less.
const SHARE: f64 = 0.3;

/// How long hints may take to be handed over.
const HEAL_PATIENCE: Duration = Duration::from_secs(60);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "outage",
    title: "A node killed, frozen and healed",
    question: "What do clients of a cluster notice when one of its three nodes is killed, comes \
               back, freezes and goes on?",
    method: &[
        "Three nodes on this machine with `--durability os`, `ack=2`, `from=3`; half `PUT`, half \
         `GET`, 3,000 requests a second (or three tenths of what a closed loop reached, where that \
         is less) over 64 connections to the first two nodes. The third is not asked by clients, but is one of the three replicas of each key. Latency counts from \
         when a request was due.",
        "One after another, evenly over the run: the third node is killed with SIGKILL and \
         started again, then frozen with SIGSTOP and let go on with SIGCONT. After the load it is \
         measured how long it takes until the other two have handed over all that it missed.",
        "The profile is that of the first node, by time waited, under the same load while the third \
         node is frozen, in a run of its own after all that.",
    ],
    run,
};

/// What happens to the third node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum NodeEvent {
    Kill,
    Start,
    Freeze,
    Thaw,
}

/// In the order in which they happen, at equal distances.
const EVENTS: [NodeEvent; 4] = [
    NodeEvent::Kill,
    NodeEvent::Start,
    NodeEvent::Freeze,
    NodeEvent::Thaw,
];

impl NodeEvent {
    /// What a plot calls it.
    fn label(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Start => "started again",
            Self::Freeze => "frozen",
            Self::Thaw => "goes on",
        }
    }

    /// Makes it happen.
    fn to(self, node: &mut LabNode) -> Result<(), Error> {
        match self {
            Self::Kill => node.kill(),
            Self::Start => node.start()?,
            Self::Freeze => node.freeze(),
            Self::Thaw => node.thaw(),
        }
        Ok(())
    }
}

/// What was measured.
#[derive(Debug, Serialize)]
struct OutageResults {
    run: Measured<Run>,
    /// Hints that waited for the third node when the load ended.
    hints: u64,
    /// Seconds from then until all were handed over; none if they never were.
    heal_seconds: Option<f64>,
    /// What the first node waits for while the third is frozen.
    #[serde(skip)]
    frozen: Measured<FoldedProfile>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 3,
            memory: "512MiB",
            options: &["--durability", "os"],
        },
    )?;
    let asked = cluster.targets().into_iter().take(2).collect();
    let mut plan = Plan {
        targets: asked,
        replicas: Some((2, 3)),
        operations: vec![(Operation::Put, 1.0), (Operation::Get, 1.0)],
        ..measure::plan(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let saturated = measure::run(context, &cluster, &plan)?.map_err(Error::Load)?;
    plan.rate = Rate::PerSecond((saturated.rate() * SHARE).clamp(1.0, RATE_MAX));
    plan.seconds = context.effort().pick(5.0, 50.0, 250.0);
    let step = plan.seconds / (EVENTS.len() + 1) as f64;
    let mut events = EVENTS.into_iter();
    let mut due = step;
    let third = &mut cluster.nodes[2];
    let run = measure::run_with(context, &plan, |at_seconds| {
        if at_seconds + 0.5 < due {
            return Ok(None);
        }
        let Some(event) = events.next() else {
            return Ok(None);
        };
        due += step;
        context.log(&format!("the third node: {}", event.label()));
        event.to(third)?;
        Ok(Some(event.label().to_owned()))
    })?;
    // A load that was cut short leaves it as it was.
    third.thaw();
    let begin = Instant::now();
    let hints = waiting(&cluster)?;
    let healed = context.wait_until("hints to be handed over", HEAL_PATIENCE, || {
        Ok((waiting(&cluster)? == 0).then_some(()))
    });
    let heal_seconds = match healed {
        Ok(()) => Some(begin.elapsed().as_secs_f64()),
        Err(Error::TimedOut(_)) => None,
        Err(error) => return Err(error),
    };
    cluster.nodes[2].freeze();
    let frozen = profile::under_load(context, &cluster.nodes[0], &plan, ProfileKind::Lock)?;
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

/// Hints that the first two nodes keep for others.
fn waiting(cluster: &LabCluster) -> Result<u64, Error> {
    let mut hints = 0;
    for node in &cluster.nodes[..2] {
        let status = node.status()?;
        let members = status["cluster"].as_array().into_iter().flatten();
        let kept = members.filter_map(|member| member["hints"].as_u64());
        hints += kept.sum::<u64>();
    }
    Ok(hints)
}

/// A stretch of the run between two events.
struct OutagePhase<'a> {
    name: &'a str,
    seconds: &'a [Second],
}

/// The stretches of a run, by its marks.
fn phases(run: &Run) -> Vec<OutagePhase<'_>> {
    let place = |at_seconds: f64| {
        let seconds = &run.timeline;
        seconds.partition_point(|second| second.at_seconds <= at_seconds)
    };
    let begins = std::iter::once((0, "all three up")).chain(
        run.marks
            .iter()
            .map(|mark| (place(mark.at_seconds), mark.label.as_str())),
    );
    let begins: Vec<(usize, &str)> = begins.collect();
    let ends = begins.iter().skip(1).map(|(begin, _)| *begin);
    let ends = ends.chain([run.timeline.len()]);
    begins
        .iter()
        .zip(ends)
        .map(|((begin, name), end)| OutagePhase {
            name,
            seconds: run.timeline.get(*begin..end).unwrap_or_default(),
        })
        .collect()
}

impl OutagePhase<'_> {
    fn failed(&self) -> u64 {
        self.seconds.iter().map(|second| second.failed).sum()
    }

    fn max_ms(&self) -> Option<f64> {
        self.seconds
            .iter()
            .map(|second| second.max_ms)
            .reduce(f64::max)
    }

    /// The median of the seconds' p99, the first one left out: in it the event
    /// is noticed.
    fn p99_ms(&self) -> Option<f64> {
        let later = self.seconds.get(1..).unwrap_or_default();
        statistics::median(later.iter().map(|second| second.p99_ms))
    }

    fn first(&self) -> Option<&Second> {
        self.seconds.first()
    }
}

fn describe(page: &mut Page, outcome: &OutageResults) {
    page.section("Measured");
    let run = match &outcome.run {
        Ok(run) => run,
        Err(problem) => {
            page.paragraph(&format!("Not measured: {problem}."));
            return;
        }
    };
    page.paragraph(&format!(
        "{} asked, {} achieved over {}; {} of {} requests failed.",
        text::asked(run),
        units::rate(run.achieved()),
        units::seconds(run.measured_seconds),
        units::count(run.failures()),
        units::count(run.failures() + run.succeeded)
    ));
    if let Some(reason) = &run.cut_short {
        page.paragraph(&format!("The run was cut short: {reason}."));
    }
    let mut table = MarkdownTable::new([
        "the third node",
        "seconds",
        "failed",
        "p99 in the first second",
        "max in it",
        "median p99 after it",
        "max",
    ]);
    for phase in phases(run) {
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
    page.table(&table);
    page.figure("latency", "Latency over time", plot::timeline(&[run]));
    page.figure("throughput", "Requests over time", plot::throughput(&[run]));

    page.section("Where it waits");
    let title = format!("The third node frozen: {}", ProfileKind::Lock.title());
    sections::profile(page, "frozen-lock", &title, &outcome.frozen);

    page.section("What it shows");
    page.list(findings(outcome, run));
    page.paragraph("The studies have no figures of this kind.");
    page.data("run", outcome);
}

fn findings(outcome: &OutageResults, run: &Run) -> Vec<String> {
    let phases = phases(run);
    let Some((before, after)) = phases.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for phase in after {
        let times = statistics::ratio(phase.p99_ms(), before.p99_ms());
        found.push(format!(
            "{}: {} requests failed; in the first second the slowest took {}{}.",
            phase.name,
            match phase.failed() {
                0 => "no".to_owned(),
                some => units::count(some),
            },
            text::latency(phase.first().map(|second| second.max_ms)),
            times.map_or_else(String::new, |times| format!(
                ", after it p99 is {} times what it was with all three up",
                text::ratio(times)
            ))
        ));
    }
    found.push(match outcome.heal_seconds {
        Some(_) if outcome.hints == 0 => {
            "When the load ended the node had been given all that it missed.".to_owned()
        }
        Some(seconds) => format!(
            "When the load ended {} writes waited for the node; they were handed over in {} more.",
            units::count(outcome.hints),
            units::seconds(seconds)
        ),
        None => format!(
            "{} writes still waited for the node {} after the load.",
            units::count(outcome.hints),
            units::seconds(HEAL_PATIENCE.as_secs_f64())
        ),
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{holds, run, timeline, told};
    use load::results::Mark;

    fn outcome() -> OutageResults {
        let mut run = run(100.0, 800, 5.0);
        run.timeline = timeline(&[2.0, 2.0, 2.0, 50.0, 3.0, 4.0, 400.0, 2.0]);
        run.timeline[3].failed = 7;
        run.marks = [(3.0, "killed"), (6.0, "frozen")]
            .map(|(at_seconds, label)| Mark {
                at_seconds,
                label: label.to_owned(),
            })
            .to_vec();
        OutageResults {
            run: Ok(run),
            hints: 0,
            heal_seconds: Some(0.0),
            frozen: FoldedProfile::parse(ProfileKind::Lock, 1.0, "queue;peers;answer 2000000000"),
        }
    }

    #[test]
    fn a_second_belongs_to_the_event_before_it() {
        let outcome = outcome();
        let run = outcome.run.as_ref().unwrap();
        let lengths: Vec<(&str, usize)> = phases(run)
            .iter()
            .map(|phase| (phase.name, phase.seconds.len()))
            .collect();
        let expected = [("all three up", 3), ("killed", 3), ("frozen", 2)];
        assert_eq!(lengths, expected);
    }

    #[test]
    fn events_are_held_against_the_time_before() {
        let mut outcome = outcome();
        holds(
            &told(|page| describe(page, &outcome)),
            &[
                "killed: 7 requests failed; in the first second the slowest took 100 ms, after it \
                 p99 is 2.00 times",
                "frozen: no requests failed; in the first second the slowest took 800 ms, after \
                 it p99 is 1.00 times",
                "had been given all that it missed",
                "### The third node frozen: time waited",
                "| queue, peers, answer |              2.00 |",
            ],
        );
        outcome.hints = 9;
        outcome.heal_seconds = None;
        holds(
            &told(|page| describe(page, &outcome)),
            &["9 writes still waited for the node 60 s after the load."],
        );
        outcome.run = Err("cannot connect".to_owned());
        holds(
            &told(|page| describe(page, &outcome)),
            &["Not measured: cannot connect."],
        );
    }
}
