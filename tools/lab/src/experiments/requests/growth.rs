//! How the cost of a request grows with the size of its value and with the
//! number of keys.

use crate::context::ExperimentContext;
use crate::measure::profile::{self, FoldedProfile, ProfileKind};
use crate::measure::{self, CostedRun, Measured};
use crate::nodes::{ClusterLayout, LabCluster};
use crate::page::{MarkdownTable, Page, text};
use crate::sections;
use crate::{Error, Experiment, PageText, statistics};
use load::plan::{Operation, Plan, SizeDistribution};
use load::report::plot::{Axis, Lines, Series, Style};
use load::report::units::{self, Unit};
use serde::Serialize;
use std::time::Duration;

/// The sizes of values, in bytes.
const VALUE_BYTES: [usize; 5] = [64, 1 << 10, 16 << 10, 128 << 10, 1 << 20];

/// The greatest total size of the values, in bytes.
const DATA_BYTES_MAX: usize = 256 << 20;

/// Values of at least this size are sent over fewer connections, so that no
/// request is refused for lack of memory for bodies.
const LONG_BYTES: usize = 128 << 10;

/// The number of connections for long values.
const LONG_CONNECTIONS: usize = 16;

/// The size of the values in the runs over numbers of keys.
const KEYS_VALUE_BYTES: usize = 256;

/// How long compaction may take after a fill.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const EXPERIMENT: Experiment = Experiment {
    text: PageText::Sentences {
        title: "Larger values, more keys",
        method: &[
            "Values: for each size a new node with `--durability os` and 1 GiB of memory is filled \
         with up to 100,000 keys and at most 256 MiB. Then a closed loop sends `GET` and `PUT` of \
         these keys over 64 connections, or over 16 for values of 128 KiB and more. The values \
         cannot be compressed.",
            "Keys: for each number of keys a new node with 192 MiB of memory is filled with 256-byte \
         values in random order, and left until its compactions are done. Then a closed loop sends \
         `GET` and `PUT` of uniformly chosen keys over 64 connections. The larger sets do not fit \
         into the cache of the node, which reads them from the page cache of the operating system, \
         as far as the machine has memory. The profile shows `GET` with the most keys, in a run of \
         its own.",
        ],
    },
    name: "growth",
    question: "How does the cost of a request grow with the size of its value, and with the \
               amount of data in the store?",
    run,
};

/// The measurements with values of one size.
#[derive(Debug, Serialize)]
struct ValueSizeCase {
    value_bytes: usize,
    loads: PutAndGet,
}

/// The measurements with a number of keys.
#[derive(Debug, Serialize)]
struct KeyCountCase {
    keys: u64,
    fill_seconds: f64,
    table_bytes: f64,
    write_amplification: f64,
    /// None if there are no tables.
    space_amplification: Option<f64>,
    resident_bytes: u64,
    loads: PutAndGet,
    /// The CPU profile of `GET`.
    #[serde(skip)]
    profile: Option<Measured<FoldedProfile>>,
}

/// The operations, in the order of tables and plots.
const OPERATIONS: [Operation; 2] = [Operation::Put, Operation::Get];

/// A load for each operation.
#[derive(Debug, Serialize)]
struct PutAndGet {
    put: Measured<CostedRun>,
    get: Measured<CostedRun>,
}

impl PutAndGet {
    /// Reads first, then overwrites the keys.
    fn measure(
        context: &ExperimentContext<'_>,
        cluster: &LabCluster,
        plan: &Plan,
    ) -> Result<Self, Error> {
        let load = |operation| {
            let plan = Plan {
                operations: vec![(operation, 1.0)],
                ..plan.clone()
            };
            measure::run(context, cluster, &plan)
        };
        let get = load(Operation::Get)?;
        let put = load(Operation::Put)?;
        Ok(Self { put, get })
    }

    fn of(&self, operation: Operation) -> &Measured<CostedRun> {
        match operation {
            Operation::Put => &self.put,
            _ => &self.get,
        }
    }

    fn cpu_us(&self, operation: Operation) -> Option<f64> {
        self.of(operation).as_ref().ok()?.cpu_us
    }
}

