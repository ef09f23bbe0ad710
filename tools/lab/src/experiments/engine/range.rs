//! Reads a range that is larger than the node's memory.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster, LabNode};
use crate::page::{MarkdownTable, Page, text};
use crate::{Error, Experiment, PageText, http, sections, statistics};
use load::plan::{KeyChoice, Operation, Plan, Rate, SizeDistribution};
use load::report::plot::{Axis, Lines, Series};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::io::Read;
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

/// The study's ranges: entities per request and requests per second.
const STUDY_LIMIT: u64 = 10_000;
const STUDY_REQUESTS: f64 = 100.0;

/// How long the whole stream may take.
const STREAM_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the node's memory is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "A range larger than memory",
        method: &[
            "A node with `--memory 128MiB` and `--durability os` is filled with 1 GiB of 1 KiB values \
         that cannot be compressed. Then one HTTP client requests all of it with a single `GET \
         /v0/entities?start=%00` and reads as fast as possible, like `curl`. The resident memory \
         of the node is sampled every 50 ms.",
            "Then one connection requests ranges of 10,000 entities from random keys, one after \
         another, as in the study.",
        ],
    },
    name: "range",
    question: "How fast does one client read a data set that is eight times as large as the \
               node's memory, and how much memory does the node use meanwhile?",
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
struct StreamedRange {
    bytes: u64,
    seconds: f64,
    #[serde(rename = "looks")]
    samples: Vec<MemorySample>,
}

/// The results.
#[derive(Debug, Serialize)]
struct RangeResults {
    keys: u64,
    /// The peak resident memory when the data had been written.
    filled_bytes_max: u64,
    /// The peak resident memory at the end.
    resident_bytes_max: u64,
    stream: Measured<StreamedRange>,
    ranges: Measured<CostedRun>,
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
        ..measure::plan(context, &cluster, Operation::Put)
    };
    measure::fill(context, &plan)?;
    let filled_bytes_max = node.usage().resident_bytes_max;
    context.log("streaming all data");
    let stream = stream(context, node)?;
    context.log("ranges of 10,000");
    let plan = Plan {
        operations: vec![(Operation::Range, 1.0)],
        range_limit: context.effort().pick(100, STUDY_LIMIT, STUDY_LIMIT),
        key_choice: KeyChoice::Uniform,
        connections: 1,
        rate: Rate::Max,
        seconds: context.effort().pick(0.5, 8.0, 30.0),
        ..plan
    };
    let ranges = measure::run(context, &cluster, &plan)?;
    let profile = profile::under_load(context, node, &plan, ProfileKind::Cpu)?;
    let outcome = RangeResults {
        keys: plan.keys,
        filled_bytes_max,
        resident_bytes_max: node.usage().resident_bytes_max,
        stream,
        ranges,
    };
    describe(page, &outcome, &profile);
    Ok(())
}

