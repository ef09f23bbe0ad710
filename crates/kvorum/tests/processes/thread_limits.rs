//! A system that refuses threads.

use crate::support::{PROGRAM, Process, free_port, kvorum_by, request, wait_until};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Only a limit for a user of its own is the same each time, and only root may become one.
#[test]
fn a_limit_of_threads_ends_a_start_in_one_line_wherever_it_is_reached() {
    let user = (60_000 + std::process::id() % 5_000).to_string();
    let as_user = |limit: usize, what: &[&str]| {
        let mut as_user = Command::new("setpriv");
        as_user
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args(["prlimit", &format!("--nproc={limit}:{limit}")])
            .args(what)
            .stderr(Stdio::null());
        as_user
    };
    let runs = as_user(1, &[PROGRAM, "--version"])
        .stdout(Stdio::null())
        .status();
    if !runs.is_ok_and(|status| status.success()) {
        return eprintln!("not tested: this user cannot run the program as another one");
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    // Each start but the last reaches the limit one thread later.
    for limit in 1..100 {
        let mut command = kvorum_by(as_user(limit, &[PROGRAM]), &["serve", "--memory", "128MiB"]);
        command
            .args(["--log", "error", "--threads", "2", "--read-threads", "2"])
            .args(["--url", &url, "--data"])
            .arg(folder.path().join("data"))
            .arg("--audit-log")
            .arg(folder.path().join("audit"));
        let mut process = Process::spawn(&mut command);
        let end = wait_until("an end or an answer", || {
            if process.child.try_wait().unwrap().is_some() {
                return Some(Some(process.end()));
            }
            let is_up = request(port, "GET", "/health/live", b"").is_some();
            is_up.then_some(None)
        });
        let Some(end) = end else {
            // It has all that it starts with.
            assert!(limit > 4, "it starts with {limit} threads");
            return;
        };
        assert_eq!(end.code, Some(1), "{limit}: {end:?}");
        assert!(end.line().contains("ulimit -u"), "{limit}: {end:?}");
        assert!(!end.stderr.contains("panicked"), "{limit}: {end:?}");
    }
    panic!("the node never starts");
}
