//! A start opens many tables at the same time, and nobody can tell.

use crate::common::{World, ingest, put, tables};
use lsm::{Disk, Engine, Environment, Error, RealDisk, RecoveryReport};
use std::path::PathBuf;
use std::sync::Arc;

const KEYS: u64 = 600;

fn key(number: u64) -> String {
    format!("key-{number:03}")
}

/// A store in a folder of the machine, with fewer open files than threads.
struct RealWorld {
    world: World,
    disk: Arc<RealDisk>,
    folder: tempfile::TempDir,
}

impl RealWorld {
    fn new() -> Self {
        let mut world = World::new();
        world.options.table_bytes = 1;
        world.options.compression = lsm::Compression::None;
        world.options.open_files_max = 5;
        let real = Self {
            world,
            disk: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        };
        let engine = real.open().unwrap().0;
        let values = (0..KEYS).map(|number| put(&key(number), 1 + number, &"v".repeat(300)));
        ingest(&engine, &values.collect::<Vec<_>>()).unwrap();
        assert!(tables(&engine).iter().sum::<u64>() > 100);
        engine.close().unwrap();
        real
    }

    fn open(&self) -> Result<(Engine, RecoveryReport), Error> {
        let environment = Environment {
            folder: self.folder.path().to_owned(),
            disk: Arc::clone(&self.disk) as _,
            ..self.world.environment()
        };
        Engine::open(environment, self.world.options.clone())
    }

    /// The files of the tables, in the order of their numbers.
    fn files(&self) -> Vec<PathBuf> {
        let names = self.disk.list(self.folder.path()).unwrap();
        let names = names.iter().filter(|name| name.ends_with(".sst"));
        names.map(|name| self.folder.path().join(name)).collect()
    }
}

#[test]
fn all_tables_are_there_and_each_that_does_not_open_is_lost() {
    let real = RealWorld::new();
    let files = real.files();
    let lost = [&files[3], &files[90]];
    for file in lost {
        let opened = real.disk.open(file).unwrap();
        opened.set_len(opened.len().unwrap() - 1).unwrap();
    }
    for _ in 0..2 {
        let (engine, report) = real.open().unwrap();
        assert_eq!(report.tables_lost, 2);
        let mut failed = 0;
        for number in 0..KEYS {
            match engine.get(key(number).as_bytes()) {
                Ok(found) => assert_eq!(found.unwrap().timestamp().as_u64(), 1 + number),
                Err(Error::Corrupt { file, .. }) => {
                    assert!(lost.iter().any(|lost| ***lost == *file));
                    failed += 1;
                }
                Err(error) => unreachable!("{error}"),
            }
        }
        assert!((2..20).contains(&failed), "{failed}");
        engine.close().unwrap();
    }
}

#[test]
fn of_several_that_stop_the_start_the_first_is_named() {
    let real = RealWorld::new();
    let files = real.files();
    for file in files[20..].iter().step_by(7) {
        real.disk.remove(file).unwrap();
    }
    match real.open() {
        Err(Error::Corrupt { file, .. }) => assert_eq!(*file, *files[20]),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("tables are missing and nobody noticed"),
    }
}
