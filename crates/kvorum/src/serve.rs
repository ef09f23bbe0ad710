//! `kvorum serve`: runs a node until it is told to stop.

use crate::failure::Failure;
use crate::logging;
use crate::options::ServeOptions;
use crate::signals::StopSignals;
use node::{Node, NodeConfig};
use std::io::Read;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// What a stop may take beyond the time that admitted requests have, for
/// writing the memtables. Whoever cannot wait sends a second signal; nothing
/// is lost either way, since the log is replayed at the next start.
const CLOSE_TIME: Duration = Duration::from_millis(1_500);

/// Runs the node that `options` describe.
///
/// # Errors
/// Usage failures, and those of starting: an address in use, a folder in use,
/// a damaged store.
pub(crate) fn run(options: &ServeOptions, warnings: &[String]) -> Result<(), Failure> {
    let config = options.node_config()?;
    logging::install(options.log);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    // The node has threads of its own; this one only waits for signals.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(serve(config, options.until_stdin_closes));
    // A thread may still wait for the end of stdin: the process need not.
    runtime.shutdown_background();
    result
}

async fn serve(config: NodeConfig, until_stdin_closes: bool) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let stop_after = config.drain_timeout.saturating_add(CLOSE_TIME);

    let starting = spawn_blocking(move || Node::start(config));
    let node = tokio::select! {
        signal = signals.next() => {
            // It has acknowledged nothing, and a store may be left at any moment.
            tracing::info!("{} before the store was open: stopped", signal.name());
            return Ok(());
        }
        started = starting => match started {
            Ok(Ok(node)) => node,
            Ok(Err(error)) => return Err(Failure::failed(error.to_string())),
            Err(_) => return Err(Failure::failed("the node panicked at its start")),
        },
    };

    let reason = tokio::select! {
        signal = signals.next() => signal.name(),
        () = stdin_end(), if until_stdin_closes => "end of stdin",
    };
    tracing::info!("{reason}: finishing the requests that were admitted");
    let stopping = spawn_blocking(move || node.shutdown());
    tokio::select! {
        stopped = stopping => match stopped {
            Ok(Ok(())) => tracing::info!("stopped"),
            Ok(Err(error)) => return Err(Failure::failed(error.to_string())),
            Err(_) => return Err(Failure::failed("the node panicked at its end")),
        },
        () = tokio::time::sleep(stop_after) => {
            tracing::warn!("stopped before the memtables were written; the log is replayed at the next start");
        }
        signal = signals.next() => {
            tracing::warn!("second {}: stopped at once", signal.name());
            std::process::exit(signal.exit_code());
        }
    }
    Ok(())
}

/// Waits until stdin ends or fails, and throws away what comes.
async fn stdin_end() {
    let read = || {
        let mut ignored = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while matches!(stdin.read(&mut ignored), Ok(bytes) if bytes > 0) {}
    };
    // The thread ends with the process; should it panic, stdin is as good as closed.
    let _ = spawn_blocking(read).await;
}
