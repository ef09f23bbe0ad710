//! Rates beyond the capacity of the nodes.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::sections::{self, Better, StudyComparison};
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Operation, Plan};
use load::report::plot::{self, Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use serde::Serialize;

/// The requested rates, as multiples of the best rate.
const MULTIPLES: [f64; 7] = [0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0];
/// The numbers of connections.
const CONNECTIONS: [usize; 2] = [64, 4096];
/// A node is overloaded from this multiple on.
const OVERLOADED: f64 = 1.5;
/// The multiple at which a node is profiled.
const PROFILED: f64 = 3.0;

/// The share of its best rate that a node should achieve under overload.
const KEPT_MIN: f64 = 0.8;

/// The rate in the study, in requests per second: its nodes collapsed without
/// admission control and sustained it with admission control.
const STUDY_RATE: f64 = 20_000.0;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Overload",
        method: &[
            "One node, and three nodes with `ack=2`, `from=3`, with `--durability os` and `PUT` of \
         64-byte values. Each setup is searched for its breaking point, and saturated by a closed \
         loop, over 64 connections. Then it gets constant rates that are multiples of the greater \
         of these two rates, over 64 and over 4,096 connections. Requests go to all three nodes.",
            "With 64 connections at most 64 requests can be in flight at any rate: the others wait in \
         the generator, which real clients would not do. With 4,096 connections the nodes have to \
         refuse requests. Only successful requests count as achieved. Latency counts from when a \
         request was due, so beyond the breaking point it consists mostly of the wait in the \
         generator. The table therefore also shows the mean service time that the nodes measured, \
         from the head of a request to the head of its response, including refusals. The generator \
         shares the cores, and takes more of them at a higher rate.",
            "The profile shows a node at three times the best rate, over the most connections, in a \
         separate run.",
        ],
    },
    name: "overload",
    question: "How much of its throughput does a node, or a cluster, keep when the requested rate \
               is up to five times its capacity?",
    run,
};

/// The measurements of overloaded nodes.
#[derive(Debug, Serialize)]
struct OverloadedNodes {
    nodes: usize,
    breaking_point: f64,
    /// The best rate: the greater of the breaking point and of the closed loop.
    /// The requested rates are multiples of it.
    best: f64,
    rows: Vec<OverloadCase>,
    /// The CPU profile of the first node while overloaded.
    #[serde(skip)]
    profile: Measured<FoldedProfile>,
}

/// The measurement at one requested rate.
#[derive(Debug, Serialize)]
struct OverloadCase {
    connections: usize,
    multiple: f64,
    load: Measured<CostedRun>,
    /// The mean service time at the nodes, in milliseconds.
    served_ms: Option<f64>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let setups = [setup(context, 1)?, setup(context, 3)?];
    describe(page, &setups);
    Ok(())
}

fn setup(context: &ExperimentContext<'_>, nodes: usize) -> Result<OverloadedNodes, Error> {
    context.log(&format!("overloading {nodes}"));
    let cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes,
            memory: "1GiB",
            options: &["--durability", "os"],
        },
    )?;
    let mut plan = measure::plan(context, &cluster, Operation::Put);
    plan.replicas = (nodes > 1).then_some((2, 3));
    let capacity = measure::capacity(context, &cluster, &plan)?.map_err(Error::Load)?;
    let best = capacity.rate().max(capacity.saturated.rate());
    let mut rows = Vec::new();
    for connections in context.effort().pick([8, 64], CONNECTIONS, CONNECTIONS) {
        for multiple in MULTIPLES {
            context.log(&format!(
                "{multiple} times the best rate, over {connections} connections"
            ));
            plan.connections = connections;
            plan.rate = measure::share_of(best, multiple);
            plan.seconds = context.effort().pick(0.5, 4.0, 15.0);
            plan.warmup_seconds = context.effort().pick(0.2, 1.0, 2.0);
            rows.push(row(context, &cluster, &plan, multiple)?);
        }
    }
    // The plan is now that of the last case, over the most connections.
    plan.rate = measure::share_of(best, PROFILED);
    let profile = profile::under_load(context, &cluster.nodes[0], &plan, ProfileKind::Cpu)?;
    Ok(OverloadedNodes {
        nodes,
        breaking_point: capacity.rate(),
        best,
        rows,
        profile,
    })
}

fn row(
    context: &ExperimentContext<'_>,
    cluster: &LabCluster,
    plan: &Plan,
    multiple: f64,
) -> Result<OverloadCase, Error> {
    let before = served(cluster)?;
    let load = measure::run(context, cluster, plan)?;
    let after = served(cluster)?;
    let served_ms = statistics::ratio(Some((after.0 - before.0) * 1e3), Some(after.1 - before.1));
    Ok(OverloadCase {
        connections: plan.connections,
        multiple,
        load,
        served_ms,
    })
}

