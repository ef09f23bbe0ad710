//! A disk with one file.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::allow_attributes,
    reason = "each program uses its part, and a test that cannot go on panics"
)]

use lsm::{Disk, DiskFile};
use lsm_testing::MemoryDisk;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn read(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub fn error_of<T>(result: io::Result<T>) -> io::ErrorKind {
    match result {
        Ok(_) => panic!("the call was to fail"),
        Err(error) => error.kind(),
    }
}

pub const FOLDER: &str = "/store";

pub fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// A disk with a folder, and in it a durable file `a` of two pages of 1.
pub fn disk_with_a() -> (MemoryDisk, Arc<dyn DiskFile>) {
    let disk = MemoryDisk::new();
    disk.create_folder(Path::new(FOLDER)).unwrap();
    let file = disk.create(&path("a")).unwrap();
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap();
    disk.sync_folder(Path::new(FOLDER)).unwrap();
    (disk, file)
}

pub fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
    read(&*disk.open(&path(name)).unwrap())
}
