//! The machine of the measurements, according to the system.

use std::fs;
use std::process::Command;

/// A line about the processor, the memory and the system, without unknown parts.
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

/// The commit of the engine that is measured.
pub fn commit() -> String {
    let said = Command::new("git")
        .args(["rev-parse", "--short=8", "HEAD"])
        .output();
    let said = said.ok().filter(|said| said.status.success());
    said.map_or_else(
        || "unknown".to_owned(),
        |said| String::from_utf8_lossy(&said.stdout).trim().to_owned(),
    )
}

/// The text behind a name and a colon in a file of the system.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}
