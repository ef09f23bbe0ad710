//! The machine that the page was measured on, by the system's own accounts.

use std::fs;

/// A line on the processor, the memory and the system; what is not known is left out.
pub fn line() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut parts = vec![format!("{cores} cores")];
    parts.extend(field("/proc/cpuinfo", "model name"));
    parts.extend(
        field("/proc/meminfo", "MemTotal")
            .and_then(|memory| memory.strip_suffix(" kB")?.parse::<u64>().ok())
            .map(|kib| format!("{} GiB of memory", kib >> 20)),
    );
    parts.extend(
        fs::read_to_string("/proc/sys/kernel/osrelease")
            .ok()
            .map(|release| format!("Linux {}", release.trim())),
    );
    parts.join(", ")
}

/// What follows a name and a colon in one of the system's accounts.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}
