//! `kvorum serve`: runs a node until a signal stops it.
//!
//! `options` is the list of options, `values` their types; `secret_file` reads the cluster's
//! secret, `faults` are those of `dev`, `restore` makes a folder of a backup before a first start.

mod check;
mod faults;
mod options;
mod restore;
mod secret_file;
mod values;

pub(crate) use check::run as check;
pub(crate) use options::{NodeProgram, ServeCommand, ServeOptions};
pub(crate) use restore::{HELP as RESTORE_HELP, RestoreOptions, run as restore};

use crate::failure::Failure;
use crate::files;
use crate::logging;
use crate::option_sources::{OptionError, Parsed};
use crate::resources;
use crate::signals::{ReloadSignals, StopSignals};
use crate::stderr;
use crate::threads::on_thread;
use crate::values::{ByteSize, Switch};
use base::{BootId, Clock, OsRandom, SystemClock};
use faults::DevFaults;
use lsm::RealDisk;
use rustix::process::{Signal, set_parent_process_death_signal};
use secret_file::SecretReload;
use server::{
    Extras, LineWriter, MEMORY_BYTES_MIN, Reload, Seams, Server, ServerConfig, StartError,
};
use std::path::Path;
use std::sync::Arc;

/// Runs the node that `options` describe.
///
/// # Errors
/// Wrong options, an address or a folder in use, a damaged store.
pub(crate) fn run<P>(options: &ServeOptions, parsed: &Parsed<P>) -> Result<(), Failure> {
    let config = options
        .server_config(&files::read)
        .and_then(|config| check_folder(&config.node.data).map(|()| config))
        .map_err(|error| parsed.refuse(&error))?;
    let least_memory = check_memory(config.memory_bytes, resources::memory_bytes_of_system())
        .map_err(|error| parsed.refuse(&error))?;
    if options.huge_pages == Switch::On {
        resources::use_huge_pages();
    }
    // A child of `dev` shares the terminal with the other nodes.
    let is_child = options.until_stdin_closes;
    if is_child {
        // One that is frozen could not see that its stdin has closed. This fails for no signal
        // that exists.
        let _ = set_parent_process_death_signal(Some(Signal::CONT));
    }
    let name = config
        .node
        .members
        .name(config.node.members.own())
        .to_owned();
    let log = logging::install(options.log, is_child.then_some(name))
        .map_err(|error| Failure::failed(error.to_string()))?;
    for warning in parsed.warnings.iter().chain(&least_memory) {
        tracing::warn!("{warning}");
    }
    let secrets = config.node.cluster_secret.clone();
    let secret_reload = options
        .cluster_secret_file
        .clone()
        .zip(secrets)
        .map(|(file, secrets)| SecretReload::new(file, secrets));
    // The node runs on threads of its own; this one only waits for signals.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(serve(
        config,
        secret_reload,
        log,
        options.until_stdin_closes,
    ));
    // A thread may still wait for the end of stdin; the process need not wait
    // for it.
    runtime.shutdown_background();
    result
}

/// Refuses more memory than `has`, which the machine or the control group of the process has,
/// because the system would end the node once its caches have grown. The least memory of a
/// node is accepted, with a warning.
fn check_memory(planned: u64, has: Option<u64>) -> Result<Option<String>, OptionError> {
    let Some(has) = has.filter(|has| planned > *has) else {
        return Ok(None);
    };
    let (planned_size, has) = (ByteSize(planned), ByteSize(has >> 20 << 20));
    if planned <= MEMORY_BYTES_MIN {
        return Ok(Some(format!(
            "a node needs {planned_size} of memory, and this machine or control group has {has}: \
             the system may kill the node at any time"
        )));
    }
    Err(OptionError::new(
        "memory",
        format!(
            "{planned_size} is more than the {has} of this machine or control group: lower it, or \
             omit it to use a quarter of that"
        ),
    ))
}

/// Refuses a data folder whose path, or the nearest existing folder above it,
/// is not a folder.
fn check_folder(data: &Path) -> Result<(), OptionError> {
    // The nearest path that exists; the folders below it are created.
    let mut above = data.ancestors();
    let there = above.find_map(|path| Some((path, std::fs::metadata(path).ok()?)));
    match there {
        Some((path, metadata)) if !metadata.is_dir() => Err(OptionError::new(
            "data",
            format!("{} is not a folder", path.display()),
        )),
        _ => Ok(()),
    }
}

async fn serve(
    config: ServerConfig,
    secret_reload: Option<Arc<SecretReload>>,
    log: Arc<LineWriter>,
    until_stdin_closes: bool,
) -> Result<(), Failure> {
    let mut signals = StopSignals::install()?;
    let mut reloads = ReloadSignals::install()?;
    let faults = until_stdin_closes.then(DevFaults::new);
    let mut stdin_ends = std::pin::pin!(stdin_end(faults.clone()));
    loop {
        let (config, secret_reload) = (config.clone(), secret_reload.clone());
        let (log, faults) = (Arc::clone(&log), faults.clone());
        let starting = on_thread("start", move || start(config, secret_reload, log, faults))?;
        let node = await_start(starting, &mut signals).await?;
        let Some(node) = node else { return Ok(()) };
        let end = tokio::select! {
            signal = signals.next() => End::Stopped(signal.name()),
            () = &mut stdin_ends => End::Stopped("end of stdin"),
            () = reload_forever(&node, &mut reloads) => End::Stopped("end of signals"),
            () = node.joined() => End::Joined,
        };
        stop(node, &mut signals, end).await?;
        if end != End::Joined {
            return Ok(());
        }
    }
}

