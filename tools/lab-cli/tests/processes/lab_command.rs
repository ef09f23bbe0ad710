//! `kvorum-lab lab`: its pages, its refusals, and the end of its nodes.

use crate::kvorum_lab;
use crate::support::{Process, wait_until};
use lab::EXPERIMENTS;
use rustix::process::Signal;
use std::path::Path;

/// Runs a glance of an experiment and returns its page.
fn glance(name: &str, output: &Path) -> String {
    let mut command = kvorum_lab(&["lab", name, "--glance", "--output"]);
    command.arg(output);
    let mut lab = Process::spawn(&mut command);
    let end = lab.end();
    assert_eq!(end.code, Some(0), "{name}: {}", end.stderr);
    let page = output.join(name).with_extension("md");
    std::fs::read_to_string(page).unwrap()
}

/// Three nodes find each other, loads run, one node is killed, restarted,
/// frozen and resumed, and a page with plots is written.
#[test]
fn an_experiment_writes_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = glance("outage", folder.path());
    for text in [
        "# A node killed, frozen and healed",
        "## Machine",
        "| killed ",
        "| restarted ",
        "| frozen ",
        "| resumed ",
        "](outage/latency.svg)",
        "kvorum-lab lab outage --glance",
    ] {
        assert!(page.contains(text), "{text} is not in:\n{page}");
    }
    assert!(!page.contains("Not measured"), "{page}");
    assert!(page.contains(" UTC, at commit `"), "the date of {page}");
    for file in ["latency.svg", "throughput.svg", "run.json"] {
        let file = folder.path().join("outage").join(file);
        assert!(file.is_file(), "{}", file.display());
    }
}

/// Nodes write, expire and delete, the GC threshold passes all of it, and no tombstone is
/// left. How small the tables are means nothing after seconds: what has expired is kept for
/// a minute.
#[test]
fn the_churn_leaves_no_tombstone() {
    let folder = tempfile::tempdir().unwrap();
    let page = glance("tombstone_gc", folder.path());
    assert!(page.contains("; 0 tombstones are left"), "{page}");
    assert!(!page.contains("Not measured"), "{page}");
    for file in ["disk.svg", "tombstones.svg", "age.svg", "latency.svg"] {
        let file = folder.path().join("tombstone_gc").join(file);
        assert!(file.is_file(), "{}", file.display());
    }
}

/// Nodes record each wait, and the story of each slow write is found in what they recorded.
#[test]
fn the_slowest_writes_have_causes() {
    let folder = tempfile::tempdir().unwrap();
    let page = glance("slowest", folder.path());
    for text in [
        "### 1/1, sync\n",
        "### 1/1, os\n",
        "### 2/3, sync\n",
        "### 1/1, sync, through flushes\n",
        "| the disk alone ",
        "the most frequent cause is ",
    ] {
        assert!(page.contains(text), "{text} is not in:\n{page}");
    }
    // All but what needs nginx was measured.
    let failed = page.lines().skip_while(|line| *line != "Not measured:");
    let mut failed = failed.take_while(|line| !line.starts_with('#'));
    assert!(
        failed.all(|line| !line.starts_with("- ") || line.contains("beside nginx")),
        "{page}"
    );
    let rows = folder.path().join("slowest").join("writes.json");
    let rows = std::fs::read_to_string(rows).unwrap();
    // A request of the first moment may have begun before the recording.
    let all = rows.matches("],\"").count();
    let unknown = rows.matches("\"not recorded\"").count();
    assert!(unknown < all, "{unknown} of {all} writes: {page}");
}

#[test]
fn only_one_experiment_takes_as_long_as_one_likes() {
    let mut process = Process::spawn(&mut kvorum_lab(&["lab", "outage", "--duration", "1h"]));
    let end = process.end();
    assert_eq!(end.code, Some(2), "{end:?}");
    assert!(end.line().contains("omit --duration"), "{end:?}");
}

#[test]
#[ignore = "takes minutes; run it after a change to the laboratory"]
fn every_experiment_writes_its_page() {
    let folder = tempfile::tempdir().unwrap();
    for experiment in EXPERIMENTS {
        let page = glance(experiment.name, folder.path());
        assert!(page.contains("## What it shows"), "{page}");
        let without_nginx = page.contains("nginx cannot be started");
        assert!(without_nginx || !page.contains("Not measured"), "{page}");
    }
}

#[test]
fn an_unknown_experiment_is_refused_with_the_list() {
    let mut process = Process::spawn(&mut kvorum_lab(&["lab", "nonsense"]));
    let end = process.end();
    assert_eq!(end.code, Some(2), "{end:?}");
    assert!(end.line().starts_with("kvorum-lab: "), "{end:?}");
    for experiment in EXPERIMENTS {
        assert!(end.line().contains(experiment.name), "{end:?}");
    }
}

#[test]
fn its_nodes_end_with_it() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = kvorum_lab(&["lab", "sharding", "--output"]);
        command.arg(folder.path());
        // Its temporary folder is below this one, and is part of the arguments
        // of its nodes.
        command.env("TMPDIR", folder.path());
        let mut lab = Process::spawn(&mut command);
        let nodes = || nodes_below(folder.path());
        wait_until("nodes of the laboratory", || (nodes() > 0).then_some(()));
        lab.signal(signal);
        assert_eq!(lab.end().code, code);
        wait_until("the end of its nodes", || (nodes() == 0).then_some(()));
        assert!(!folder.path().join("sharding.md").exists());
    }
}

/// The number of running nodes whose arguments name a folder below this one.
fn nodes_below(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("cmdline")).ok())
        .filter(|arguments| arguments.contains("\0serve\0") && arguments.contains(&folder))
        .count()
}
