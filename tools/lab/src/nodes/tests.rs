use super::*;
use crate::{Effort, Settings};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const ONE: ClusterLayout<'static> = ClusterLayout {
    nodes: 1,
    memory: "128MiB",
    options: &[],
};

/// Settings with a program that is not a node. The program is part of the
/// source: a file that a test has just written might be open for writing in a
/// child of another test, and could not be executed.
fn program(name: &str, folder: &Path) -> Settings {
    Settings {
        program: Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src/nodes/programs")
            .join(name),
        effort: Effort::Glance,
        duration: None,
        p99_ms_max: 10.0,
        output: folder.to_owned(),
        begun_unix_ms: 0,
        command: String::new(),
    }
}

#[test]
fn the_error_of_a_node_that_ends_at_once_has_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let settings = program("ends.sh", folder.path());
    let stop = AtomicBool::new(false);
    let context = ExperimentContext::new(&settings, &stop, &|_| {}).unwrap();
    let error = LabCluster::start(&context, ONE).err().unwrap().to_string();
    for word in ["node-1", "exit status: 3", "kvorum: no room"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_stop_ends_the_wait_for_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let settings = program("sleeps.sh", folder.path());
    let stop = AtomicBool::new(true);
    let context = ExperimentContext::new(&settings, &stop, &|_| {}).unwrap();
    let error = LabCluster::start(&context, ONE).err().unwrap();
    assert!(matches!(error, Error::Stopped), "{error}");
}

#[test]
fn a_missing_program_is_an_error() {
    let settings = Settings {
        duration: None,
        program: "/nowhere/kvorum".into(),
        effort: Effort::Glance,
        p99_ms_max: 10.0,
        output: "/nowhere".into(),
        begun_unix_ms: 0,
        command: String::new(),
    };
    let stop = AtomicBool::new(false);
    let error = ExperimentContext::new(&settings, &stop, &|_| {})
        .err()
        .unwrap();
    assert!(error.to_string().contains("/nowhere/kvorum"), "{error}");
}
