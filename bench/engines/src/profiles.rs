//! Profiles of the processor time of Kvorum's engine, in some of the compared workloads.
//!
//! Each profile is taken after the comparison in its own process, so it does not affect
//! the figures. The sampler is that of a node (`crates/profile`).

use crate::part::Part;
use crate::store::{Durability, EngineName};
use crate::task::{Task, Workload};
use std::path::{Path, PathBuf};

/// The keys and the seconds of a profiled workload. There are more keys than in the
/// comparison, because the number of samples follows from the processor time.
const KEYS: u64 = 1_600_000;
const SECONDS: f64 = 5.0;
/// A fill is allowed to finish.
const FILL_SECONDS: f64 = 600.0;

/// A workload that is profiled.
pub struct Profiled {
    /// The name of the workload on the page.
    pub title: &'static str,
    name: &'static str,
    part: Part,
    workload: Workload,
    durability: Durability,
    threads: u64,
}

/// The profiled workloads of a part, in their order: reads use the store of the fill
/// before them.
pub fn of(part: Part) -> impl Iterator<Item = Profiled> {
    let small = |title, name, workload| Profiled {
        title,
        name,
        part: Part::Small,
        workload,
        durability: Durability::Os,
        threads: 2,
    };
    let all = [
        small(
            "fill, random keys, 2 threads, `os`",
            "fill-random",
            Workload::FillRandom,
        ),
        small("read random keys, 2 threads", "read", Workload::Read),
        small("ranges, 2 threads", "range", Workload::Range),
        Profiled {
            title: "fill, random keys, 16 threads, `sync`",
            name: "fill-random-sync",
            part: Part::Sync,
            workload: Workload::FillRandom,
            durability: Durability::Sync,
            threads: 16,
        },
    ];
    all.into_iter().filter(move |one| one.part == part)
}

impl Profiled {
    /// The file name of the flame graph.
    pub fn file_name(&self) -> String {
        format!("{}.svg", self.name)
    }

    /// The path of the flame graph among the results of a run.
    pub fn path(&self, results: &Path) -> PathBuf {
        results.join(self.file_name())
    }

    /// The task with the store in `folder`.
    pub fn task(&self, folder: &Path) -> Task {
        let cut_short = !self.workload.writes() || self.durability == Durability::Sync;
        Task {
            engine: EngineName::Kvorum,
            workload: self.workload,
            durability: self.durability,
            value_bytes: 100,
            keys: KEYS,
            threads: self.threads,
            seconds_max: if cut_short { SECONDS } else { FILL_SECONDS },
            round: 0,
            folder: folder.to_owned(),
        }
    }
}
