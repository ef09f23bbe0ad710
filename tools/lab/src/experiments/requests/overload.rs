//! Rates beyond the capacity of the nodes.

use crate::context::ExperimentContext;
use crate::figures::{self, Column, P50, P99, REQUESTED};
use crate::measure;
use crate::measure::matrix::{self, Case, Done, Load, Setup, share};
use crate::measure::profile::ProfileKind;
use crate::page::{Page, text};
use crate::{Error, Experiment};
use load::plan::{Operation, Plan};
use load::report::plot::{self, Axis};
use load::report::units::{self, Unit};

/// The requested rates, as multiples of the best rate.
const MULTIPLES: [f64; 7] = [0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0];
/// The numbers of connections.
const CONNECTIONS: [usize; 2] = [64, 4096];
/// A node is overloaded from this multiple on.
const OVERLOADED: f64 = 1.5;
/// The multiple at which a node is profiled.
const PROFILED: f64 = 3.0;

const CAPACITY: &str = "capacity";

const COLUMNS: &[Column] = &[
    REQUESTED,
    ("achieved", |done| units::rate(done.rate())),
    ("refused (503)", |done| units::count(done.failed("503"))),
    ("other failures", |done| {
        let failures = done.first().map_or(0, |round| round.load.run.failures());
        units::count(failures.saturating_sub(done.failed("503")))
    }),
    P50,
    P99,
    ("mean service time", |done| units::latency(served_ms(done))),
];

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("overload.md"),
    name: "overload",
    run,
};

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut all = Vec::new();
    for (nodes, title) in [(1, "One node"), (3, "3 nodes, 2/3")] {
        context.log(title);
        let done = matrix::run(context, [setup(context, nodes, title)])?;
        describe(page, nodes, title, &done);
        all.push(done);
    }
    page.data("runs", &all);
    Ok(())
}

fn setup(context: &ExperimentContext<'_>, nodes: usize, title: &str) -> Setup<'static> {
    let searched = Plan {
        replicas: (nodes > 1).then_some((2, 3)),
        ..measure::plan(context, Operation::Put)
    };
    let plan = Plan {
        seconds: context.effort().pick(0.5, 4.0, 15.0),
        warmup_seconds: context.effort().pick(0.2, 1.0, 2.0),
        ..searched.clone()
    };
    let times = |multiple| share(multiple, CAPACITY, Done::best);
    let mut cases = vec![Case::new(CAPACITY, searched, Load::BreakingPoint)];
    let [few, many] = context.effort().pick([8, 64], CONNECTIONS, CONNECTIONS);
    let over = |connections| Plan {
        connections,
        ..plan.clone()
    };
    for connections in [few, many] {
        for multiple in MULTIPLES {
            let load = Load::At(times(multiple));
            let case = Case::new(format!("{multiple} times"), over(connections), load);
            let connections = units::count(connections as u64);
            let series = format!("{connections} connections");
            cases.push(case.with(connections).at(series, multiple.to_string()));
        }
    }
    cases.push(Case::profile(
        format!("cpu-{nodes}"),
        &format!("{title}, overloaded"),
        over(many),
        ProfileKind::Cpu,
        Some(times(PROFILED)),
    ));
    Setup {
        cases,
        ..Setup::of(nodes, "1GiB", &["--durability", "os"])
    }
}

/// The mean service time at the nodes, in milliseconds.
fn served_ms(done: &Done) -> f64 {
    let grown = |metric| done.grown(metric, "method=\"PUT\"");
    let seconds = grown("kvorum_request_duration_seconds_sum");
    seconds * 1e3 / grown("kvorum_request_duration_seconds_count")
}

/// The multiple of the best rate that was requested.
fn multiple(done: &Done) -> f64 {
    done.at.1.parse().unwrap_or(f64::NAN)
}

/// The lowest achieved rate while overloaded, and its multiple. The rate is a share of the best
/// achieved rate of these cases, or of the requested rate if that is lower.
fn kept(best: f64, rows: &[&Done]) -> (f64, f64) {
    let most = rows.iter().map(|done| done.rate()).fold(f64::NAN, f64::max);
    let overloaded = rows.iter().filter(|done| multiple(done) >= OVERLOADED);
    overloaded
        .map(|done| {
            (
                done.rate() / most.min(multiple(done) * best),
                multiple(done),
            )
        })
        .filter(|(kept, _)| kept.is_finite())
        .min_by(|one, other| one.0.total_cmp(&other.0))
        .unwrap_or((f64::NAN, f64::NAN))
}

fn describe(page: &mut Page, nodes: usize, title: &str, done: &[Done]) {
    let loads = || done.iter().filter(|done| !done.at.0.is_empty());
    let heads = ["multiple", "connections"];
    figures::table(page, &format!("nodes-{nodes}"), &heads, &[COLUMNS], loads());
    let capacity = done.first();
    let best = capacity.map_or(f64::NAN, Done::best);
    let held = capacity.map_or(f64::NAN, Done::breaking_point);
    page.keep_value(format!("{nodes}: breaking point"), units::rate(held));
    page.keep_value(format!("{nodes}: best"), units::rate(best));
    let mut curves = Vec::new();
    for (connections, name) in CONNECTIONS.iter().zip(figures::series(loads())) {
        let rows: Vec<&Done> = loads().filter(|done| done.at.0 == name).collect();
        let points = rows.iter().map(|done| (multiple(done) * best, done.rate()));
        curves.push((name.to_owned(), points.collect::<Vec<_>>()));
        let (kept, lowest) = kept(best, &rows);
        let overloaded = rows.iter().filter(|done| multiple(done) >= OVERLOADED);
        let refused = overloaded.map(|done| done.failed("503")).sum();
        let name = format!("{nodes}, {}", units::count(*connections as u64));
        page.keep_value(format!("{name}: kept"), text::percent(kept));
        page.keep_value(format!("{name}: lowest at"), lowest.to_string());
        page.keep_value(format!("{name}: refused"), units::count(refused));
    }
    let drawn = format!("{title}: achieved over requested rate");
    let svg = plot::achieved_over_requested(&drawn, &curves);
    page.keep_chart(&format!("achieved-{nodes}"), svg);
    let axes = (
        Axis::linear("requested rate, in multiples of the best", Unit::Count),
        Axis::logarithmic("mean service time", Unit::Milliseconds),
    );
    let drawn = format!("{title}: mean service time at the nodes");
    let svg = figures::lines(&drawn, axes, loads(), served_ms);
    page.keep_chart(&format!("served-{nodes}"), svg);
    figures::profiles(page, done);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::done;

    #[test]
    fn the_kept_share_is_the_lowest_overloaded_rate_over_the_best() {
        let rows = [(0.5, 500), (1.0, 1000), (3.0, 900), (5.0, 950)];
        let rows = rows.map(|(multiple, rate)| done("64 connections", &multiple.to_string(), rate));
        assert_eq!(kept(1000.0, &rows.iter().collect::<Vec<_>>()), (0.9, 3.0));
        let calm: Vec<&Done> = rows.iter().take(2).collect();
        assert!(kept(1000.0, &calm).0.is_nan(), "nothing was overloaded");
    }
}