fn run(context: &ExperimentContext<'_>, page: &mut Page) -> Result<(), Error> {
    let mut sized = Vec::new();
    for value_bytes in VALUE_BYTES {
        sized.push(with_values(context, value_bytes)?);
    }
    let numbers: &[u64] = context.effort().pick(
        &[1_000, 2_000][..],
        &[100_000, 1_000_000],
        &[100_000, 1_000_000, 10_000_000],
    );
    let mut stored = Vec::new();
    for keys in numbers {
        let profiled = Some(keys) == numbers.last();
        stored.push(with_keys(context, *keys, profiled)?);
    }
    describe(page, &sized, &stored);
    Ok(())
}

fn with_values(
    context: &ExperimentContext<'_>,
    value_bytes: usize,
) -> Result<ValueSizeCase, Error> {
    context.log(&format!("values of {}", units::bytes(value_bytes as f64)));
    let cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "1GiB",
            options: &["--durability", "os"],
        },
    )?;
    let mut plan = measure::plan(context, &cluster, Operation::Get);
    plan.value_bytes = SizeDistribution::Fixed(value_bytes);
    plan.keys = plan.keys.min((DATA_BYTES_MAX / value_bytes) as u64);
    plan.seconds = context.effort().pick(0.5, 4.0, 15.0);
    if value_bytes >= LONG_BYTES {
        plan.connections = LONG_CONNECTIONS;
    }
    measure::fill(context, &plan)?;
    Ok(ValueSizeCase {
        value_bytes,
        loads: PutAndGet::measure(context, &cluster, &plan)?,
    })
}

fn with_keys(
    context: &ExperimentContext<'_>,
    keys: u64,
    profiled: bool,
) -> Result<KeyCountCase, Error> {
    let cluster = LabCluster::start(
        context,
        ClusterLayout {
            nodes: 1,
            memory: "192MiB",
            options: &["--durability", "os"],
        },
    )?;
    let plan = Plan {
        keys,
        value_bytes: SizeDistribution::Fixed(KEYS_VALUE_BYTES),
        seconds: context.effort().pick(0.5, 6.0, 20.0),
        ..measure::plan(context, &cluster, Operation::Get)
    };
    let filled = measure::fill(context, &plan)?;
    context.log("waiting for compaction");
    settle(context, &cluster)?;
    let node = &cluster.nodes[0];
    let metrics = node.metrics()?;
    let table_bytes = metrics.sum("kvorum_store_level_bytes", "");
    let loads = PutAndGet::measure(context, &cluster, &plan)?;
    let profile = if profiled {
        Some(profile::under_load(context, node, &plan, ProfileKind::Cpu)?)
    } else {
        None
    };
    Ok(KeyCountCase {
        keys,
        fill_seconds: filled.measured_seconds,
        table_bytes,
        write_amplification: metrics.sum("kvorum_store_write_amplification", ""),
        space_amplification: (table_bytes > 0.0)
            .then(|| metrics.sum("kvorum_store_space_amplification", "")),
        resident_bytes: node.usage().resident_bytes,
        loads,
        profile,
    })
}

/// Waits until no compaction has written anything for a second, but no longer
/// than [`SETTLE_TIMEOUT`]: a busy store can be measured too.
fn settle(context: &ExperimentContext<'_>, cluster: &LabCluster) -> Result<(), Error> {
    let written = || {
        let metrics = cluster.nodes[0].metrics()?;
        Ok::<f64, Error>(
            metrics.sum("kvorum_store_compaction_written_bytes_total", "")
                + metrics.sum("kvorum_store_flush_written_bytes_total", ""),
        )
    };
    let mut before = written()?;
    let mut since = std::time::Instant::now();
    let settled = context.wait_until("the end of compaction", SETTLE_TIMEOUT, || {
        std::thread::sleep(Duration::from_millis(100));
        let now = written()?;
        if now != before {
            before = now;
            since = std::time::Instant::now();
        }
        Ok((since.elapsed() >= Duration::from_secs(1)).then_some(()))
    });
    match settled {
        Err(Error::TimedOut(_)) => Ok(()),
        settled => settled,
    }
}

