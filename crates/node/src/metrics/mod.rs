//! What a node counts, for Prometheus.
//!
//! Each runtime counts for itself, in cells that only it writes: a plain load
//! and store, without a lock or a contended cache line on the hot path. A
//! scrape adds them up and encodes a snapshot.

mod cluster;

use crate::shared::Shared;
use cluster::{ClusterSnapshot, CoordinationMetrics, LinkMetrics};
use hyper::{Method, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "DELETE", "other"];

const STATUSES: [u16; 18] = [
    200, 201, 202, 304, 400, 404, 405, 408, 413, 414, 431, 500, 501, 503, 504, 505, 507, 0,
];

/// Upper bounds of the latency histograms: 16 us doubled, up to 8.4 s.
const LATENCY_BUCKETS: usize = 20;
const LATENCY_LEAST: Duration = Duration::from_micros(16);

/// A number that one thread writes and others read.
#[derive(Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    /// Counts.
    pub(crate) fn add(&self, number: u64) {
        // One writer: nothing can come between load and store.
        self.set(self.get().wrapping_add(number));
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Latency {
    /// How many took at most the bound of a bucket and more than that of the
    /// one before; the last is for all that took longer.
    buckets: [Cell; LATENCY_BUCKETS + 1],
    sum_ns: Cell,
}

/// What one runtime counts.
#[derive(Default)]
pub(crate) struct RuntimeMetrics {
    requests: [[Cell; STATUSES.len()]; METHODS.len()],
    latency: [Latency; METHODS.len()],
    connections: Cell,
    in_flight: Cell,
    queued: Cell,
    /// The requests that it coordinates.
    pub(crate) coordination: CoordinationMetrics,
    /// Its links, by node.
    pub(crate) links: Box<[LinkMetrics]>,
}

impl RuntimeMetrics {
    /// Counts an answer.
    pub(crate) fn observe(&self, method: &Method, status: StatusCode, took: Duration) {
        let method = match *method {
            Method::GET => 0,
            Method::HEAD => 1,
            Method::PUT => 2,
            Method::DELETE => 3,
            _ => 4,
        };
        let status = STATUSES
            .iter()
            .position(|known| *known == status.as_u16())
            .unwrap_or(STATUSES.len() - 1);
        self.requests[method][status].add(1);
        let latency = &self.latency[method];
        latency.buckets[bucket_of(took)].add(1);
        latency
            .sum_ns
            .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes over what others count.
    pub(crate) fn publish(&self, connections: usize, in_flight: usize, queued: usize) {
        self.connections.set(connections as u64);
        self.in_flight.set(in_flight as u64);
        self.queued.set(queued as u64);
    }
}

/// The bucket of a duration: the first whose bound is not below it.
fn bucket_of(took: Duration) -> usize {
    let least = LATENCY_LEAST.as_nanos();
    let multiples = took.as_nanos().div_ceil(least).max(1);
    let doublings = multiples.next_power_of_two().trailing_zeros() as usize;
    doublings.min(LATENCY_BUCKETS)
}

/// What a node counts.
pub(crate) struct Metrics {
    runtimes: Vec<Arc<RuntimeMetrics>>,
}

impl Metrics {
    /// Counters for so many runtimes of a node in a cluster of so many nodes.
    pub(crate) fn new(runtimes: usize, nodes: usize) -> Self {
        let runtime = || RuntimeMetrics {
            links: (0..nodes).map(|_| LinkMetrics::default()).collect(),
            ..RuntimeMetrics::default()
        };
        Self {
            runtimes: (0..runtimes).map(|_| Arc::new(runtime())).collect(),
        }
    }

    /// The counters of one runtime.
    pub(crate) fn of_runtime(&self, number: usize) -> Arc<RuntimeMetrics> {
        self.runtimes
            .get(number)
            .map(Arc::clone)
            .unwrap_or_default()
    }

    /// All of it in Prometheus' text format, version 0.0.4.
    pub(crate) fn text(&self, shared: &Shared) -> String {
        prometheus_text(&self.open_metrics_text(shared))
    }

    /// All of it in the OpenMetrics text format.
    pub(crate) fn open_metrics_text(&self, shared: &Shared) -> String {
        let mut registry = Registry::with_prefix("kvorum");
        registry.register_collector(Box::new(Snapshot::of(self, shared)));
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            // A string takes all that is written to it.
            debug_assert!(false, "a snapshot can always be encoded");
        }
        text
    }

    fn sum(&self, of: impl Fn(&RuntimeMetrics) -> u64) -> u64 {
        self.runtimes.iter().map(|runtime| of(runtime)).sum()
    }
}

/// OpenMetrics as the older format has it: there the names of counters end in
/// `_total` also where their help and type are told, and there is no end mark.
fn prometheus_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            break;
        }
        let told = ["# HELP ", "# TYPE "]
            .iter()
            .find_map(|mark| Some((*mark, line.strip_prefix(mark)?.split_once(' ')?)));
        let Some((mark, (name, rest))) = told else {
            text.extend([line, "\n"]);
            continue;
        };
        // The type follows the help.
        let of_type = if mark == "# TYPE " {
            line
        } else {
            lines.peek().copied().unwrap_or_default()
        };
        let suffix = if of_type.ends_with(" counter") {
            "_total"
        } else {
            ""
        };
        text.extend([mark, name, suffix, " ", rest, "\n"]);
    }
    text
}