/// Why a node is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Somebody has stopped it, by that.
    Stopped(&'static str),
    /// It has waited to join a cluster, and is a member from its next start on.
    Joined,
}

/// Waits for a node that is being started. `None` if a signal comes first.
async fn await_start(
    starting: impl Future<Output = Result<Result<Server, Failure>, impl Sized>>,
    signals: &mut StopSignals,
) -> Result<Option<Arc<Server>>, Failure> {
    tokio::select! {
        signal = signals.next() => {
            // The node has acknowledged nothing, and a store may be abandoned
            // at any moment.
            tracing::info!("{}: stopped before the store had opened", signal.name());
            Ok(None)
        }
        started = starting => match started {
            Ok(Ok(node)) => Ok(Some(Arc::new(node))),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::failed("the node panicked while it started")),
        },
    }
}

/// Stops a node.
async fn stop(node: Arc<Server>, signals: &mut StopSignals, end: End) -> Result<(), Failure> {
    match end {
        End::Stopped(reason) => tracing::info!("{reason}: finishing the admitted requests"),
        End::Joined => tracing::info!("the node has joined the cluster: starting it as a member"),
    }
    let stopped = Arc::clone(&node);
    let Ok(stopping) = on_thread("stop", move || stopped.shutdown()) else {
        // Without a thread for it, no second signal is heard.
        return node
            .shutdown()
            .map_err(|error| Failure::failed(error.to_string()));
    };
    tokio::select! {
        stopped = stopping => match stopped {
            Ok(Ok(())) => tracing::info!("stopped"),
            Ok(Err(error)) => return Err(Failure::failed(error.to_string())),
            Err(_) => return Err(Failure::failed("the node panicked while it stopped")),
        },
        signal = signals.next() => {
            // Nothing is lost, because the log is replayed at the next start.
            tracing::warn!("second {}: stopped immediately", signal.name());
            stderr::flush();
            std::process::exit(signal.exit_code().into());
        }
    }
    Ok(())
}

/// Starts a node on the real disk and randomness. A child of `dev` has `faults`.
fn start(
    config: ServerConfig,
    secret_reload: Option<Arc<SecretReload>>,
    log: Arc<LineWriter>,
    faults: Option<DevFaults>,
) -> Result<Server, Failure> {
    let random = OsRandom::new().map_err(|error| {
        Failure::failed(format!("the system provides no random numbers: {error}"))
    })?;
    let clock: Arc<dyn Clock> = match &faults {
        Some(faults) => Arc::clone(&faults.clock) as Arc<dyn Clock>,
        None => Arc::new(SystemClock::new()),
    };
    let seams = Seams {
        disk: Arc::new(RealDisk::default()),
        clock,
        random: Arc::new(random),
        boot_id: boot_id(),
    };
    let sources = secret_reload.map(|reload| reload as Arc<dyn Reload>);
    let extras = Extras {
        sources: sources.into_iter().collect(),
        link_faults: faults.map(|faults| faults.links),
        log: Some(log),
    };
    Server::start_with_extras(config, seams, extras).map_err(|error| match error {
        // Some of it shows only when a host is resolved, or a file is read.
        StartError::Config(error) => {
            let option = format!("--{}", options::option_of(error.field));
            Failure::usage(error.problem).with_origin(&option)
        }
        error if error.is_refusal() => Failure::usage(error.to_string()),
        error => Failure::failed(error.to_string()),
    })
}

/// Which boot of the machine this is; `None` where the kernel does not say it.
fn boot_id() -> Option<BootId> {
    let file = Path::new("/proc/sys/kernel/random/boot_id");
    BootId::parse(&files::read(file).ok()?)
}

/// Has the node read again what may change, at each signal.
async fn reload_forever(node: &Server, signals: &mut ReloadSignals) {
    while signals.next().await {
        tracing::info!("SIGHUP: rereading files");
        node.reload();
    }
}

/// Waits until stdin ends or fails, and does meanwhile what its lines say. Waits for ever
/// where the node is no child of `dev`.
async fn stdin_end(faults: Option<DevFaults>) {
    let Some(faults) = faults else {
        return std::future::pending().await;
    };
    let read = move || faults.obey(std::io::stdin().lock());
    // The thread ends with the process. If it panics, stdin counts as closed.
    match on_thread("stdin", read) {
        Ok(end) => drop(end.await),
        Err(failure) => {
            tracing::error!("{}: the end of stdin will not be seen", failure.line());
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_no_more_memory_than_the_system_has() {
        let (mib, gib) = (1 << 20, 1 << 30);
        for (planned, has, refused, warns) in [
            (gib, None, false, false),
            (gib, Some(gib), false, false),
            (gib + mib, Some(gib), true, false),
            (500 * gib, Some(gib), true, false),
            (MEMORY_BYTES_MIN, Some(100 * mib), false, true),
            (MEMORY_BYTES_MIN, Some(MEMORY_BYTES_MIN), false, false),
        ] {
            let checked = check_memory(planned, has);
            assert_eq!(checked.is_err(), refused, "{planned} {has:?}");
            let warning = checked.clone().ok().flatten();
            assert_eq!(warning.is_some(), warns, "{planned} {has:?}");
            let line = checked.err().map(|error| error.problem).or(warning);
            if let (Some(line), Some(has)) = (line, has) {
                for size in [ByteSize(planned), ByteSize(has)] {
                    assert!(line.contains(&size.to_string()), "{line}");
                }
            }
        }
    }
}