/// Reads the whole data set while another thread samples the node's memory.
fn stream(
    context: &ExperimentContext<'_>,
    node: &LabNode,
) -> Result<Measured<StreamedRange>, Error> {
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
        Ok(bytes) => Ok(Ok(StreamedRange {
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
    let mut body = http::stream(&url, STREAM_TIMEOUT)?;
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        context.fail_if_stopped()?;
        match body.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes += read as u64,
            Err(error) => return Err(Error::http(&*url, &error)),
        }
    }
}

impl StreamedRange {
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

fn describe(page: &mut Page, outcome: &RangeResults, profile: &Measured<FoldedProfile>) {
    page.section("Measured");
    let mut table = MarkdownTable::new(["what", "figure"]);
    let size = |bytes: u64| units::bytes(bytes as f64);
    table.row([
        "entities in the store".to_owned(),
        units::count(outcome.keys),
    ]);
    table.row(["`--memory`".to_owned(), size(MEMORY_BYTES as u64)]);
    table.row([
        "peak resident memory after the fill".to_owned(),
        size(outcome.filled_bytes_max),
    ]);
    if let Ok(stream) = &outcome.stream {
        table.row(["one stream: bytes".to_owned(), size(stream.bytes)]);
        table.row([
            "one stream: time".to_owned(),
            units::seconds(stream.seconds),
        ]);
        table.row([
            "one stream: entities per second".to_owned(),
            units::rate(stream.entities_per_second()),
        ]);
        table.row([
            "one stream: bytes per second".to_owned(),
            format!("{}/s", units::bytes(stream.bytes as f64 / stream.seconds)),
        ]);
        table.row([
            "one stream: peak resident memory".to_owned(),
            size(stream.resident_bytes_max().unwrap_or(0)),
        ]);
    }
    if let Ok(ranges) = &outcome.ranges {
        table.row([
            "ranges of 10,000: requests".to_owned(),
            units::rate(ranges.rate()),
        ]);
        table.row([
            "ranges of 10,000: entities".to_owned(),
            units::rate(entities_per_second(ranges)),
        ]);
        table.row([
            "ranges of 10,000: p99".to_owned(),
            text::latency(ranges.latency_ms(99.0)),
        ]);
        table.row([
            "ranges of 10,000: CPU time per entity".to_owned(),
            text::cpu(statistics::ratio(
                ranges
                    .cpu_us
                    .map(|cpu_us| cpu_us * ranges.run.succeeded as f64),
                Some(ranges.run.entities as f64),
            )),
        ]);
    }
    page.table(&table);
    sections::failed_measurements(page, [("one stream".to_owned(), &outcome.stream)]);
    sections::failed_measurements(page, [("ranges of 10,000".to_owned(), &outcome.ranges)]);
    if let Ok(stream) = &outcome.stream {
        let points = stream
            .samples
            .iter()
            .map(|sample| (sample.at_seconds, sample.resident_bytes as f64));
        let svg = Lines::new(
            "Resident memory of the node while one client reads all data",
            Axis::linear("time", Unit::Seconds),
            Axis::linear("resident", Unit::Bytes),
        )
        .with(Series::new("resident memory", points))
        .bound_line(MEMORY_BYTES as f64, "--memory")
        .draw();
        page.figure(
            "memory",
            "Resident memory of the node during the stream",
            svg,
        );
    }

    page.section("Where the time goes");
    sections::profile(page, "range-cpu", "Ranges: CPU time", profile);

    page.section("What it shows");
    page.list(findings(outcome));
    page.data("run", outcome);
}

fn findings(outcome: &RangeResults) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(stream) = &outcome.stream else {
        return found;
    };
    let entities = stream.entities();
    found.push(
        if entities == outcome.keys && stream.bytes.is_multiple_of(ENTITY_BYTES) {
            format!(
                "The stream contained all {} entities.",
                units::count(entities)
            )
        } else {
            format!(
                "The stream contained {} of {} entities: it is incomplete.",
                units::count(entities),
                units::count(outcome.keys)
            )
        },
    );
    if let Some(most) = stream.resident_bytes_max() {
        found.push(format!(
            "While it streamed {}, the node had at most {} of resident memory, {} of `--memory`.",
            units::bytes(stream.bytes as f64),
            units::bytes(most as f64),
            text::percent(most as f64 / MEMORY_BYTES as f64)
        ));
    }
    if let Ok(ranges) = &outcome.ranges {
        found.push(format!(
            "Ranges of 10,000 return {} entities over one connection. In the study they returned \
             {}, on another machine and with other values, so the two cannot be compared.",
            units::rate(entities_per_second(ranges)),
            units::rate(STUDY_REQUESTS * STUDY_LIMIT as f64)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(bytes: u64) -> RangeResults {
        RangeResults {
            keys: 1000,
            filled_bytes_max: 1 << 20,
            resident_bytes_max: 2 << 20,
            stream: Ok(StreamedRange {
                bytes,
                seconds: 0.5,
                samples: vec![
                    MemorySample {
                        at_seconds: 0.0,
                        resident_bytes: 64 << 20,
                    },
                    MemorySample {
                        at_seconds: 0.1,
                        resident_bytes: 32 << 20,
                    },
                ],
            }),
            ranges: Err("the node is gone".to_owned()),
        }
    }

    #[test]
    fn an_incomplete_stream_is_reported() {
        let whole = findings(&outcome(1000 * ENTITY_BYTES));
        assert!(whole[0].contains("all 1,000"), "{}", whole[0]);
        assert!(whole[1].contains("50% of `--memory`"), "{}", whole[1]);
        let cut = findings(&outcome(1000 * ENTITY_BYTES - 1));
        assert!(cut[0].contains("999 of 1,000"), "{}", cut[0]);
        let long = findings(&outcome(1000 * ENTITY_BYTES + 1));
        assert!(long[0].contains("incomplete"), "{}", long[0]);
    }

    #[test]
    fn the_page_reports_failed_measurements() {
        let mut page = Page::new("range", "Ranges");
        let profile = Err("this build of the nodes cannot be profiled".to_owned());
        describe(&mut page, &outcome(1000 * ENTITY_BYTES), &profile);
        let text = page.markdown();
        for line in [
            "ranges of 10,000: the node is gone",
            "No profile: this build of the nodes cannot be profiled.",
            "2,000/s",
        ] {
            assert!(text.contains(line), "{line} is not in:\n{text}");
        }
    }
}
