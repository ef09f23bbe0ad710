//! Reads what Linux reports about the machine.

use super::MachineInfo;
use std::fs;

impl MachineInfo {
    /// Reads the properties of this machine. Unknown ones are empty or 0.
    pub fn read() -> Self {
        let processor = value_of("/proc/cpuinfo", "model name").unwrap_or_default();
        let memory_kib = value_of("/proc/meminfo", "MemTotal")
            .and_then(|text| text.strip_suffix("kB")?.trim_end().parse::<u64>().ok());
        let kernel = |name: &str| {
            let text = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
            text.map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0) << 10,
            system: format!("{} {}", kernel("ostype"), kernel("osrelease")),
        }
    }
}

/// The value of the first line `name : value` in a file of the system.
fn value_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}