/// The numbers of one scrape.
#[derive(Debug)]
struct Snapshot {
    requests: Vec<(&'static str, String, u64)>,
    latencies: Vec<(&'static str, LatencySnapshot)>,
    counters: Vec<(&'static str, &'static str, u64)>,
    gauges: Vec<(&'static str, &'static str, f64)>,
    levels: Vec<(String, u64, u64)>,
    cluster: ClusterSnapshot,
}

#[derive(Debug)]
struct LatencySnapshot {
    sum_seconds: f64,
    count: u64,
    buckets: Vec<(f64, u64)>,
}

impl Snapshot {
    fn of(metrics: &Metrics, shared: &Shared) -> Self {
        let store = shared.engine.statistics();
        let mut requests = Vec::new();
        let mut latencies = Vec::new();
        for (row, method) in METHODS.iter().enumerate() {
            for (column, status) in STATUSES.iter().enumerate() {
                let count = metrics.sum(|runtime| runtime.requests[row][column].get());
                if count > 0 {
                    let status = match status {
                        0 => "other".to_owned(),
                        status => status.to_string(),
                    };
                    requests.push((*method, status, count));
                }
            }
            latencies.push((*method, LatencySnapshot::of(metrics, row)));
        }
        Self {
            requests,
            latencies,
            counters: vec![
                ("store_writes", "Entries written", store.writes),
                (
                    "store_written_bytes",
                    "Bytes of keys and values written",
                    store.written_bytes,
                ),
                ("store_commits", "Group commits", store.commits),
                ("store_log_syncs", "Syncs of the log", store.log_syncs),
                (
                    "store_log_written_bytes",
                    "Bytes written to the log",
                    store.log_written_bytes,
                ),
                ("store_flushes", "Memtables flushed", store.flushes),
                (
                    "store_flush_written_bytes",
                    "Bytes written by flushes",
                    store.flush_written_bytes,
                ),
                (
                    "store_compactions",
                    "Compactions finished",
                    store.compactions,
                ),
                (
                    "store_compaction_read_bytes",
                    "Bytes read by compactions",
                    store.compaction_read_bytes,
                ),
                (
                    "store_compaction_written_bytes",
                    "Bytes written by compactions",
                    store.compaction_written_bytes,
                ),
                (
                    "store_cache_hits",
                    "Block cache lookups that found the block",
                    store.cache_hits,
                ),
                (
                    "store_cache_misses",
                    "Block cache lookups that read the disk",
                    store.cache_misses,
                ),
                (
                    "store_filter_negatives",
                    "Filter checks that ruled a table out",
                    store.filter_negatives,
                ),
                (
                    "store_filter_true_positives",
                    "Filter checks that admitted a present key",
                    store.filter_true_positives,
                ),
                (
                    "store_filter_false_positives",
                    "Filter checks that admitted an absent key",
                    store.filter_false_positives,
                ),
                (
                    "store_data_blocks_fetched",
                    "Data blocks fetched by reads and scans",
                    store.data_blocks_fetched,
                ),
                (
                    "store_slowdowns",
                    "Group commits that were slowed",
                    store.slowdowns,
                ),
                (
                    "store_stalls",
                    "Group commits that waited for a flush or a compaction",
                    store.stalls,
                ),
                (
                    "store_refused_overloaded",
                    "Writes refused because too many waited",
                    store.refused_overloaded,
                ),
                (
                    "store_refused_disk_full",
                    "Writes refused because the disk was full",
                    store.refused_disk_full,
                ),
            ],
            gauges: vec![
                (
                    "connections",
                    "Open connections",
                    metrics.sum(|runtime| runtime.connections.get()) as f64,
                ),
                (
                    "requests_in_flight",
                    "Requests that are worked on",
                    metrics.sum(|runtime| runtime.in_flight.get()) as f64,
                ),
                (
                    "requests_queued",
                    "Requests that wait to be worked on",
                    metrics.sum(|runtime| runtime.queued.get()) as f64,
                ),
                (
                    "reads_queued",
                    "Reads that wait for a thread",
                    shared.read_pool.waiting() as f64,
                ),
                (
                    "upload_bytes",
                    "Bytes of bodies on their way in",
                    shared.uploads.used() as f64,
                ),
                (
                    "answer_bytes",
                    "Bytes of long values on their way out",
                    shared.answers.used() as f64,
                ),
                (
                    "range_bytes",
                    "Bytes of the batches of ranges on their way out",
                    shared.ranges.used() as f64,
                ),
                (
                    "scans",
                    "Ranges that are streamed",
                    shared.scans.used() as f64,
                ),
                (
                    "store_memtable_bytes",
                    "Memory of the memtables",
                    store.memtable_bytes as f64,
                ),
                (
                    "store_memtables_frozen",
                    "Memtables that wait for their flush",
                    store.memtables_frozen as f64,
                ),
                (
                    "store_log_bytes",
                    "Size of the live log segments",
                    store.log_bytes as f64,
                ),
                (
                    "store_cache_bytes",
                    "Memory of the block cache",
                    store.cache_bytes as f64,
                ),
                (
                    "store_table_entries",
                    "Versions in all tables",
                    store.table_entries as f64,
                ),
                (
                    "store_table_tombstones",
                    "Tombstones in all tables",
                    store.table_tombstones as f64,
                ),
                (
                    "store_write_amplification",
                    "Bytes written to disk for a byte of keys and values",
                    store.write_amplification(),
                ),
                (
                    "store_space_amplification",
                    "Bytes of tables for a byte of the last level",
                    store.space_amplification(),
                ),
                (
                    "store_disk_full",
                    "Whether puts are refused because the disk is full",
                    f64::from(u8::from(store.disk_full)),
                ),
                (
                    "store_poisoned",
                    "Whether the store is read-only since a failed sync",
                    f64::from(u8::from(store.poisoned.is_some())),
                ),
            ],
            levels: store
                .levels
                .iter()
                .enumerate()
                .map(|(number, level)| (number.to_string(), level.tables, level.bytes))
                .collect(),
            cluster: ClusterSnapshot::of(metrics, shared),
        }
    }
}

impl LatencySnapshot {
    fn of(metrics: &Metrics, method: usize) -> Self {
        let bucket =
            |number: usize| metrics.sum(|runtime| runtime.latency[method].buckets[number].get());
        let mut bound = LATENCY_LEAST.as_secs_f64();
        let mut buckets = Vec::with_capacity(LATENCY_BUCKETS + 1);
        for number in 0..LATENCY_BUCKETS {
            buckets.push((bound, bucket(number)));
            bound *= 2.0;
        }
        buckets.push((f64::INFINITY, bucket(LATENCY_BUCKETS)));
        Self {
            sum_seconds: metrics.sum(|runtime| runtime.latency[method].sum_ns.get()) as f64 / 1e9,
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "requests",
            "Answers by method and status",
            None,
            MetricType::Counter,
        )?;
        for (method, status, count) in &self.requests {
            let labels = [("method", *method), ("status", status.as_str())];
            ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "request_seconds",
            "From the head of a request to the head of its answer",
            None,
            MetricType::Histogram,
        )?;
        for (method, latency) in &self.latencies {
            family
                .encode_family(&[("method", *method)])?
                .encode_histogram::<NoLabelSet>(
                    latency.sum_seconds,
                    latency.count,
                    &latency.buckets,
                    None,
                )?;
        }
        for (name, help, number) in &self.counters {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(*number).encode(metric)?;
        }
        for (name, help, number) in &self.gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(*number).encode(metric)?;
        }
        self.cluster.encode(&mut encoder)?;
        let mut family = encoder.encode_descriptor(
            "store_level_tables",
            "Tables by level",
            None,
            MetricType::Gauge,
        )?;
        for (level, tables, _) in &self.levels {
            let labels = [("level", level.as_str())];
            ConstGauge::new(*tables as f64).encode(family.encode_family(&labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "store_level_bytes",
            "Size of the tables by level",
            None,
            MetricType::Gauge,
        )?;
        for (level, _, bytes) in &self.levels {
            let labels = [("level", level.as_str())];
            ConstGauge::new(*bytes as f64).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_with_its_bound() {
        for (took_us, bucket) in [
            (0, 0),
            (16, 0),
            (17, 1),
            (32, 1),
            (33, 2),
            (64, 2),
            (8_388_608, 19),
            (8_388_609, 20),
            (u64::MAX, 20),
        ] {
            assert_eq!(
                bucket_of(Duration::from_micros(took_us)),
                bucket,
                "{took_us}"
            );
        }
    }

    #[test]
    fn counters_are_named_in_full_in_the_older_format() {
        let open = "# HELP a All a.\n# TYPE a counter\na_total{b=\"c\"} 1\n\
                    # HELP d A d.\n# TYPE d gauge\nd 2.0\n# EOF\n";
        let older = "# HELP a_total All a.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n\
                     # HELP d A d.\n# TYPE d gauge\nd 2.0\n";
        assert_eq!(prometheus_text(open), older);
    }

    #[test]
    fn answers_are_counted_by_method_and_status() {
        let metrics = Metrics::new(2, 1);
        let took = Duration::from_micros(20);
        for runtime in 0..2 {
            let runtime = metrics.of_runtime(runtime);
            runtime.observe(&Method::PUT, StatusCode::CREATED, took);
            runtime.observe(&Method::PATCH, StatusCode::IM_A_TEAPOT, took);
        }
        assert_eq!(metrics.sum(|runtime| runtime.requests[2][1].get()), 2);
        assert_eq!(metrics.sum(|runtime| runtime.requests[4][17].get()), 2);
        let puts = LatencySnapshot::of(&metrics, 2);
        assert_eq!((puts.count, puts.buckets[1].1), (2, 2));
    }
}
