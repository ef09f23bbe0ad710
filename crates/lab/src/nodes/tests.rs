use super::*;
use crate::{Effort, Settings};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const ONE: Layout<'static> = Layout {
    nodes: 1,
    memory: "128MiB",
    options: &[],
};

/// A program that is no node.
fn program(folder: &Path, script: &str) -> Settings {
    let program = folder.join("program");
    let mut file = std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o755)
        .open(&program)
        .unwrap();
    file.write_all(script.as_bytes()).unwrap();
    Settings {
        program,
        effort: Effort::Glance,
        p99_ms_max: 10.0,
        output: folder.to_owned(),
        command: String::new(),
    }
}

#[test]
fn a_node_that_ends_at_once_is_told_with_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\necho 'kvorum: first' >&2\necho 'kvorum: no room' >&2\nexit 3\n";
    let settings = program(folder.path(), script);
    let stop = AtomicBool::new(false);
    let context = Context::new(&settings, &stop, &|_| {}).unwrap();
    let error = Cluster::start(&context, ONE).err().unwrap().to_string();
    for word in ["node-1", "exit status: 3", "kvorum: no room"] {
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn a_stop_ends_the_wait_for_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\ntest \"$2\" = --help || exec sleep 600\n";
    let settings = program(folder.path(), script);
    let stop = AtomicBool::new(true);
    let context = Context::new(&settings, &stop, &|_| {}).unwrap();
    let error = Cluster::start(&context, ONE).err().unwrap();
    assert!(matches!(error, Error::Stopped), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let settings = Settings {
        program: "/nowhere/kvorum".into(),
        effort: Effort::Glance,
        p99_ms_max: 10.0,
        output: "/nowhere".into(),
        command: String::new(),
    };
    let stop = AtomicBool::new(false);
    let error = Context::new(&settings, &stop, &|_| {}).err().unwrap();
    assert!(error.to_string().contains("/nowhere/kvorum"), "{error}");
}
