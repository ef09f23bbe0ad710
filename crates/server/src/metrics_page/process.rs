//! The process as the system sees it, under the usual names of Prometheus metrics.

use node::metrics::Family;
use rustix::process::{Resource, getrlimit};

/// The metrics of the process. A number that the system does not report is left out.
pub(super) fn families() -> Vec<Family> {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let stat = read("/proc/self/stat").and_then(|text| Stat::parse(&text));
    let booted = read("/proc/stat").and_then(|text| boot_unix_seconds(&text));
    let ticks_a_second = rustix::param::clock_ticks_per_second().max(1) as f64;
    let page_bytes = rustix::param::page_size() as f64;
    let mut families = Vec::new();
    if let Some(stat) = stat {
        families.extend([
            Family::seconds_counter(
                "process_cpu_seconds",
                "CPU time of the process, user and system",
                stat.cpu_ticks as f64 / ticks_a_second,
            ),
            Family::gauge(
                "process_resident_memory_bytes",
                "Resident memory of the process",
                stat.resident_pages as f64 * page_bytes,
            ),
            Family::gauge(
                "process_virtual_memory_bytes",
                "Virtual memory of the process",
                stat.virtual_bytes as f64,
            ),
            Family::gauge(
                "process_threads",
                "Threads of the process",
                stat.threads as f64,
            ),
        ]);
        families.extend(booted.map(|booted| {
            Family::gauge(
                "process_start_time_seconds",
                "When the process started, in seconds since 1970",
                booted as f64 + stat.start_ticks as f64 / ticks_a_second,
            )
        }));
    }
    families.extend(open_files().map(|files| {
        Family::gauge(
            "process_open_fds",
            "Open files and connections",
            files as f64,
        )
    }));
    // Without a limit there is no number to report.
    families.extend(getrlimit(Resource::Nofile).current.map(|max| {
        Family::gauge(
            "process_max_fds",
            "Maximum of open files and connections",
            max as f64,
        )
    }));
    families
}

/// What `/proc/self/stat` says, in the system's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    /// From the start of the machine to that of the process.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// Reads the text. Its second field is the program's name in brackets, which may
    /// contain anything, also brackets and spaces. Plain numbers follow it.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // By the numbers of proc(5), where the first field after the name is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// When the machine started, from `/proc/stat`.
fn boot_unix_seconds(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// How many files the process has open. Linux before 6.2 does not report it as the size
/// of the folder, so the entries are counted there.
fn open_files() -> Option<u64> {
    const FOLDER: &str = "/proc/self/fd";
    let reported = std::fs::metadata(FOLDER).ok()?.len();
    if reported > 0 {
        return Some(reported);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the system's account of this process is no part of a store"
    )]
    let entries = std::fs::read_dir(FOLDER).ok()?;
    Some(entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics_page::open_metrics_text;

    #[test]
    fn the_numbers_of_a_process_are_read_whatever_its_name() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 0 0 20 0 12 0 8642 1048576 77 \
                    18446744073709551615 0 0";
        let stat = Stat {
            cpu_ticks: 300,
            threads: 12,
            start_ticks: 8642,
            virtual_bytes: 1_048_576,
            resident_pages: 77,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        for torn in [
            "",
            "7 (a",
            "7 (a) S 1 2 3",
            "7 (a) S x x x x x x x x x x x x x x x x x x x x x x",
        ] {
            assert_eq!(Stat::parse(torn), None, "{torn}");
        }
        assert_eq!(
            boot_unix_seconds("cpu 1 2\nbtime 1700000000\nx 1\n"),
            Some(1_700_000_000)
        );
        assert_eq!(boot_unix_seconds("cpu 1 2\n"), None);
    }

    #[test]
    fn all_metrics_of_this_process_are_reported() {
        let page = open_metrics_text(families());
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_threads",
            "process_start_time_seconds",
            "process_open_fds",
        ] {
            let mut lines = page.lines();
            let number: Option<f64> =
                lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
            assert!(
                number.is_some_and(|number| number >= 0.0),
                "{name} in {page}"
            );
        }
    }
}
