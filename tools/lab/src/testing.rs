//! Hand-made figures for tests of what pages say about them.

use crate::measure::CostedRun;
use crate::measure::matrix::{Done, Round};
use crate::nodes::Usage;
use crate::page::Page;
use load::Run;
use load::plan::{Operation, Plan, Rate};
use load::results::{LatencyDistribution, MachineInfo, Mark, Second};
use std::collections::BTreeMap;

/// A run of one second at a requested rate. Half of the requests take at most a
/// millisecond, 99% at most `p99_ms`.
pub(crate) fn run(asked: f64, succeeded: u64, p99_ms: f64) -> Run {
    Run {
        format: 1,
        label: String::new(),
        plan: Plan::new("http://127.0.0.1:1", Operation::Put, Rate::PerSecond(asked)),
        machine: MachineInfo::default(),
        started_unix_ms: 0,
        version: "0.1.0".to_owned(),
        measured_seconds: 1.0,
        cut_short: None,
        due: None,
        succeeded,
        failed: BTreeMap::new(),
        missing: 0,
        entities: 0,
        operations: 0,
        body_bytes: 0,
        latency: LatencyDistribution {
            count: succeeded,
            mean_ms: 1.0,
            max_ms: p99_ms * 2.0,
            spectrum: vec![(50.0, 1.0), (99.0, p99_ms), (99.9, p99_ms * 1.5)],
        },
        timeline: Vec::new(),
        marks: Vec::new(),
    }
}

/// A run that cost `cpu_us` microseconds of CPU time per request.
pub(crate) fn load(succeeded: u64, p99_ms: f64, cpu_us: f64) -> CostedRun {
    CostedRun {
        run: run(succeeded as f64, succeeded, p99_ms),
        cpu_us: Some(cpu_us),
    }
}

/// A timeline of seconds with these p99s.
pub(crate) fn timeline(p99s_ms: &[f64]) -> Vec<Second> {
    let seconds = p99s_ms.iter().zip(1..);
    seconds
        .map(|(p99_ms, at)| Second {
            at_seconds: f64::from(at),
            succeeded: 100,
            failed: 0,
            p50_ms: p99_ms / 2.0,
            p99_ms: *p99_ms,
            max_ms: p99_ms * 2.0,
        })
        .collect()
}

/// Marks of a run, each with its second.
pub(crate) fn marks<const N: usize>(all: [(f64, &str); N]) -> Vec<Mark> {
    let mark = |(at_seconds, label): (f64, &str)| Mark {
        at_seconds,
        label: label.to_owned(),
    };
    all.map(mark).to_vec()
}

/// What came of a case: so many requests in a second.
pub(crate) fn done(series: &str, group: &str, succeeded: u64) -> Done {
    let round = Round {
        load: load(succeeded, 5.0, 10.0),
        before: Vec::new(),
        after: Vec::new(),
        usage: Usage::default(),
    };
    Done {
        names: vec![format!("{series} {group}")],
        at: (series.to_owned(), group.to_owned()),
        search: None,
        rounds: Ok(vec![round]),
        profile: None,
        fill_seconds: 0.0,
        rate: None,
    }
}

/// The values that `describe` keeps for a page; fails unless it keeps all of these.
#[track_caller]
pub(crate) fn assert_values(describe: impl FnOnce(&mut Page), expected: &[(&str, &str)]) {
    let mut page = Page::new("test");
    describe(&mut page);
    for (name, value) in expected {
        let kept = page.results.values.get(*name).map(|value| &**value);
        assert_eq!(kept, Some(*value), "{name}");
    }
}
