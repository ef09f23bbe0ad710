//! Does work that a signal may stop.

use cli::failure::Failure;
use cli::signals::{StopSignal, StopSignals};
use cli::threads::on_thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Does `work` on another thread, and waits for it. The first signal sets the flag that the
/// work has; the second ends the process.
///
/// # Errors
/// That of the work, or else the signal that stopped it.
pub(crate) fn until_stopped(
    name: &str,
    work: impl FnOnce(&AtomicBool) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(wait(name, work))
}

async fn wait(
    name: &str,
    work: impl FnOnce(&AtomicBool) -> Result<(), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let stop = Arc::new(AtomicBool::new(false));
    let seen_by_work = Arc::clone(&stop);
    let mut working = on_thread(name, move || work(&seen_by_work))?;
    let mut stopped_by: Option<StopSignal> = None;
    let result = loop {
        tokio::select! {
            ended = &mut working => {
                break ended.unwrap_or_else(|_| Err(Failure::failed(format!("{name} panicked"))));
            }
            signal = signals.next() => {
                if stopped_by.is_some() {
                    // Nodes of an experiment end by themselves when this process is gone.
                    std::process::exit(signal.exit_code().into());
                }
                stopped_by = Some(signal);
                stop.store(true, Relaxed);
            }
        }
    };
    match (result, stopped_by) {
        (Ok(()), Some(signal)) => Err(Failure::stopped(signal.exit_code(), signal.name())),
        (result, _) => result,
    }
}
