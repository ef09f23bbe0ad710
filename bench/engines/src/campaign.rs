//! The whole comparison: which tasks run, in which order. Each runs in its own process.
//!
//! The engines take turns within each workload, and another one begins each round, so
//! that a machine that becomes slower or faster affects all of them alike.

use crate::part::Part;
use crate::profiles;
use crate::results;
use crate::store::{Durability, EngineName, Failure};
use crate::task::{Measurement, Task, Workload};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// All parts together take minutes.
    Quick,
    /// Ten times as many keys, and longer reads.
    Full,
}

/// What to run, and where.
pub struct Campaign {
    /// The amount of work.
    pub effort: Effort,
    /// How often each engine runs each task.
    pub rounds: u64,
    /// The folder of the stores, which are removed at the end.
    pub folder: PathBuf,
    /// The folder of the results.
    pub results: PathBuf,
}

/// The keys of [`Part::Big`].
const BIG_KEYS: u64 = 10_000_000;

/// Which of an engine's two stores a step uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A store that is created for the step and removed after it.
    Scratch,
    /// A store that the round's first step creates and the later steps use.
    Kept,
}

/// One workload, which every engine runs in turn.
struct Step {
    place: Place,
    workload: Workload,
    durability: Durability,
    value_bytes: usize,
    keys: u64,
    threads: u64,
    seconds_max: f64,
}

impl Campaign {
    /// Runs a part, and writes each result when it is there, in place of earlier results.
    ///
    /// # Errors
    /// Those of a task and of the file system.
    pub fn run(&self, part: Part) -> Result<(), Failure> {
        let mut results = results::Writer::create(&self.results, part)?;
        for round in 0..self.rounds {
            self.remove_stores()?;
            for step in steps(part, self.effort) {
                let engines = part.engines();
                for turn in 0..engines.len() {
                    let engine = engines[(turn + round as usize) % engines.len()];
                    let task = self.task(&step, engine, round);
                    let measured = measure_apart(&task, None)?;
                    eprintln!("{part:?} round {}: {}", round + 1, measured.summary());
                    results.add(&measured)?;
                    if step.place == Place::Scratch {
                        std::fs::remove_dir_all(&task.folder)?;
                    }
                }
            }
        }
        self.remove_stores()?;
        for profiled in profiles::of(part) {
            eprintln!("{part:?}: profiles {}", profiled.title);
            let task = profiled.task(&self.store_folder());
            measure_apart(&task, Some(&profiled.path(&self.results)))?;
        }
        self.remove_stores()
    }

    fn task(&self, step: &Step, engine: EngineName, round: u64) -> Task {
        let place = match step.place {
            Place::Scratch => "scratch",
            Place::Kept => "kept",
        };
        Task {
            engine,
            workload: step.workload,
            durability: step.durability,
            value_bytes: step.value_bytes,
            keys: step.keys,
            threads: step.threads,
            seconds_max: step.seconds_max,
            round,
            folder: self.store_folder().join(place).join(engine.to_string()),
        }
    }

    /// A subfolder for the stores, because the given folder may hold other files.
    fn store_folder(&self) -> PathBuf {
        self.folder.join("engines-stores")
    }

    fn remove_stores(&self) -> Result<(), Failure> {
        let folder = self.store_folder();
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", folder.display()).into())
            }
            _ => Ok(()),
        }
    }
}

/// Runs a task in its own process, which may also write its flame graph.
fn measure_apart(task: &Task, flame_graph: Option<&Path>) -> Result<Measurement, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("task").arg(serde_json::to_string(task)?);
    if let Some(file) = flame_graph {
        command.arg("--flame-graph").arg(file);
    }
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        let Task {
            engine, workload, ..
        } = task;
        return Err(format!("{engine}: {workload:?} has failed: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The steps of a round.
fn steps(part: Part, effort: Effort) -> Vec<Step> {
    match part {
        Part::Small => unsynced(100, 400_000, effort),
        Part::Large => unsynced(1024, 100_000, effort),
        Part::Sync => synced(effort),
        Part::Big => big(effort),
    }
}

fn unsynced(value_bytes: usize, keys: u64, effort: Effort) -> Vec<Step> {
    let (keys, read_seconds) = match effort {
        Effort::Quick => (keys, 0.5),
        Effort::Full => (keys * 10, 5.0),
    };
    let step = |place, workload: Workload, threads| Step {
        place,
        workload,
        durability: Durability::Os,
        value_bytes,
        keys,
        threads,
        seconds_max: if workload.writes() {
            600.0
        } else {
            read_seconds
        },
    };
    vec![
        step(Place::Scratch, Workload::FillSequential, 1),
        step(Place::Scratch, Workload::FillBatch, 1),
        step(Place::Kept, Workload::FillRandom, 2),
        step(Place::Kept, Workload::Overwrite, 2),
        step(Place::Kept, Workload::Read, 2),
        step(Place::Kept, Workload::ReadHot, 2),
        step(Place::Kept, Workload::ReadMissing, 2),
        step(Place::Kept, Workload::Range, 2),
        step(Place::Kept, Workload::Scan, 1),
    ]
}

/// The store is as large with any effort; the longer one writes and reads for longer.
fn big(effort: Effort) -> Vec<Step> {
    let longer = match effort {
        Effort::Quick => 1.0,
        Effort::Full => 10.0,
    };
    let step = |workload, seconds_max| Step {
        place: Place::Kept,
        workload,
        durability: Durability::Os,
        value_bytes: 1024,
        keys: BIG_KEYS,
        threads: 2,
        seconds_max,
    };
    vec![
        step(Workload::FillRandom, 7200.0),
        step(Workload::Overwrite, 120.0 * longer),
        step(Workload::Read, 10.0 * longer),
    ]
}

fn synced(effort: Effort) -> Vec<Step> {
    let seconds_max = match effort {
        Effort::Quick => 2.0,
        Effort::Full => 10.0,
    };
    let step = |value_bytes, threads| Step {
        place: Place::Scratch,
        workload: Workload::FillRandom,
        durability: Durability::Sync,
        value_bytes,
        // No engine can write so many in that time.
        keys: 10_000_000,
        threads,
        seconds_max,
    };
    vec![step(100, 1), step(100, 16), step(1024, 16)]
}

/// Checks that `folder` can hold stores, and creates it if it does not exist.
///
/// # Errors
/// A line that names the folder and the system's error.
pub fn check_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()).into())
}
