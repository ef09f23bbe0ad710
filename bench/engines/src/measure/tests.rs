//! Tasks on a small scale.

use super::*;
use crate::store::{Durability, EngineName};
use std::path::Path;

fn task(engine: EngineName, workload: Workload, folder: &Path) -> Task {
    Task {
        engine,
        workload,
        durability: Durability::Os,
        value_bytes: 100,
        keys: 1000,
        threads: 2,
        seconds_max: if workload.writes() { 60.0 } else { 0.02 },
        round: 1,
        folder: folder.to_owned(),
    }
}

#[test]
fn every_workload_finds_on_every_engine_what_was_written() {
    for engine in EngineName::ALL {
        let folder = tempfile::tempdir().unwrap();
        for workload in [
            Workload::FillRandom,
            Workload::Overwrite,
            Workload::Read,
            Workload::ReadHot,
            Workload::ReadMissing,
            Workload::Scan,
            Workload::Range,
        ] {
            let measured = measure(task(engine, workload, folder.path()), None).unwrap();
            if workload.writes() {
                assert_eq!(measured.operations, 1000);
                assert_eq!(measured.data_bytes, 1000 * 116);
                assert!(measured.settled_cpu_seconds >= measured.cpu_seconds);
            }
            assert!(measured.operations > 0 && measured.cpu_us() > 0.0);
        }
    }
}

#[test]
fn both_other_fills_write_every_key() {
    for engine in EngineName::ALL {
        for workload in [Workload::FillSequential, Workload::FillBatch] {
            let folder = tempfile::tempdir().unwrap();
            measure(task(engine, workload, folder.path()), None).unwrap();
            // A scan checks that every key exists.
            measure(task(engine, Workload::Scan, folder.path()), None).unwrap();
        }
    }
}

#[test]
fn a_missing_value_ends_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let filled = task(EngineName::Kvorum, Workload::FillRandom, folder.path());
    measure(filled, None).unwrap();
    for workload in [Workload::Read, Workload::Scan] {
        let more_keys = Task {
            keys: 2000,
            ..task(EngineName::Kvorum, workload, folder.path())
        };
        assert!(measure(more_keys, None).is_err(), "{workload:?} saw no gap");
    }
}
