use super::*;
use crate::outcome::{BreakingPoint, Latency};
use crate::report::samples;
use crate::report::units::Unit;
use std::path::Path;

/// Every plot there is, of the given runs and search.
fn all(runs: &[&crate::Run], search: &BreakingPoint) -> Vec<(&'static str, String)> {
    let curves: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run.label.clone(),
                search
                    .probes
                    .iter()
                    .map(|probe| (probe.rate, probe.achieved))
                    .collect(),
            )
        })
        .collect();
    vec![
        ("percentiles", percentiles(runs)),
        ("timeline", timeline(runs)),
        ("throughput", throughput(runs)),
        ("failures", failures(runs)),
        ("achieved", achieved_against_asked("Overload", &curves)),
        ("probes", probes(search)),
        ("probe-latencies", probe_latencies(search)),
    ]
}

#[test]
fn show() {
    let one = samples::run("put 30k", 1.0);
    let two = samples::run("put 30k, no filter", 3.0);
    let search = samples::search();
    let directory = Path::new("/tmp/plots");
    std::fs::create_dir_all(directory).unwrap();
    for (name, svg) in all(&[&one], &search) {
        std::fs::write(directory.join(format!("one-{name}.svg")), svg).unwrap();
    }
    for (name, svg) in all(&[&one, &two], &search) {
        std::fs::write(directory.join(format!("two-{name}.svg")), svg).unwrap();
    }
    let bars = Bars::new(
        "Bytes per node after a random fill of ten nodes",
        (1..=10).map(|n| format!("node {n}")),
        Axis::linear("bytes", Unit::Bytes),
    )
    .with("", (0..10).map(|n| 79e6 + f64::from(n * 7 % 5) * 5e5))
    .level(80e6, "mean");
    std::fs::write(directory.join("bars.svg"), bars.draw()).unwrap();
    let bars = Bars::new(
        "CPU per request",
        [
            "Kvorum, one node",
            "Redis 7, append-only every second",
            "etcd, one node",
            "memcached",
        ],
        Axis::logarithmic("time of the processor", Unit::Milliseconds),
    )
    .with("write", [0.015, 0.0072, 0.082, 0.0083])
    .with("read", [0.0101, 0.0070, 0.056, 0.0081]);
    std::fs::write(directory.join("grouped.svg"), bars.draw()).unwrap();
    let lines = Lines::new(
        "Value size",
        Axis::logarithmic("bytes of a value", Unit::Bytes),
        Axis::logarithmic("PUTs", Unit::PerSecond),
    )
    .with(
        Series::new(
            "sync",
            (6..=20)
                .step_by(2)
                .map(|n| (f64::from(1 << n), 6e6 / (60.0 + f64::from(1 << n) * 0.02))),
        )
        .style(Style::Dotted),
    )
    .with(
        Series::new(
            "os",
            (6..=20)
                .step_by(2)
                .map(|n| (f64::from(1 << n), 1e7 / (60.0 + f64::from(1 << n) * 0.02))),
        )
        .style(Style::Dotted),
    );
    std::fs::write(directory.join("sizes.svg"), lines.draw()).unwrap();
    let lines = Lines::new(
        "Pool size",
        Axis::linear("threads", Unit::Count).ticks_at([8.0, 16.0, 20.0, 32.0, 64.0]),
        Axis::linear("99th percentile", Unit::Milliseconds),
    )
    .with(
        Series::new(
            "p99",
            [
                (8.0, 30.0),
                (16.0, 15.0),
                (20.0, 13.5),
                (32.0, 40.0),
                (64.0, 756.0),
            ],
        )
        .style(Style::Dotted),
    );
    std::fs::write(directory.join("pool.svg"), lines.draw()).unwrap();
    let _ = Latency::default();
}
