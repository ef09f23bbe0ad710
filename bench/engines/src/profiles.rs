//! Profiles of Kvorum's engine: where its processor time goes in some of the
//! workloads that are compared.
//!
//! They are taken after the comparison, in processes of their own, and are none
//! of its figures. The sampler is that of a node (`crates/profile`).

use crate::part::Part;
use crate::store::{Durability, EngineName};
use crate::task::{Task, Workload};
use std::path::{Path, PathBuf};

/// How many samples are taken depends on the processor time: so many keys more
/// than in the comparison, and so many seconds.
const KEYS: u64 = 1_600_000;
const SECONDS: f64 = 5.0;
/// A fill is not cut short.
const FILL_SECONDS: f64 = 600.0;

/// A workload that is profiled.
pub struct Profiled {
    /// What the page calls it.
    pub title: &'static str,
    name: &'static str,
    part: Part,
    workload: Workload,
    durability: Durability,
    threads: u64,
}

/// Those of a part, in the order in which they are taken: reads find what the
/// fill before them has left.
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
    /// The name of its flame graph's file.
    pub fn file_name(&self) -> String {
        format!("{}.svg", self.name)
    }

    /// Where a run keeps its flame graph.
    pub fn path(&self, results: &Path) -> PathBuf {
        results.join(self.file_name())
    }

    /// What is done with the store in `folder`.
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
