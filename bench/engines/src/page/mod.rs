//! The page: what was compared, on which terms, and the medians.

mod machine;
mod table;

use crate::campaign::Part;
use crate::store::{EngineName, Failure};
use crate::task::{Latency, Measurement};
use crate::terms;
use std::path::Path;
use table::{Better, Row};

/// What the figures show and why, found with profiles and written by hand.
const FINDINGS: &str = include_str!("findings.md");

/// The versions that `Cargo.lock` holds.
const ROCKSDB_VERSION: &str = "11.8.1";

/// Writes the page.
///
/// # Errors
/// Those of the file system.
pub fn write(page: &Path, parts: &[(Part, Vec<Measurement>)]) -> Result<(), Failure> {
    if let Some(folder) = page.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(page, markdown(parts))
        .map_err(|error| format!("cannot write {}: {error}", page.display()).into())
}

fn markdown(parts: &[(Part, Vec<Measurement>)]) -> String {
    let mut text = introduction(parts);
    for (part, measurements) in parts {
        if !measurements.is_empty() {
            text.push_str(&section(*part, measurements));
        }
    }
    text.push_str("\n## What it shows\n\n");
    text.push_str(FINDINGS);
    text
}

fn introduction(parts: &[(Part, Vec<Measurement>)]) -> String {
    let rounds = parts
        .iter()
        .flat_map(|(_, measurements)| measurements)
        .map(|measurement| measurement.task.round + 1)
        .max()
        .unwrap_or(0);
    format!(
        "# The engine beside RocksDB and fjall

What does Kvorum's engine (`crates/lsm`), without the network and the cluster, cost beside two \
others of its kind, on equal terms?

    cd bench/engines && cargo run --release -- run

That wrote this page; `--full` takes ten times as many keys. The figures are medians of {rounds} \
rounds. Each task ran in a process of its own, and the engines took turns within each workload. \
Machine: {machine}.

## The terms

- **Data**: keys of 16 bytes (hexadecimal digits), values of 100 bytes or 1 KiB of which a half \
is compressible. Every value read is checked.
- **Memory**: a cache of {cache} MiB for blocks, filters and indexes; memtables of {memtable} MiB, \
of which {memtables} may be in memory (fjall halts writers at four that wait). The data is larger \
than the cache, so most random reads take a block from the page cache of the system and unpack it.
- **Tables**: LZ4 on all levels, blocks of {block} KiB, Bloom filters of 10 bits a key on all \
levels, tables of {table} MiB, {level_0} tables on level 0 start a compaction, level 1 has {level_1} MiB.
- **Threads**: {background} for flush and compaction together, of equal priority. No limit on the \
rate of compaction; that of Kvorum rests by itself as long as it works, unless it is behind.
- **Durability**: `os`, a write has been given to the system when it returns; `sync`, it is on the \
disk. RocksDB and Kvorum let writers share a sync by themselves; for fjall the harness does that, \
since fjall syncs for each caller alone.
- **RocksDB** {ROCKSDB_VERSION}: compiled for this very processor, as its own makefile does (without \
that its checksums are several times slower), with its newer cache (`HyperClockCache`). **All three** \
allocate with mimalloc. What is not named here is each engine's default.
- Kvorum's entries carry a timestamp, an expiry and a count of copies, some 12 bytes that the others \
do not store; what takes a write looks whether the key holds a newer version. A single write is the \
blocking `Engine::write`; {batch} writes in one call are handed to the group commit, as a node does.

CPU is the time of all threads of the process, those in the background included. *Settled* means \
until flush and compaction had nothing to do any more of themselves; fjall compacts only after \
flushes and when it is opened, so some of its work is put off until a read opens it, before \
what is measured there.
",
        machine = machine::line(),
        cache = terms::CACHE_BYTES >> 20,
        memtable = terms::MEMTABLE_BYTES >> 20,
        memtables = terms::MEMTABLES_MAX,
        block = terms::BLOCK_BYTES >> 10,
        table = terms::TABLE_BYTES >> 20,
        level_0 = terms::LEVEL_0_TABLES,
        level_1 = terms::LEVEL_1_BYTES >> 20,
        background = terms::BACKGROUND_THREADS,
        batch = crate::task::Workload::BATCH,
    )
}

fn section(part: Part, measurements: &[Measurement]) -> String {
    let rows = table::rows(measurements);
    let all: Vec<&Row<'_>> = rows.iter().collect();
    let writing: Vec<&Row<'_>> = rows.iter().filter(|row| row.writes()).collect();
    let timed: Vec<&Row<'_>> = rows.iter().filter(|row| row.has_latencies()).collect();
    let keys = rows.first().map_or(0, Row::keys);
    let title = match part {
        Part::Small => format!("Values of 100 bytes, {keys} keys, durability `os`"),
        Part::Large => format!("Values of 1 KiB, {keys} keys, durability `os`"),
        Part::Sync => "Durability `sync`".to_owned(),
    };
    let figure = |title: &str, table: String| format!("\n{title}:\n\n{table}");
    [
        format!("\n## {title}\n"),
        figure(
            "Operations a second (values; ranges in the row of ranges)",
            table::of_figure(&all, Better::Higher, Measurement::rate, thousands),
        ),
        figure(
            "CPU of an operation until the last has returned, us",
            table::of_figure(&all, Better::Lower, Measurement::cpu_us, microseconds),
        ),
        figure(
            "CPU of a write until all is settled, us",
            table::of_figure(
                &writing,
                Better::Lower,
                Measurement::settled_cpu_us,
                microseconds,
            ),
        ),
        figure(
            "Latency of a call, p50 / p99 / p99.9, us",
            table::of_text(&timed, latencies),
        ),
        figure(
            "Bytes written to the disk for each byte given, settled",
            table::of_figure(
                &writing,
                Better::Lower,
                Measurement::write_amplification,
                ratio,
            ),
        ),
        figure(
            "Space on the disk, settled and closed, MiB",
            table::of_figure(
                &writing,
                Better::Lower,
                |one| one.disk_bytes as f64,
                mebibytes,
            ),
        ),
        figure(
            "Peak memory of the process, MiB",
            table::of_figure(
                &all,
                Better::Lower,
                |one| one.memory_bytes_peak as f64,
                mebibytes,
            ),
        ),
    ]
    .concat()
}

fn latencies(row: &Row<'_>, engine: EngineName) -> String {
    let quantile = |of: fn(Latency) -> u64| {
        row.median(engine, |one| {
            one.latency.map_or(f64::NAN, |latency| of(latency) as f64)
        })
        .map_or(String::new(), |ns| short(ns / 1e3))
    };
    format!(
        "{} / {} / {}",
        quantile(|latency| latency.p50_ns),
        quantile(|latency| latency.p99_ns),
        quantile(|latency| latency.p999_ns),
    )
}

/// With groups of three digits.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

fn microseconds(us: f64) -> String {
    format!("{us:.2}")
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / f64::from(1 << 20))
}

/// With as many digits as mean something.
fn short(us: f64) -> String {
    if us < 10.0 {
        format!("{us:.1}")
    } else {
        thousands(us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_to_be_read() {
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(short(3.25), "3.2");
        assert_eq!(short(12_345.6), "12,346");
    }

    #[test]
    fn a_part_that_was_not_run_has_no_section() {
        let text = markdown(&[(Part::Small, Vec::new())]);
        assert!(text.starts_with("# The engine beside RocksDB and fjall\n"));
        assert!(!text.contains("## Values of"));
    }
}
