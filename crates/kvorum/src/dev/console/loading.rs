//! Loads a node as `kvorum load` does, in a process of its own, so that the console goes on.

use super::reaching::{Reach, ReachedNode};
use crate::access::{CA_VARIABLE, TOKEN_VARIABLE};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::process::Command;

/// How long a load lasts.
const DURATION: &str = "5s";

/// The most connections of a load.
const CONNECTIONS_MAX: u16 = 4096;

/// Whether a load runs: a second one would only take the first one's time.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Ends the claim that a load runs.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        IS_RUNNING.store(false, Ordering::Release);
    }
}

/// Puts values as fast as a node takes them, over so many connections.
///
/// # Errors
/// Why there is no load: a wrong number, another load, the system.
pub(super) async fn load(
    reach: &Reach,
    node: &ReachedNode,
    connections: &str,
) -> Result<(), String> {
    let number: Option<u16> = connections.parse().ok();
    let Some(connections) = number.filter(|number| (1..=CONNECTIONS_MAX).contains(number)) else {
        return Err(format!("give 1 to {CONNECTIONS_MAX} connections"));
    };
    if IS_RUNNING.swap(true, Ordering::AcqRel) {
        return Err("another load runs: wait until it has ended".to_owned());
    }
    let _running = Running;
    let failed = |error| format!("cannot start a load: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(["load", "put", "--duration", DURATION, "--warmup", "0s"])
        .args(["--target", &node.url])
        .args(["--connections", &connections.to_string()])
        .env_remove(CA_VARIABLE)
        .env_remove(TOKEN_VARIABLE);
    if let Some(file) = &reach.authority_file {
        command.arg("--ca").arg(file);
    }
    if let Some(file) = &reach.token_file {
        command.arg("--token-file").arg(file);
    }
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    // That requests were refused is a failure to the load generator, and the aim here.
    status.await.map(|_| ()).map_err(failed)
}
