//! The resources that a started process has used, from `/proc`.

use std::ops::{AddAssign, Sub};
use std::path::Path;

/// The resources that a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU time since its start in seconds, user and system, over all threads.
    pub(crate) cpu_seconds: f64,
    /// Resident memory now, in bytes.
    pub(crate) resident_bytes: u64,
    /// The greatest resident memory so far, in bytes.
    pub(crate) resident_bytes_max: u64,
}

impl Usage {
    /// The usage of the process with this id; [`None`] if it does not exist.
    pub(crate) fn of(process: u32) -> Option<Self> {
        let folder = Path::new("/proc").join(process.to_string());
        let read = |file| std::fs::read_to_string(folder.join(file)).ok();
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let (resident_bytes, resident_bytes_max) = resident_bytes(&read("status")?)?;
        Some(Self {
            cpu_seconds: cpu_ticks(&read("stat")?)? as f64 / ticks_per_second as f64,
            resident_bytes,
            resident_bytes_max,
        })
    }
}

/// The usage of several processes together.
impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.cpu_seconds += other.cpu_seconds;
        self.resident_bytes += other.resident_bytes;
        self.resident_bytes_max += other.resident_bytes_max;
    }
}

/// The CPU time between two readings, with the memory of the later one.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            ..self
        }
    }
}

/// User and system time in ticks, from the line of `/proc/PID/stat`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, which may contain
    // spaces and parentheses. The other fields are counted after it.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Resident bytes now and at most, from `/proc/PID/status`.
fn resident_bytes(status: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    };
    Some((bytes("VmRSS:")?, bytes("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "42 (a) b ( c) S 1 42 42 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 1 1 1";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("42 (kvorum) S 1 2"), None);
    }

    #[test]
    fn memory_is_in_kib() {
        let status = "Name:\tkvorum\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(resident_bytes(status), Some((1 << 20, 2 << 20)));
        assert_eq!(resident_bytes("Name:\tkvorum\n"), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident_bytes > 0 && usage.resident_bytes <= usage.resident_bytes_max);
        assert_eq!(Usage::of(u32::MAX), None);
    }
}
