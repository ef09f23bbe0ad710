//! A system that refuses threads.

use crate::support::{PROGRAM, Process, ProcessEnd, free_port, kvorum_by, request, wait_until};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The users of the tests begin at these numbers: one for each process of tests.
const SERVE_USERS: u32 = 50_000;
const DEV_USERS: u32 = SERVE_USERS + USERS;
const USERS: u32 = 5_000;

/// The program as a user of its own, who may have so many threads; `None` where that cannot be
/// done. Only a limit for such a user is the same each time, and only root may become one.
#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
fn as_user_with(users: u32, limit: usize) -> Option<Command> {
    let user = (users + std::process::id() % USERS).to_string();
    let as_user = |what: &[&str]| {
        let mut as_user = Command::new("setpriv");
        as_user
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args(["prlimit", &format!("--nproc={limit}:{limit}")])
            .args(what);
        as_user
    };
    let mut runs = as_user(&[PROGRAM, "--version"]);
    let runs = runs.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !runs.is_ok_and(|status| status.success()) {
        eprintln!("not tested: this user cannot run the program as another one");
        return None;
    }
    Some(as_user(&[PROGRAM]))
}

fn check_end(limit: usize, end: &ProcessEnd) {
    assert_eq!(end.code, Some(1), "{limit}: {end:?}");
    assert!(end.line().contains("ulimit -u"), "{limit}: {end:?}");
    assert!(!end.stderr.contains("panicked"), "{limit}: {end:?}");
}

/// The folder of a test, which any user may write to.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    folder
}

#[test]
fn a_limit_of_threads_ends_a_start_in_one_line_wherever_it_is_reached() {
    let folder = folder();
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    // Each start but the last reaches the limit one thread later.
    for limit in 1..100 {
        let Some(as_user) = as_user_with(SERVE_USERS, limit) else {
            return;
        };
        let mut command = kvorum_by(as_user, &["serve", "--memory", "128MiB"]);
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
        check_end(limit, &end);
    }
    panic!("the node never starts");
}

#[test]
fn a_limit_of_threads_ends_dev_in_one_line() {
    let folder = folder();
    // There is no thread for its log, or no process for its node.
    for limit in [1, 2] {
        let Some(as_user) = as_user_with(DEV_USERS, limit) else {
            return;
        };
        let port = free_port().to_string();
        let mut command = kvorum_by(as_user, &["dev", "--nodes", "1", "--port", &port]);
        command.arg("--data").arg(folder.path().join("dev"));
        check_end(limit, &Process::spawn(&mut command).end());
    }
}
