//! Profiles of nodes under load.
//!
//! A profile is fetched as folded stacks: for each stack a line
//! `outer;inner;innermost 42` with its weight. The flame graph is drawn from
//! the same stacks as the tables, so both agree.

use crate::context::ExperimentContext;
use crate::measure::Measured;
use crate::nodes::LabNode;
use crate::{Error, http};
use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{Options, from_lines};
use load::plan::Plan;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is profiled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProfileKind {
    /// CPU time, by sampling.
    Cpu,
    /// Bytes allocated.
    Alloc,
    /// Time spent waiting for locks, in queues, for the disk and for peers.
    Wait,
}

impl ProfileKind {
    /// Its name in requests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Alloc => "alloc",
            Self::Wait => "wait",
        }
    }

    /// Its title on pages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Alloc => "bytes allocated",
            Self::Wait => "time waited",
        }
    }
}

/// A profile of a node.
#[derive(Clone, Debug)]
pub(crate) struct FoldedProfile {
    kind: ProfileKind,
    seconds: f64,
    /// The stacks, with their frames from the outermost to the innermost, and
    /// their weights: samples, bytes or nanoseconds. The outermost frame is the
    /// kind of thread for CPU time and allocations, and the kind of wait for
    /// waits.
    stacks: Vec<(Vec<String>, u64)>,
}

/// A part of the store, whose share of a profile is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StorePart {
    /// Its name in tables.
    pub(crate) name: &'static str,
    /// Which frames belong to it.
    pub(crate) frames: StackMatcher,
}

/// Selects stacks of a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StackMatcher {
    /// All stacks of a kind of thread.
    Thread(&'static str),
    /// Stacks with a frame whose path begins with one of these.
    Named(&'static [&'static str]),
}

/// The parts among which profiles are divided. A frame belongs to the first
/// part that matches it.
pub(crate) const PARTS: &[StorePart] = &[
    // The memtable is before the filters, which share its hash of a key.
    StorePart::named("memtable", &["lsm::memtable"]),
    StorePart::named("filters", FILTERS),
    StorePart::named("data blocks", &["lsm::table::block"]),
    StorePart::named("tables, all else", &["lsm::table"]),
    StorePart::named("block cache", &["quick_cache::", "lsm::cache"]),
    StorePart::named("log", &["lsm::wal"]),
    StorePart::named("disk", &["lsm::disk"]),
    StorePart::named(
        "merging",
        &["lsm::record::merge", "lsm::engine::compaction"],
    ),
    StorePart::named("compression", &["lz4_flex::"]),
    StorePart::named("checksums and hashes", &["crc_fast::", "xxhash_rust::"]),
    StorePart::named("engine, all else", &["lsm::"]),
    StorePart::named("sockets", &["mio::net", "std::net", "socket2::"]),
    StorePart::named("coordination", &["node::coordinator", "cluster::"]),
    StorePart::named(
        "peers",
        &[
            "peer::",
            "replica::peers",
            "replica::replicas",
            "replica::hints",
        ],
    ),
    StorePart::named(
        "HTTP",
        &[
            "hyper::",
            "httparse::",
            "http::",
            "server::http",
            "server::net",
        ],
    ),
    StorePart::named("admission", &["server::admission"]),
    StorePart::named(
        "node, all else",
        &[
            "node::",
            "replica::",
            "membership::",
            "repair::",
            "server::",
        ],
    ),
    StorePart::named("event loop", &["tokio::", "mio::"]),
];

/// The paths of filters.
pub(crate) const FILTERS: &[&str] = &["lsm::table::filter"];

impl StorePart {
    /// A part of all functions whose paths begin with one of these.
    pub(crate) const fn named(name: &'static str, paths: &'static [&'static str]) -> Self {
        let frames = StackMatcher::Named(paths);
        Self { name, frames }
    }
}

impl StackMatcher {
    /// Whether a stack matches.
    fn matches(self, stack: &[String]) -> bool {
        match self {
            Self::Thread(thread) => stack.first().is_some_and(|frame| frame == thread),
            Self::Named(_) => stack.iter().any(|frame| self.matches_frame(frame)),
        }
    }

