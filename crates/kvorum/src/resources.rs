//! The default memory, cores and page size of a node, from the limits of the machine and its
//! control groups.
//!
//! A container sees the memory of the whole machine in `/proc/meminfo`; its own
//! limit is in the files of its control group. A group is also bound by the
//! groups above it, so the smallest limit on the way up counts.

use std::path::{Path, PathBuf};

/// The least memory of a node by default, in bytes.
const MEMORY_BYTES_MIN: u64 = 128 << 20;

/// The default memory of a node, in bytes: a quarter of what the machine or the
/// control group has, but at least 128 MiB.
pub(crate) fn memory_bytes_default() -> u64 {
    memory_bytes_each(1)
}

/// The default memory of each of several nodes on one machine, in bytes: an
/// equal part of a quarter of its memory, but at least 128 MiB.
pub(crate) fn memory_bytes_each(nodes: u8) -> u64 {
    share(memory_bytes_of_system(), nodes)
}

/// The memory that the machine or the control group has, in bytes; [`None`] if the system
/// does not say it.
pub(crate) fn memory_bytes_of_system() -> Option<u64> {
    memory_bytes(&|file| std::fs::read_to_string(file).ok())
}

/// The default number of threads of each of several nodes on one machine: an
/// equal part of its cores, at least one. More threads would only wait for each
/// other.
pub(crate) fn threads_each(nodes: u8) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / usize::from(nodes.max(1))).max(1)
}

/// Has the kernel give this process, and those that it starts, memory in pages of 4 KiB.
///
/// The allocator asks for huge pages. They save look-ups of addresses, but whoever first
/// touches one waits until the kernel has zeroed all of its 2 MiB: 8 to 13 ms on a virtual
/// machine, in which a runtime answers nobody. Redis and MongoDB advise against them for
/// the same reason. A kernel that does not know the call keeps its huge pages.
pub(crate) fn use_small_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Lets the kernel give this process memory in huge pages, in spite of [`use_small_pages`].
/// The allocator gets them for what it asks for from now on.
pub(crate) fn use_huge_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(false);
}

fn share(memory_bytes: Option<u64>, nodes: u8) -> u64 {
    (memory_bytes.unwrap_or(0) / 4 / u64::from(nodes.max(1))).max(MEMORY_BYTES_MIN)
}

/// Reads a file of the system; [`None`] if it does not exist.
type ReadSystemFile<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The smallest of the machine's memory and the limits of the control groups,
/// in bytes; [`None`] if the system states neither.
fn memory_bytes(read: ReadSystemFile<'_>) -> Option<u64> {
    let machine = machine_bytes(read);
    let group = group_limit_bytes(read);
    machine.into_iter().chain(group).min()
}

/// `MemTotal:       24683520 kB` of `/proc/meminfo`.
fn machine_bytes(read: ReadSystemFile<'_>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim_end();
    kib.parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The smallest limit of this process's control groups, of version 2 (a line
/// `0::/path`) and version 1 (a line `4:memory:/path`).
fn group_limit_bytes(read: ReadSystemFile<'_>) -> Option<u64> {
    let text = read(Path::new("/proc/self/cgroup"))?;
    let mut least: Option<u64> = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, name) = if number == "0" && controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers
            .split(',')
            .any(|controller| controller == "memory")
        {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        // Inside a container the path may be one that only the host has.
        // Folders that do not exist are skipped, and the root is the
        // container's own group.
        for folder in Path::new(group.trim_start_matches('/')).ancestors() {
            let file: PathBuf = [Path::new(root), folder, Path::new(name)].iter().collect();
            // "max" is not a number, so it is no limit. For no limit version 1 has a number
            // that is larger than any machine's memory, so that memory is the least.
            let limit = read(&file).and_then(|text| text.trim().parse::<u64>().ok());
            least = least.into_iter().chain(limit).min();
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: (&str, &str) = (
        "/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         1000 kB\n",
    );

    /// Paths and contents of files.
    type Files<'a> = &'a [(&'a str, &'a str)];

    fn memory_of(files: Files<'_>) -> Option<u64> {
        memory_bytes(&|file| {
            let found = files.iter().find(|(name, _)| Path::new(name) == file);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn the_smallest_limit_counts() {
        let machine = 16 << 30;
        let table: [(&str, Files<'_>, Option<u64>); 8] = [
            ("nothing is known", &[], None),
            ("a machine without groups", &[MEMINFO], Some(machine)),
            (
                "version 2, no limit",
                &[
                    MEMINFO,
                    ("/proc/self/cgroup", "0::/\n"),
                    ("/sys/fs/cgroup/memory.max", "max\n"),
                ],
                Some(machine),
            ),
            (
                "version 2, the container's root",
                &[
                    MEMINFO,
                    ("/proc/self/cgroup", "0::/\n"),
                    ("/sys/fs/cgroup/memory.max", "1073741824\n"),
                ],
                Some(1 << 30),
            ),
            (
                "version 2, a limit on a group above",
                &[
                    MEMINFO,
                    ("/proc/self/cgroup", "0::/system.slice/kvorum.service\n"),
                    (
                        "/sys/fs/cgroup/system.slice/kvorum.service/memory.max",
                        "max\n",
                    ),
                    ("/sys/fs/cgroup/system.slice/memory.max", "2147483648\n"),
                ],
                Some(2 << 30),
            ),
            (
                "version 1, a path that only the host has",
                &[
                    MEMINFO,
                    (
                        "/proc/self/cgroup",
                        "5:cpu,cpuacct:/x\n4:memory:/docker/1f\n",
                    ),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
                ],
                Some(512 << 20),
            ),
            (
                "version 1, no limit",
                &[
                    MEMINFO,
                    ("/proc/self/cgroup", "4:memory:/\n0::/\n"),
                    (
                        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                        "9223372036854771712\n",
                    ),
                ],
                Some(machine),
            ),
            (
                "files in no known form",
                &[
                    ("/proc/meminfo", "MemTotal: much\n"),
                    ("/proc/self/cgroup", "\n::\nx\n"),
                ],
                None,
            ),
        ];
        for (name, files, expected) in table {
            assert_eq!(memory_of(files), expected, "{name}");
        }
    }

    #[test]
    fn a_node_takes_a_quarter_but_never_too_little() {
        assert_eq!(share(Some(16 << 30), 1), 4 << 30);
        assert_eq!(share(Some(16 << 30), 4), 1 << 30);
        assert_eq!(share(Some(256 << 20), 1), MEMORY_BYTES_MIN);
        assert_eq!(share(Some(1 << 30), 3), MEMORY_BYTES_MIN);
        assert_eq!(share(None, 1), MEMORY_BYTES_MIN);
    }
}
