//! What this process has used so far, according to the system.

use crate::store::Failure;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

/// The unit of `st_blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;

/// A moment, and what the process has used until then.
#[derive(Clone, Copy)]
pub struct Usage {
    at: Instant,
    cpu_seconds: f64,
    written_bytes: u64,
}

/// What the process has used between two moments.
#[derive(Clone, Copy)]
pub struct Used {
    /// Time that passed.
    pub seconds: f64,
    /// Time of all threads on the processors, in user and in system mode.
    pub cpu_seconds: f64,
    /// Bytes that were or will be written to the disk.
    pub written_bytes: u64,
}

impl Usage {
    /// What the process has used until now.
    ///
    /// # Errors
    /// If the system does not count written bytes.
    pub fn now() -> Result<Self, Failure> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            at: Instant::now(),
            cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
            written_bytes: field("/proc/self/io", "write_bytes:")?,
        })
    }

    /// What the process has used after this moment.
    ///
    /// # Errors
    /// As [`Usage::now`].
    pub fn used(&self) -> Result<Used, Failure> {
        let now = Self::now()?;
        Ok(Used {
            seconds: (now.at - self.at).as_secs_f64(),
            cpu_seconds: now.cpu_seconds - self.cpu_seconds,
            written_bytes: now.written_bytes - self.written_bytes,
        })
    }
}

/// The largest memory of this process so far, in bytes.
///
/// # Errors
/// If the system does not report it.
pub fn memory_bytes_peak() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "VmHWM:")? << 10)
}

/// The number behind `name` in a file of the system.
fn field(file: &str, name: &str) -> Result<u64, Failure> {
    let text = fs::read_to_string(file)?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| format!("{file} has no {name}").into())
}

/// The space that a folder takes on the disk, in bytes.
///
/// # Errors
/// Those of the file system.
pub fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.blocks() * BLOCK_BYTES
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_files_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let before = Usage::now().unwrap();
        let mut sum = 0_u64;
        while before.used().unwrap().cpu_seconds < 0.001 {
            sum = std::hint::black_box(sum + 1);
        }
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), vec![1; 10_000]).unwrap();
        assert!(disk_bytes(folder.path()).unwrap() >= 10_000);
        assert!(memory_bytes_peak().unwrap() > 1 << 20);
    }

    #[test]
    fn an_account_that_is_missing_is_named() {
        let error = field("/proc/self/status", "NoSuchField:").unwrap_err();
        assert!(error.to_string().contains("NoSuchField"));
    }
}