    /// Whether a frame's path matches.
    fn matches_frame(self, frame: &str) -> bool {
        match self {
            Self::Thread(_) => false,
            Self::Named(paths) => {
                // `<&std::net::tcp::TcpStream as std::io::Write>::write`
                let path = frame.trim_start_matches(['<', '&']);
                paths.iter().any(|begin| path.starts_with(begin))
            }
        }
    }
}

/// Profiles a node while a load runs on its cluster.
///
/// # Errors
/// A stop.
pub(crate) fn under_load(
    context: &ExperimentContext<'_>,
    node: &LabNode,
    plan: &Plan,
    kind: ProfileKind,
) -> Result<Measured<FoldedProfile>, Error> {
    if !context.has_profiles() {
        return Ok(Err("this build of the nodes cannot be profiled".to_owned()));
    }
    let seconds: u32 = context.effort().pick(1, 4, 10);
    context.log(&format!("profiling {} for {seconds} s", kind.name()));
    let mut plan = plan.clone();
    plan.seconds = f64::from(seconds);
    let url = format!(
        "{}/debug/profile?kind={}&seconds={seconds}",
        node.url(),
        kind.name()
    );
    let timeout = Duration::from_secs(u64::from(seconds) + 30);
    let (answer, load) = std::thread::scope(|scope| {
        let fetch = scope.spawn(|| http::get(&url, Some("text/plain"), timeout));
        let load = load::run(&plan, context.stop(), &mut |_| {});
        let answer = fetch
            .join()
            .unwrap_or_else(|_| Err(Error::http(&url, &"the thread that asked it panicked")));
        (answer, load)
    });
    context.fail_if_stopped()?;
    if let Err(error) = load {
        return Ok(Err(error.to_string()));
    }
    Ok(match answer {
        Ok(answer) if answer.status == 200 => {
            FoldedProfile::parse(kind, f64::from(seconds), &answer.body)
        }
        Ok(answer) => Err(format!("the node answered {}", answer.status)),
        Err(error) => Err(error.to_string()),
    })
}

impl FoldedProfile {
    /// Parses folded stacks.
    ///
    /// # Errors
    /// There are no stacks.
    pub(crate) fn parse(kind: ProfileKind, seconds: f64, folded: &str) -> Measured<Self> {
        let stacks = folded.lines().filter_map(|line| {
            let (frames, weight) = line.rsplit_once(' ')?;
            let frames = frames.split(';').map(str::to_owned).collect();
            Some((frames, weight.parse().ok()?))
        });
        let stacks: Vec<(Vec<String>, u64)> = stacks.collect();
        if stacks.is_empty() {
            return Err("the profile is empty".to_owned());
        }
        Ok(Self {
            kind,
            seconds,
            stacks,
        })
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> ProfileKind {
        self.kind
    }

    /// The share of the weight in matching stacks. A stack counts once.
    pub(crate) fn share(&self, frames: StackMatcher) -> f64 {
        let found = self
            .stacks
            .iter()
            .filter(|(stack, _)| frames.matches(stack));
        let found: u64 = found.map(|(_, weight)| weight).sum();
        found as f64 / (self.weight() as f64).max(1.0)
    }

    /// The share of the weight in each part. A stack belongs to the part of the
    /// innermost frame that matches any part.
    pub(crate) fn divided(&self, parts: &[StorePart]) -> Vec<f64> {
        let mut weights = vec![0; parts.len()];
        for (stack, weight) in &self.stacks {
            let innermost = stack.iter().rev().find_map(|frame| {
                let mut parts = parts.iter();
                parts.position(|part| part.frames.matches_frame(frame))
            });
            if let Some(sum) = innermost.and_then(|part| weights.get_mut(part)) {
                *sum += weight;
            }
        }
        let all = (self.weight() as f64).max(1.0);
        weights.iter().map(|weight| *weight as f64 / all).collect()
    }

    /// The waits by cause, with the average number of waiters, in descending
    /// order. A wait for a lock counts under the lock, wherever it happened.
    pub(crate) fn waits(&self) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, weight) in &self.stacks {
            let depth = match stack.first().map(String::as_str) {
                // `lock;THREAD;` and the frames that took the lock.
                Some("lock") => 2,
                _ => stack.len(),
            };
            let name = stack.iter().take(depth).cloned().collect::<Vec<_>>();
            *sums.entry(name.join(", ")).or_default() += weight;
        }
        let seconds = self.seconds.max(f64::MIN_POSITIVE);
        let mut waits: Vec<(String, f64)> = sums
            .into_iter()
            .map(|(name, nanoseconds)| (name, nanoseconds as f64 / 1e9 / seconds))
            .collect();
        waits.sort_by(|one, other| other.1.total_cmp(&one.1));
        waits
    }

    /// The weight of all stacks.
    fn weight(&self) -> u64 {
        self.stacks.iter().map(|(_, weight)| weight).sum()
    }

