//! Reads a data set that is larger than the node's memory.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster, LabNode};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, figures, http, statistics};
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::plot::{Axis, Lines, Series};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The memory of the node, as small as possible.
const MEMORY: &str = "128MiB";
/// The same in bytes.
const MEMORY_BYTES: usize = 128 << 20;
/// The size of the data, as a multiple of the memory.
const DATA_TIMES: usize = 8;
/// The sizes of a value and of a key, in bytes.
const VALUE_BYTES: usize = 1024;
const KEY_BYTES: usize = 16;
/// The size of an entity in the stream: the key, a line end and the value.
const ENTITY_BYTES: u64 = (KEY_BYTES + 1 + VALUE_BYTES) as u64;

/// The earlier store's scans: entities per request.
const EARLIER_LIMIT: u64 = 10_000;

/// How long the whole stream may take.
const STREAM_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the node's memory is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: include_str!("range.md"),
    name: "range",
    run,
};

/// A sample of the node's memory.
#[derive(Clone, Copy, Debug, Serialize)]
struct MemorySample {
    at_seconds: f64,
    resident_bytes: u64,
}

/// The stream of the whole data set.
#[derive(Debug, Serialize)]
struct StreamedScan {
    bytes: u64,
    seconds: f64,
    samples: Vec<MemorySample>,
}

/// The results.
#[derive(Debug, Serialize)]
struct ScanResults {
    keys: u64,
    /// The peak resident memory when the data had been written.
    filled_bytes_max: u64,
    /// The peak resident memory at the end.
    resident_bytes_max: u64,
    stream: Measured<StreamedScan>,
    scans: Measured<CostedRun>,
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: MEMORY,
            options: &["--durability", "os"],
        },
    )?;
    let node = &cluster.nodes[0];
    let all = (MEMORY_BYTES * DATA_TIMES / VALUE_BYTES) as u64;
    let plan = Plan {
        keys: context.effort().pick(2_000, all, all),
        key_bytes: SizeDistribution::Fixed(KEY_BYTES),
        value_bytes: SizeDistribution::Fixed(VALUE_BYTES),
        ..measure::plan_on(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let filled_bytes_max = node.usage().resident_bytes_max;
    context.log("streaming all data");
    let stream = stream(context, node)?;
    context.log("scans of 10,000");
    let plan = Plan {
        operations: vec![(Operation::Scan, 1.0)],
        scan_limit: context.effort().pick(100, EARLIER_LIMIT, EARLIER_LIMIT),
        key_choice: KeyChoice::Uniform,
        connections: 1,
        rate: Rate::Max,
        seconds: context.effort().pick(0.5, 8.0, 30.0),
        ..plan
    };
    let scans = measure::run(context, &cluster, &plan)?;
    let profile = profile::under_load(context, node, &plan, ProfileKind::Cpu)?;
    let outcome = ScanResults {
        keys: plan.keys,
        filled_bytes_max,
        resident_bytes_max: node.usage().resident_bytes_max,
        stream,
        scans,
    };
    describe(page, &outcome, &profile);
    Ok(())
}

/// Reads the whole data set while another thread samples the node's memory.
fn stream(
    context: &ExperimentContext<'_>,
    node: &LabNode,
) -> Result<Measured<StreamedScan>, Error> {
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    let (read, samples) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                samples.push(MemorySample {
                    at_seconds: begin.elapsed().as_secs_f64(),
                    resident_bytes: node.usage().resident_bytes,
                });
                std::thread::sleep(SAMPLE_INTERVAL);
            }
            samples
        });
        let read = read_all(context, node);
        is_over.store(true, Ordering::Relaxed);
        // If the thread panicked, there are no samples.
        (read, sampler.join().unwrap_or_default())
    });
    match read {
        Ok(bytes) => Ok(Ok(StreamedScan {
            bytes,
            seconds: begin.elapsed().as_secs_f64(),
            samples,
        })),
        Err(Error::Stopped) => Err(Error::Stopped),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Reads the whole data set and returns its size in bytes.
fn read_all(context: &ExperimentContext<'_>, node: &LabNode) -> Result<u64, Error> {
    let url = format!("{}/v0/entities?start=%00", node.url());
    let mut bytes = 0;
    http::stream(&url, STREAM_TIMEOUT, |piece| {
        bytes += piece.len() as u64;
        context.fail_if_stopped()
    })?;
    Ok(bytes)
}

impl StreamedScan {
    fn entities(&self) -> u64 {
        self.bytes / ENTITY_BYTES
    }

    fn entities_per_second(&self) -> f64 {
        self.entities() as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    fn resident_bytes_max(&self) -> Option<u64> {
        self.samples
            .iter()
            .map(|sample| sample.resident_bytes)
            .max()
    }
}

fn entities_per_second(load: &CostedRun) -> f64 {
    load.run.entities as f64 / load.run.measured_seconds.max(f64::MIN_POSITIVE)
}

fn describe(page: &mut Page, outcome: &ScanResults, profile: &Measured<FoldedProfile>) {
    let mut table = MarkdownTable::new(["what", "figure"]);
    let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
    let size = |bytes: u64| units::bytes(bytes as f64);
    row("entities in the store", units::count(outcome.keys));
    row("`--memory`", size(MEMORY_BYTES as u64));
    row(
        "peak resident memory after the fill",
        size(outcome.filled_bytes_max),
    );
    if let Ok(stream) = &outcome.stream {
        let bytes_per_second = units::bytes(stream.bytes as f64 / stream.seconds);
        let resident = stream.resident_bytes_max().unwrap_or(0);
        for (what, figure) in [
            ("entities", units::count(stream.entities())),
            ("bytes", size(stream.bytes)),
            ("time", units::seconds(stream.seconds)),
            (
                "entities per second",
                units::rate(stream.entities_per_second()),
            ),
            ("bytes per second", format!("{bytes_per_second}/s")),
            ("peak resident memory", size(resident)),
        ] {
            row(&format!("one stream: {what}"), figure);
        }
        let points = stream.samples.iter();
        let points = points.map(|sample| (sample.at_seconds, sample.resident_bytes as f64));
        let svg = Lines::new(
            "Resident memory of the node while one client reads all data",
            Axis::linear("time", Unit::Seconds),
            Axis::linear("resident", Unit::Bytes),
        )
        .with(Series::new("resident memory", points))
        .bound_line(MEMORY_BYTES as f64, "--memory")
        .draw();
        page.keep_chart("memory", svg);
    }
    if let Ok(scans) = &outcome.scans {
        let cpu_us = scans
            .cpu_us
            .map(|cpu_us| cpu_us * scans.run.succeeded as f64);
        let entities = Some(scans.run.entities as f64);
        for (what, figure) in [
            ("requests", units::rate(scans.rate())),
            ("entities", units::rate(entities_per_second(scans))),
            ("p99", text::latency(scans.latency_ms(99.0))),
            (
                "CPU time per entity",
                text::cpu(statistics::ratio(cpu_us, entities)),
            ),
        ] {
            row(&format!("scans of 10,000: {what}"), figure);
        }
    }
    page.keep_table("measured", table);
    figures::failed_measurements(page, [("one stream".to_owned(), &outcome.stream)]);
    figures::failed_measurements(page, [("scans of 10,000".to_owned(), &outcome.scans)]);
    figures::profile(page, "range-cpu", "Scans: CPU time", profile);
    page.data("runs", outcome);
}