/// The total service time of puts at the nodes in seconds, and the number of
/// puts.
fn served(cluster: &LabCluster) -> Result<(f64, f64), Error> {
    let mut sums = (0.0, 0.0);
    for node in &cluster.nodes {
        let metrics = node.metrics()?;
        let put = "method=\"PUT\"";
        sums.0 += metrics.sum("kvorum_request_duration_seconds_sum", put);
        sums.1 += metrics.sum("kvorum_request_duration_seconds_count", put);
    }
    Ok(sums)
}

impl OverloadedNodes {
    fn name(&self) -> String {
        match self.nodes {
            1 => "One node".to_owned(),
            nodes => format!("{nodes} nodes, 2/3"),
        }
    }

    /// The numbers of connections, in the order of the cases.
    fn connections(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.rows.iter().map(|row| row.connections).collect();
        all.dedup();
        all
    }

    fn over(&self, connections: usize) -> impl Iterator<Item = &OverloadCase> {
        let rows = self.rows.iter();
        rows.filter(move |row| row.connections == connections)
    }

    /// How many requests were refused while overloaded.
    fn refused(&self, connections: usize) -> u64 {
        let overloaded = self
            .over(connections)
            .filter(|row| row.multiple >= OVERLOADED);
        overloaded.map(|row| row.failed("503")).sum()
    }

    /// The lowest achieved rate while overloaded, and its multiple. The rate is
    /// a share of the best achieved rate over as many connections, or of the
    /// requested rate if that is lower.
    fn kept(&self, connections: usize) -> Option<(f64, f64)> {
        let best = self
            .over(connections)
            .filter_map(OverloadCase::rate)
            .reduce(f64::max)
            .filter(|best| *best > 0.0)?;
        let overloaded = self
            .over(connections)
            .filter(|row| row.multiple >= OVERLOADED);
        overloaded
            .filter_map(|row| {
                let could = best.min(row.multiple * self.best);
                Some((row.rate()? / could, row.multiple))
            })
            .min_by(|one, other| one.0.total_cmp(&other.0))
    }
}

impl OverloadCase {
    fn rate(&self) -> Option<f64> {
        Some(self.load.as_ref().ok()?.rate())
    }

    fn failed(&self, kind: &str) -> u64 {
        let load = self.load.as_ref().ok();
        load.and_then(|load| load.run.failed.get(kind).copied())
            .unwrap_or(0)
    }
}

fn describe(page: &mut Page, setups: &[OverloadedNodes]) {
    for setup in setups {
        page.section(&setup.name());
        page.paragraph(&format!(
            "Breaking point: {}. The best rate, the greater of it and of a closed loop over 64 \
             connections: {}.",
            units::rate(setup.breaking_point),
            units::rate(setup.best)
        ));
        let mut table = MarkdownTable::new([
            "multiple",
            "connections",
            "requested",
            "achieved",
            "refused (503)",
            "other failures",
            "p50",
            "p99",
            "mean service time",
        ]);
        for row in &setup.rows {
            let mut cells = vec![
                format!("{} times", row.multiple),
                units::count(row.connections as u64),
            ];
            if let Ok(load) = &row.load {
                let refused = row.failed("503");
                cells.extend([
                    text::requested(&load.run),
                    units::rate(load.rate()),
                    units::count(refused),
                    units::count(load.run.failures().saturating_sub(refused)),
                    text::latency(load.latency_ms(50.0)),
                    text::latency(load.latency_ms(99.0)),
                    text::latency(row.served_ms),
                ]);
            }
            table.row(cells);
        }
        page.table(&table);
        let named = setup.rows.iter().map(|row| {
            let name = format!("{} times, {} connections", row.multiple, row.connections);
            (name, &row.load)
        });
        sections::failed_measurements(page, named);
        let curves: Vec<(String, Vec<(f64, f64)>)> = setup
            .connections()
            .into_iter()
            .map(|connections| {
                let points = setup
                    .over(connections)
                    .filter_map(|row| Some((row.multiple * setup.best, row.rate()?)));
                let name = format!("{} connections", units::count(connections as u64));
                (name, points.collect())
            })
            .collect();
        let title = format!("{}: achieved over requested rate", setup.name());
        let svg = plot::achieved_over_requested(&title, &curves);
        page.figure(&format!("achieved-{}", setup.nodes), &title, svg);
        let x = Axis::linear("requested rate, in multiples of the best", Unit::Count);
        let y = Axis::logarithmic("mean service time", Unit::Milliseconds);
        let title = format!("{}: mean service time at the nodes", setup.name());
        let mut lines = Lines::new(&*title, x, y);
        for connections in setup.connections() {
            let points = setup
                .over(connections)
                .filter_map(|row| Some((row.multiple, row.served_ms?)));
            let name = format!("{} connections", units::count(connections as u64));
            lines = lines.with(Series::new(name, points).style(Style::Dotted));
        }
        page.figure(&format!("served-{}", setup.nodes), &title, lines.draw());
        let title = format!("{}, overloaded: {}", setup.name(), ProfileKind::Cpu.title());
        let file = format!("cpu-{}", setup.nodes);
        sections::profile(page, &file, &title, &setup.profile);
    }
    page.section("What it shows");
    page.list(findings(setups));
    let kept = setups
        .iter()
        .find(|setup| setup.nodes > 1)
        .and_then(|setup| Some(setup.kept(*setup.connections().first()?)?.0));
    sections::compare_with_study(
        page,
        &[StudyComparison {
            what: "three nodes, 64 connections: the lowest achieved rate under overload, over the \
                   best achieved rate (study: with admission control)"
                .to_owned(),
            study: format!("{0} / {0}", units::rate(STUDY_RATE)),
            study_ratio: 1.0,
            ours: kept.map_or_else(|| units::NONE.to_owned(), text::percent),
            our_ratio: kept,
            better: Better::Greater,
        }],
    );
    page.data("runs", &setups);
}