    /// The flame graph as SVG text.
    ///
    /// # Errors
    /// The reason why it cannot be drawn.
    pub(crate) fn flame_graph(&self, title: &str) -> Measured<String> {
        let (unit, unit_weight, palette) = match self.kind {
            ProfileKind::Cpu => ("samples", 1, BasicPalette::Hot),
            ProfileKind::Alloc => ("bytes", 1, BasicPalette::Mem),
            ProfileKind::Wait => ("microseconds", 1000, BasicPalette::Aqua),
        };
        let mut options = Options::default();
        title.clone_into(&mut options.title);
        unit.clone_into(&mut options.count_name);
        options.colors = Palette::Basic(palette);
        // Equal profiles give equal pictures.
        options.hash = true;
        let lines: Vec<String> = self
            .stacks
            .iter()
            .map(|(frames, weight)| {
                format!("{} {}", frames.join(";"), weight.div_ceil(unit_weight))
            })
            .collect();
        let mut svg = Vec::new();
        from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
            .map_err(|error| error.to_string())?;
        String::from_utf8(svg).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const FOLDED: &str = "\
runtime;http::put;lsm::engine::submit 30
runtime;http::put;write 50
flush;lsm::table::writer;std::io::flush 20
not a stack
";

    #[test]
    fn shares_count_a_stack_once() {
        let profile = FoldedProfile::parse(ProfileKind::Cpu, 1.0, FOLDED).unwrap();
        for (frames, share) in [
            (StackMatcher::Named(&["http::put"]), 0.8),
            (StackMatcher::Named(&["lsm::"]), 0.5),
            (StackMatcher::Named(&["lsm::", "write"]), 1.0),
            (StackMatcher::Named(&["engine"]), 0.0),
            (StackMatcher::Named(&["nothing"]), 0.0),
            (StackMatcher::Thread("flush"), 0.2),
            (StackMatcher::Thread("http::put"), 0.0),
        ] {
            assert_eq!(profile.share(frames), share, "{frames:?}");
        }
        assert!(FoldedProfile::parse(ProfileKind::Cpu, 1.0, "nothing\n").is_err());
    }

    /// A renamed module would silently count as another part.
    #[test]
    fn parts_name_modules_that_exist() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
        let named = PARTS.iter().flat_map(|part| match part.frames {
            StackMatcher::Named(paths) => paths,
            StackMatcher::Thread(_) => &[],
        });
        for path in named {
            let mut modules: Vec<&str> = path.trim_end_matches(':').split("::").collect();
            let source = crates.join(modules.remove(0)).join("src");
            let Some(last) = modules.pop() else { continue };
            // Standard and external crates have no folder here.
            let folder = modules
                .iter()
                .fold(source.clone(), |all, one| all.join(one));
            if source.is_dir() {
                let entries = std::fs::read_dir(&folder).unwrap();
                let mut names = entries.map(|entry| entry.unwrap().file_name());
                assert!(
                    names.any(|name| name.to_string_lossy().starts_with(last)),
                    "{path} names no module"
                );
            }
        }
    }

    #[test]
    fn a_stack_belongs_to_its_innermost_part() {
        let profile = FoldedProfile::parse(ProfileKind::Cpu, 1.0, FOLDED).unwrap();
        let parts = [
            StorePart::named("HTTP", &["http::"]),
            StorePart::named("the engine", &["lsm::"]),
            StorePart::named("system", &["std::"]),
        ];
        assert_eq!(profile.divided(&parts), [0.5, 0.3, 0.2]);
        assert_eq!(profile.divided(&parts[..1]), [0.8]);
    }

    #[test]
    fn waits_are_shown_as_average_numbers_of_waiters() {
        let folded = "\
queue;engine write;commit 4000000000
lock;runtime;a;profile::lock 500000000
lock;runtime;b;profile::lock 1500000000
";
        let profile = FoldedProfile::parse(ProfileKind::Wait, 2.0, folded).unwrap();
        let expected = [("queue, engine write, commit", 2.0), ("lock, runtime", 1.0)];
        let expected = expected.map(|(name, at_a_time)| (name.to_owned(), at_a_time));
        assert_eq!(profile.waits(), expected);
    }

    #[test]
    fn the_flame_graph_holds_title_and_frames() {
        let profile = FoldedProfile::parse(ProfileKind::Alloc, 1.0, FOLDED).unwrap();
        let svg = profile.flame_graph("PUT: bytes allocated").unwrap();
        for word in ["PUT: bytes allocated", "lsm::table::writer", "</svg>"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}
