//! The page: which engines were compared, on which terms, and the medians.

mod machine;
mod plots;
mod table;

use crate::part::Part;
use crate::profiles;
use crate::store::{EngineName, Failure};
use crate::task::{Latency, Measurement};
use crate::terms;
use std::path::{Path, PathBuf};
use table::{Better, Row};

/// What the figures show and why. It is written by hand, after a look at the profiles.
const FINDINGS: &str = include_str!("findings.md");

/// The versions that `Cargo.lock` holds.
const ROCKSDB_VERSION: &str = "11.8.1";

/// The page's text, and its pictures by the names of their files.
struct Page {
    text: String,
    pictures: Vec<(String, String)>,
}

/// Writes the page, and its pictures into the folder of the page's name beside it. Flame
/// graphs come from the folder of the results, if it has them.
///
/// # Errors
/// Those of the file system.
pub fn write(
    path: &Path,
    results: &Path,
    parts: &[(Part, Vec<Measurement>)],
) -> Result<(), Failure> {
    let beside = beside(path);
    let page = Page::new(&folder_name(path), results, parts);
    let written = std::fs::create_dir_all(&beside).and_then(|()| {
        for (file, svg) in &page.pictures {
            std::fs::write(beside.join(file), svg)?;
        }
        std::fs::write(path, &page.text)
    });
    written.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// The folder of a page's pictures.
fn beside(path: &Path) -> PathBuf {
    path.with_file_name(folder_name(path))
}

fn folder_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

impl Page {
    fn new(folder: &str, results: &Path, parts: &[(Part, Vec<Measurement>)]) -> Self {
        let mut page = Self {
            text: introduction(),
            pictures: Vec::new(),
        };
        for (part, measurements) in parts {
            if !measurements.is_empty() {
                page.section(folder, *part, measurements);
            }
        }
        page.profiles(folder, results);
        page.text.push_str("\n## What it shows\n\n");
        page.text.push_str(FINDINGS);
        page
    }

    /// Adds a picture with a link to the picture alone.
    fn picture(&mut self, folder: &str, file: String, caption: &str, svg: String) {
        let link = format!("{folder}/{file}");
        self.text
            .push_str(&format!("\n[![{caption}]({link})]({link})\n"));
        self.pictures.push((file, svg));
    }

    /// Adds the flame graphs of a run.
    fn profiles(&mut self, folder: &str, results: &Path) {
        let mut drawn = Part::ALL
            .into_iter()
            .flat_map(profiles::of)
            .filter_map(|profiled| {
                let svg = std::fs::read_to_string(profiled.path(results)).ok()?;
                Some((profiled, svg))
            })
            .peekable();
        if drawn.peek().is_none() {
            return;
        }
        self.text.push_str(
            "\n## Where Kvorum's time goes\n\nProcessor time by sampling, background work included, \
             taken after the comparison in processes of their own, with four times as many keys of \
             100 bytes. A flame graph opened alone can be searched and zoomed.\n",
        );
        for (profiled, svg) in drawn {
            self.text.push_str(&format!("\n### {}\n", profiled.title));
            let caption = profiled.title.replace('`', "");
            self.picture(folder, profiled.file_name(), &caption, svg);
        }
    }

    fn section(&mut self, folder: &str, part: Part, measurements: &[Measurement]) {
        let rows = table::rows(measurements);
        let all: Vec<&Row<'_>> = rows.iter().collect();
        self.text.push_str(&format!(
            "\n## {}\n",
            title(part, &rows, rounds(measurements))
        ));
        let rates = plots::beside_the_best(
            "Operations a second, the best is 1",
            &all,
            Better::Higher,
            Measurement::rate,
        );
        let file = format!("{}-rate.svg", part.name());
        self.picture(folder, file, "Operations a second, the best is 1", rates);
        let cpu = plots::beside_the_best(
            "CPU of an operation, the best is 1",
            &all,
            Better::Lower,
            Measurement::cpu_us,
        );
        let file = format!("{}-cpu.svg", part.name());
        self.picture(folder, file, "CPU of an operation, the best is 1", cpu);
        self.text.push_str(&tables(&all));
    }
}

fn introduction() -> String {
    format!(
        "# The engine beside RocksDB and fjall

What does Kvorum's engine (`crates/lsm`), without the network and the cluster, cost beside two \
others of its kind, on equal terms?

    cd bench/engines && cargo run --release -- run

That wrote this page at commit `{commit}`; `--full` takes ten times as many keys, and `--part big` adds ten gigabytes. The figures are medians of the \
rounds that a title names. Each task ran in a process of its own, and the engines took turns within each workload. \
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
        commit = machine::commit(),
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

/// How often each engine did each task.
fn rounds(measurements: &[Measurement]) -> u64 {
    let rounds = measurements
        .iter()
        .map(|measurement| measurement.task.round + 1);
    rounds.max().unwrap_or(0)
}

fn title(part: Part, rows: &[Row<'_>], rounds: u64) -> String {
    let keys = thousands(rows.first().map_or(0, Row::keys) as f64);
    let rounds = match rounds {
        1 => "1 round".to_owned(),
        many => format!("{many} rounds"),
    };
    match part {
        Part::Small => format!("Values of 100 bytes, {keys} keys, durability `os`, {rounds}"),
        Part::Large | Part::Big => {
            format!("Values of 1 KiB, {keys} keys, durability `os`, {rounds}")
        }
        Part::Sync => format!("Durability `sync`, {rounds}"),
    }
}

fn tables(all: &[&Row<'_>]) -> String {
    let writing: Vec<&Row<'_>> = all.iter().copied().filter(|row| row.writes()).collect();
    let timed: Vec<&Row<'_>> = all
        .iter()
        .copied()
        .filter(|row| row.has_latencies())
        .collect();
    let figure = |title: &str, table: String| format!("\n{title}:\n\n{table}");
    [
        figure(
            "Operations a second (values; ranges in the row of ranges)",
            table::of_figure(all, Better::Higher, Measurement::rate, thousands),
        ),
        figure(
            "CPU of an operation until the last has returned, us",
            table::of_figure(all, Better::Lower, Measurement::cpu_us, microseconds),
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
                all,
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

/// The number with its digits in groups of three.
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

/// The number with its significant digits.
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
        let results = tempfile::tempdir().unwrap();
        let page = Page::new("engines", results.path(), &[(Part::Small, Vec::new())]);
        assert!(
            page.text
                .starts_with("# The engine beside RocksDB and fjall\n")
        );
        assert!(!page.text.contains("## Values of"));
        assert!(!page.text.contains("## Where"));
        assert!(page.pictures.is_empty());
    }

    #[test]
    fn flame_graphs_of_a_run_are_part_of_the_page() {
        let results = tempfile::tempdir().unwrap();
        std::fs::write(results.path().join("read.svg"), "<svg/>").unwrap();
        let docs = tempfile::tempdir().unwrap();
        let path = docs.path().join("engines.md");
        write(&path, results.path(), &[]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("](engines/read.svg)](engines/read.svg)"),
            "{text}"
        );
        let svg = std::fs::read_to_string(docs.path().join("engines/read.svg")).unwrap();
        assert_eq!(svg, "<svg/>");
    }
}