fn describe(page: &mut Page, sized: &[ValueSizeCase], stored: &[KeyCountCase]) {
    page.section("By the size of values");
    let mut table = MarkdownTable::new([
        "value",
        "PUT",
        "PUT, bytes",
        "PUT, CPU",
        "PUT, p99",
        "GET",
        "GET, bytes",
        "GET, CPU",
        "GET, p99",
    ]);
    for row in sized {
        let bytes = Some(row.value_bytes);
        let cells = OPERATIONS.map(|operation| cells(row.loads.of(operation), bytes));
        let name = units::bytes(row.value_bytes as f64);
        table.row(std::iter::once(name).chain(cells.into_iter().flatten()));
    }
    page.table(&table);
    sections::failed_measurements(
        page,
        troubles(
            sized
                .iter()
                .map(|row| (units::bytes(row.value_bytes as f64), &row.loads)),
        ),
    );
    let x = Axis::logarithmic("value", Unit::Bytes);
    let y = Axis::logarithmic("bytes of values per second", Unit::Bytes);
    let mut lines = Lines::new("Throughput by the size of values", x, y);
    for operation in OPERATIONS {
        let points = sized.iter().filter_map(|row| {
            let rate = row.loads.of(operation).as_ref().ok()?.rate();
            let bytes = row.value_bytes as f64;
            Some((bytes, rate * bytes))
        });
        lines = lines.with(Series::new(sections::method(operation), points).style(Style::Dotted));
    }
    page.figure("values", "Throughput by the size of values", lines.draw());

    page.section("By the number of keys");
    let mut table = MarkdownTable::new([
        "keys",
        "tables",
        "fill",
        "write amplification",
        "space amplification",
        "resident",
        "PUT",
        "PUT, CPU",
        "PUT, p99",
        "GET",
        "GET, CPU",
        "GET, p99",
    ]);
    for row in stored {
        let head = [
            units::count(row.keys),
            units::bytes(row.table_bytes),
            units::seconds(row.fill_seconds),
            text::ratio(row.write_amplification),
            text::ratio(row.space_amplification.unwrap_or(f64::NAN)),
            units::bytes(row.resident_bytes as f64),
        ];
        let cells = OPERATIONS.map(|operation| cells(row.loads.of(operation), None));
        table.row(head.into_iter().chain(cells.into_iter().flatten()));
    }
    page.table(&table);
    sections::failed_measurements(
        page,
        troubles(
            stored
                .iter()
                .map(|row| (units::count(row.keys), &row.loads)),
        ),
    );
    let x = Axis::logarithmic("keys", Unit::Count);
    let y = Axis::linear("CPU time per request", Unit::Milliseconds);
    let mut lines = Lines::new("CPU time per request, by the number of keys", x, y);
    for operation in OPERATIONS {
        let points = stored.iter().filter_map(|row| {
            let cpu_us = row.loads.cpu_us(operation)?;
            Some((row.keys as f64, cpu_us / 1e3))
        });
        lines = lines.with(Series::new(sections::method(operation), points).style(Style::Dotted));
    }
    page.figure(
        "keys",
        "CPU time per request, by the number of keys",
        lines.draw(),
    );

    let profiled = stored
        .iter()
        .filter_map(|row| Some((row.keys, row.profile.as_ref()?)));
    for (keys, profile) in profiled {
        page.section("Where the time goes");
        let title = format!(
            "GET, {} keys: {}",
            units::count(keys),
            ProfileKind::Cpu.title()
        );
        sections::profile(page, "get-cpu", &title, profile);
    }

    page.section("What it shows");
    page.list(findings(sized, stored));
    page.paragraph("The studies have no such figures.");
    page.data("values", &sized);
    page.data("keys", &stored);
}