fn findings(setups: &[OverloadedNodes]) -> Vec<String> {
    let mut found = Vec::new();
    for setup in setups {
        for connections in setup.connections() {
            if let Some((kept, multiple)) = setup.kept(connections) {
                found.push(format!(
                    "{}, {} connections: from {OVERLOADED} times the best rate on, it achieves at \
                     least {} of the most that it achieves over as many, with the minimum at \
                     {multiple} times. {}",
                    setup.name(),
                    units::count(connections as u64),
                    text::percent(kept),
                    match (kept >= KEPT_MIN, setup.refused(connections)) {
                        (true, 0) => {
                            "No request had to be refused, because at most one request per \
                             connection is in flight."
                                .to_owned()
                        }
                        (true, _) => {
                            "Excess requests are refused.".to_owned()
                        }
                        (false, refused) => format!(
                            "That is less than its goal of 80%; {} requests were refused.",
                            units::count(refused)
                        ),
                    }
                ));
            }
        }
    }
    found.push(
        "In the study, nodes collapsed at 20,000 requests per second without admission control, \
         and sustained them with it."
            .to_owned(),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::load;

    fn setup(achieved: &[(usize, f64, u64)]) -> OverloadedNodes {
        let rows = achieved
            .iter()
            .map(|(connections, multiple, succeeded)| OverloadCase {
                connections: *connections,
                multiple: *multiple,
                load: Ok(load(*succeeded, 5.0, 10.0)),
                served_ms: Some(1.0),
            });
        OverloadedNodes {
            nodes: 1,
            breaking_point: 700.0,
            best: 1000.0,
            rows: rows.collect(),
            profile: FoldedProfile::parse(
                ProfileKind::Cpu,
                1.0,
                "runtime;hyper::read 1\nruntime;x 1",
            ),
        }
    }

    #[test]
    fn the_kept_share_is_the_lowest_overloaded_rate_over_the_best() {
        let mut setup = setup(&[
            (64, 0.5, 500),
            (64, 1.0, 1000),
            (64, 3.0, 900),
            (64, 5.0, 950),
            (4096, 1.0, 800),
            (4096, 3.0, 240),
        ]);
        if let Some(Ok(load)) = setup.rows.last_mut().map(|row| &mut row.load) {
            load.run.failed.insert("503".to_owned(), 7);
        }
        assert_eq!(setup.kept(64), Some((0.9, 3.0)));
        assert_eq!(setup.kept(4096), Some((0.3, 3.0)));
        let found = findings(&[setup]);
        assert!(found[0].contains("at least 90%"), "{}", found[0]);
        assert!(found[0].contains("No request had to be"), "{}", found[0]);
        assert!(found[1].contains("at least 30%"), "{}", found[1]);
        assert!(
            found[1].contains("less than its goal of 80%"),
            "{}",
            found[1]
        );
        assert!(found[1].contains("; 7 requests"), "{}", found[1]);
    }

    #[test]
    fn a_failed_measurement_is_reported_and_does_not_count() {
        let mut setup = setup(&[(64, 1.0, 1000), (64, 3.0, 900)]);
        setup.rows[1].load = Err("cannot connect".to_owned());
        assert_eq!(setup.kept(64), None);
        let mut page = Page::new("overload", "Overload");
        describe(&mut page, &[setup]);
        let text = page.markdown();
        assert!(
            text.contains("3 times, 64 connections: cannot connect"),
            "{text}"
        );
        assert!(text.contains("not measured"), "{text}");
        assert!(
            text.contains("### One node, overloaded: CPU time"),
            "{text}"
        );
        assert!(text.contains("| HTTP  |   50% |"), "{text}");
    }
}
