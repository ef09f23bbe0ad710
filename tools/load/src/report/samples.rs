//! Hand-made runs for tests.

use crate::plan::{KeyChoice, Operation, Rate, SizeDistribution};
use crate::results::{Bound, BreakingPoint, LatencyDistribution, MachineInfo, Mark, Probe, Second};
use crate::{Plan, Run};

/// A run of 30 seconds at 30,000 requests per second, whose latencies are
/// multiplied by `slower`.
pub(super) fn run(label: &str, slower: f64) -> Run {
    let timeline: Vec<_> = (1..=30).map(|second| a_second(second, slower)).collect();
    let succeeded = timeline.iter().map(|second| second.succeeded).sum();
    Run {
        format: 1,
        label: label.to_owned(),
        plan: plan(),
        machine: MachineInfo {
            processor: "Example Processor 2.5 GHz".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
            system: "Linux 6.1".to_owned(),
        },
        started_unix_ms: 1_700_000_000_000,
        version: "0.1.0".to_owned(),
        measured_seconds: 30.0,
        cut_short: None,
        due: Some(900_000),
        succeeded,
        failed: [("503".to_owned(), 1_300), ("timeout".to_owned(), 88)].into(),
        missing: 12,
        entities: 0,
        operations: 0,
        body_bytes: 57_600_000,
        latency: latency(slower, succeeded),
        timeline,
        marks: vec![
            Mark {
                at_seconds: 10.0,
                label: "node killed".to_owned(),
            },
            Mark {
                at_seconds: 11.5,
                label: "suspected".to_owned(),
            },
            Mark {
                at_seconds: 20.0,
                label: "healed".to_owned(),
            },
        ],
    }
}

/// A search that found 42,000 requests per second.
pub(super) fn search() -> BreakingPoint {
    let probe = |rate: f64| {
        let over = (rate / 43_000.0 - 1.0).max(0.0);
        Probe {
            rate,
            achieved: rate.min(43_000.0 - 4_000.0 * over),
            p99_ms: 1.5 + rate / 20_000.0 + 800.0 * over,
            failed_share: over / 10.0,
            held: over == 0.0,
        }
    };
    BreakingPoint {
        format: 1,
        label: "one node, PUT".to_owned(),
        started_unix_ms: 1_700_000_000_000,
        version: "0.1.0".to_owned(),
        bound: Bound {
            achieved_share: 0.99,
            p99_ms: 10.0,
            failed_share: 0.001,
        },
        rate: Some(42_000.0),
        probes: [10e3, 20e3, 40e3, 80e3, 60e3, 50e3, 45e3, 42e3, 43.5e3, 42e3]
            .map(probe)
            .to_vec(),
        best: Some(run("one node, PUT", 1.0)),
        cut_short: None,
    }
}

/// A run without any request.
pub(super) fn empty() -> Run {
    Run {
        measured_seconds: 0.0,
        cut_short: Some("connection refused".to_owned()),
        due: None,
        succeeded: 0,
        failed: [].into(),
        missing: 0,
        body_bytes: 0,
        latency: LatencyDistribution::default(),
        timeline: Vec::new(),
        marks: Vec::new(),
        plan: Plan {
            rate: Rate::Max,
            ..plan()
        },
        ..run("empty", 1.0)
    }
}

fn plan() -> Plan {
    Plan {
        targets: vec!["http://127.0.0.1:8080".to_owned()],
        ask: crate::plan::Ask::Any,
        connections: 64,
        threads: 1,
        rate: Rate::PerSecond(30_000.0),
        warmup_seconds: 5.0,
        seconds: 30.0,
        timeout_seconds: 2.0,
        operations: vec![(Operation::Put, 0.5), (Operation::Get, 0.5)],
        keys: 1_000_000,
        key_choice: KeyChoice::Zipfian,
        key_bytes: SizeDistribution::Fixed(16),
        value_bytes: SizeDistribution::Uniform(64, 1_024),
        scan_limit: 100,
        replicas: Some((2, 3)),
        ttl_seconds: None,
        batch: None,
        pipeline: None,
        verify: true,
        seed: 42,
        access: crate::Credentials::default(),
    }
}

/// A second of a run in which the eleventh second has no response, after which
/// the latencies recover.
fn a_second(second: u32, slower: f64) -> Second {
    let since = f64::from(second) - 11.0;
    let trouble = if since >= 0.0 {
        (-since / 2.5).exp()
    } else {
        0.0
    };
    // Deterministic values that look like noise.
    let noise = f64::from(second * 37 % 11) / 11.0;
    let failed = if second == 11 {
        30_000
    } else {
        (trouble * 2_000.0) as u64
    };
    Second {
        at_seconds: f64::from(second),
        succeeded: 30_000 - failed,
        failed,
        p50_ms: if second == 11 {
            0.0
        } else {
            slower * (0.6 + 0.1 * noise)
        },
        p99_ms: if second == 11 {
            0.0
        } else {
            slower * (1.6 + 0.8 * noise + 90.0 * trouble)
        },
        max_ms: if second == 11 {
            0.0
        } else {
            slower * (4.0 + 20.0 * noise * noise + 400.0 * trouble)
        },
    }
}

/// A spectrum like that of HdrHistogram, with five points for each halving of
/// the rest.
fn latency(slower: f64, count: u64) -> LatencyDistribution {
    let mut spectrum = Vec::new();
    for half in 0..18 {
        let left = 0.5f64.powi(half);
        for fifth in 0..5 {
            let beyond = left * (1.0 - f64::from(fifth) / 10.0);
            let ms = 0.2 + 0.45 * (1.0 / beyond).log2().powf(0.55) + 0.000_45 * (1.0 / beyond);
            spectrum.push((100.0 * (1.0 - beyond), slower * ms));
        }
    }
    let max_ms = slower * 404.0;
    spectrum.push((100.0, max_ms));
    LatencyDistribution {
        count,
        mean_ms: slower * 0.812,
        max_ms,
        spectrum,
    }
}
