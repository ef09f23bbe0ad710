//! Describes the machine of an experiment.

use crate::Effort;
use crate::context::ExperimentContext;
use load::report::units;
use load::results::MachineInfo;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The properties of the machine and the program, one line each.
pub(crate) fn lines(context: &ExperimentContext<'_>) -> Vec<String> {
    let machine = MachineInfo::read();
    let mut lines = vec![
        format!(
            "{}, {} core{}, which the nodes share with the load generator",
            or_unknown(&machine.processor),
            machine.cores,
            if machine.cores == 1 { "" } else { "s" }
        ),
        format!("{} of memory", units::bytes(machine.memory_bytes as f64)),
        or_unknown(&machine.system).to_owned(),
    ];
    let folder = std::env::temp_dir();
    if let Some(system) = file_system(&folder) {
        lines.push(format!("the data of the nodes is on {system}"));
    }
    lines.extend(version(context.program()));
    lines.push(scheduling_noise(context.effort()));
    lines.extend(echo(context.effort()).map(|echo| {
        format!(
            "a round trip of one byte to another thread over TCP takes {} at the median: this is \
             the least latency of a response on this machine, and {} is the highest rate over one \
             connection",
            units::latency(echo.as_secs_f64() * 1e3),
            units::rate(1.0 / echo.as_secs_f64().max(f64::MIN_POSITIVE)),
        )
    }));
    lines
}

/// The commit of the sources in the current folder, whose program is measured; `checks/lab`
/// finds the pages whose commit is old by it. None where git does not tell.
pub(crate) fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short=8", "HEAD"])
        .stdin(Stdio::null());
    let said = git.output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8(said.stdout).ok()?.trim().to_owned())
}

/// The time of the processors, in ticks since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessorTicks {
    /// Those that the hypervisor took although this machine had something to do.
    stolen: u64,
    all: u64,
}

impl ProcessorTicks {
    /// None where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the text of `/proc/stat`. Its first line is `cpu user nice system idle iowait irq
    /// softirq steal guest guest_nice`; what guests took is in user and nice as well.
    fn of(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> = fields
            .split_whitespace()
            .take(8)
            .map(|field| field.parse().ok())
            .collect();
        let ticks = ticks?;
        Some(Self {
            stolen: *ticks.get(7)?,
            all: ticks.iter().sum(),
        })
    }

    /// What the hypervisor took since an earlier reading, for the section of the machine.
    pub(crate) fn stolen_since(self, begun: Self) -> String {
        let all = self.all.saturating_sub(begun.all);
        let stolen = self.stolen.saturating_sub(begun.stolen);
        format!(
            "the hypervisor took {} of the processors' time during the experiment",
            units::share(stolen as f64 / all.max(1) as f64)
        )
    }
}

/// The median round trip of one byte to another thread over the loopback, which
/// is the latency of a server that does nothing.
fn echo(effort: Effort) -> Option<Duration> {
    let rounds = effort.pick(20, 5_000, 5_000);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let address = listener.local_addr().ok()?;
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        // Until the other side closes the connection.
        while stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte)?;
        }
        std::io::Result::Ok(())
    });
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut took = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let begun = Instant::now();
            stream.write_all(&[0])?;
            stream.read_exact(&mut [0])?;
            took.push(begun.elapsed());
        }
        std::io::Result::Ok(took)
    };
    let asked = ask();
    if asked.is_ok() {
        server.join().ok()?.ok()?;
    }
    let mut took = asked.ok()?;
    took.sort_unstable();
    took.get(took.len() / 2).copied()
}

/// How late a thread wakes after sleeping for a millisecond on the idle
/// machine. No latency in the experiment can be better than that.
fn scheduling_noise(effort: Effort) -> String {
    let nap = Duration::from_millis(1);
    let mut late: Vec<Duration> = (0..effort.pick(20, 2_000, 2_000))
        .map(|_| {
            let begun = Instant::now();
            std::thread::sleep(nap);
            begun.elapsed().saturating_sub(nap)
        })
        .collect();
    late.sort_unstable();
    let ms = |share: usize| {
        let late = late.get((late.len() - 1) * share / 1_000);
        units::latency(late.map_or(f64::NAN, |late| late.as_secs_f64() * 1e3))
    };
    format!(
        "scheduling noise while idle: a thread that sleeps for 1 ms wakes {} late at the median, \
         {} late at the 99th percentile and {} late at worst",
        ms(500),
        ms(990),
        ms(1_000)
    )
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

/// The type of the file system of a folder, such as `ext4`.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    kind_of(&mounts, &folder)
}

/// The type of the last mount whose mount point is nearest above a folder. A
/// line is `/dev/vda / ext4 rw 0 0`.
fn kind_of(mounts: &str, folder: &Path) -> Option<String> {
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let mount_point = PathBuf::from(fields.next()?);
        let kind = fields.next()?;
        folder
            .starts_with(&mount_point)
            .then(|| (mount_point.components().count(), kind.to_owned()))
    });
    // A later mount hides an earlier one on the same mount point.
    let nearest = above.max_by_key(|(depth, _)| *depth);
    nearest.map(|(_, kind)| kind)
}

/// The version line of the program.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_some_time() {
        let took = echo(Effort::Glance).unwrap();
        assert!(took > Duration::ZERO);
    }

    #[test]
    fn what_the_hypervisor_took_is_the_eighth_figure() {
        let begun = ProcessorTicks::of("cpu  10 1 5 70 2 0 2 10 7 7\ncpu0 1 1\n").unwrap();
        assert_eq!(
            begun,
            ProcessorTicks {
                stolen: 10,
                all: 100
            }
        );
        let ended = ProcessorTicks::of("cpu  500 1 5 507 2 0 2 83 7 7\n").unwrap();
        assert_eq!(
            ended.stolen_since(begun),
            "the hypervisor took 7.3% of the processors' time during the experiment"
        );
        // Counters may go back by a tick.
        assert!(begun.stolen_since(ended).contains(" 0% "));
    }

    #[test]
    fn a_system_that_does_not_tell_steal_has_none() {
        for text in [
            "",
            "cpu0 1 1 1 1 1 1 1 1\n",
            "cpu  10 1 5 84\n",
            "cpu  10 1 5 70 2 0 2 x\n",
        ] {
            assert_eq!(ProcessorTicks::of(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_nearest_and_latest_mount_counts() {
        let mounts = "\
/dev/vda / ext4 rw 0 0
tmpfs /dev/shm tmpfs rw 0 0
/dev/vdb /data xfs rw 0 0
/dev/vdc /data btrfs rw 0 0
";
        for (folder, kind) in [
            ("/tmp/kvorum", "ext4"),
            ("/dev/shm/a", "tmpfs"),
            ("/data", "btrfs"),
            ("/database", "ext4"),
        ] {
            assert_eq!(kind_of(mounts, Path::new(folder)).as_deref(), Some(kind));
        }
        assert_eq!(kind_of("", Path::new("/")), None);
    }
}