/// The rate, bytes per second if the size of values is fixed, CPU time and p99.
fn cells(load: &Measured<CostedRun>, value_bytes: Option<usize>) -> Vec<String> {
    let load = load.as_ref().ok();
    let rate = load.map(CostedRun::rate);
    let mut cells = vec![text::rate(rate)];
    if let Some(bytes) = value_bytes {
        let bytes = rate.unwrap_or(f64::NAN) * bytes as f64;
        cells.push(format!("{}/s", units::bytes(bytes)));
    }
    cells.push(text::cpu(load.and_then(|load| load.cpu_us)));
    cells.push(text::latency(load.and_then(|load| load.latency_ms(99.0))));
    cells
}

fn troubles<'a>(
    rows: impl Iterator<Item = (String, &'a PutAndGet)>,
) -> Vec<(String, &'a Measured<CostedRun>)> {
    rows.flat_map(|(name, loads)| {
        OPERATIONS.map(|operation| {
            let name = format!("{}, {name}", sections::method(operation));
            (name, loads.of(operation))
        })
    })
    .collect()
}

fn findings(sized: &[ValueSizeCase], stored: &[KeyCountCase]) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(small), Some(large)) = (sized.first(), sized.last()) {
        let times = large.value_bytes as f64 / small.value_bytes as f64;
        for operation in OPERATIONS {
            let (method, cpu) = (sections::method(operation), |row: &ValueSizeCase| {
                row.loads.cpu_us(operation)
            });
            if let Some(cost) = statistics::ratio(cpu(large), cpu(small)) {
                found.push(format!(
                    "A {method} of {} costs {} times the CPU time of a {method} of {}, for {} \
                     times the bytes.",
                    units::bytes(large.value_bytes as f64),
                    text::ratio(cost),
                    units::bytes(small.value_bytes as f64),
                    text::ratio(times)
                ));
            }
        }
    }
    if let (Some(few), Some(many)) = (stored.first(), stored.last()) {
        let times = many.keys as f64 / few.keys as f64;
        for operation in OPERATIONS {
            let (method, cpu) = (sections::method(operation), |row: &KeyCountCase| {
                row.loads.cpu_us(operation)
            });
            if let Some(cost) = statistics::ratio(cpu(many), cpu(few)) {
                found.push(format!(
                    "With {} times the keys, a {method} costs {} times the CPU time.",
                    text::ratio(times),
                    text::ratio(cost)
                ));
            }
        }
        found.push(format!(
            "The process has {} of resident memory with {} of tables.",
            units::bytes(many.resident_bytes as f64),
            units::bytes(many.table_bytes)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_contains, load, page_text};

    fn loads(cpu_us: f64) -> PutAndGet {
        PutAndGet {
            put: Ok(load(1_000, 2.0, cpu_us)),
            get: Ok(load(2_000, 1.0, cpu_us / 2.0)),
        }
    }

    #[test]
    fn costs_are_compared_over_sizes_and_numbers_of_keys() {
        let sized = [(64, 10.0), (6_400, 25.0)].map(|(value_bytes, cpu_us)| ValueSizeCase {
            value_bytes,
            loads: loads(cpu_us),
        });
        let mut stored = [(1_000, 10.0), (10_000, 12.0)].map(|(keys, cpu_us)| KeyCountCase {
            keys,
            fill_seconds: 1.0,
            table_bytes: 1e6,
            write_amplification: 2.5,
            space_amplification: Some(1.1),
            resident_bytes: 64 << 20,
            loads: loads(cpu_us),
            profile: None,
        });
        stored[1].profile = Some(FoldedProfile::parse(
            ProfileKind::Cpu,
            1.0,
            "read;lz4_flex::block 3\nread;x 1",
        ));
        stored[0].loads.get = Err("no answer".to_owned());
        let page = page_text(|page| describe(page, &sized, &stored));
        assert_contains(
            &page,
            &[
                "A PUT of 6.25 KiB costs 2.50 times the CPU time of a PUT of 64 B, for 100 times the \
                 bytes.",
                "With 10.0 times the keys, a PUT costs 1.20 times the CPU time.",
                "- GET, 1,000: no answer",
                "64.0 MiB of resident memory",
                "| 10,000 ",
                "### GET, 10,000 keys: CPU time",
                "| compression |   75% |",
            ],
        );
        assert!(!page.contains("times the keys, a GET"), "{page}");
    }
}
