//! `kvorum delete --prefix`: counts keys, asks, and deletes them.
//!
//! The keys of a scan go to the nodes as an import's lines do, so batches are sent in parallel,
//! repeated, and sent to another node where one fails. Nothing is recorded: what is deleted is no
//! longer found, so the same command deletes what an interrupted one has left.

use super::import::{WAITING_INTERVAL, WAITING_NAMED_AFTER};
use super::outcome::failure_of;
use super::output::{print_json, print_lines};
use super::single::DeleteOptions;
use super::waiting::wait_for;
use crate::failure::Failure;
use crate::text::report_line;
use cli::progress::{Progress, Stage};
use client::{
    Client, ImportError, ImportObserver, ImportOperation, ImportProgress, ImportSettings,
    LineFailure, Position, ScanRequest, Scope, Waiting, percent_form,
};
use serde::Serialize;
use std::io::{self, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use units::{counted, rate};

/// How many batches are sent in parallel.
const PARALLEL: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// How long a batch is repeated of which no key gets deleted.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many lines wait between the scan and the batches.
const LINES_WAITING_MAX: usize = 4096;

/// What was done.
#[derive(Serialize)]
struct Deleted {
    deleted: u64,
}

/// Deletes all keys with a prefix.
///
/// # Errors
/// See `outcome`.
pub(super) fn run(options: &DeleteOptions) -> Result<(), Failure> {
    let prefix = options.keys.prefix()?;
    let mut request = ScanRequest::all(Scope::Cluster);
    request.set_prefix(&prefix);
    request.has_values = false;
    request.replicas = options.replicas.into();
    if !options.yes && !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "--prefix asks before it deletes, and stdin is no terminal: give --yes",
        ));
    }
    if options.write.retry_writes {
        return Err(Failure::usage(
            "--retry-writes: the deletes of --prefix are always repeated: omit it",
        ));
    }
    let (urls, client) = options.nodes.urls_and_client(false)?;
    let client = Arc::new(client);
    wait_for(async {
        let counted_keys = client.count(&request).await;
        let keys = counted_keys.map_err(|error| failure_of(&error))?;
        let what = format!(
            "{} with the prefix {} from the cluster of {}",
            counted(keys, "key"),
            percent_form(&prefix),
            urls.iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        );
        if keys > 0 && !options.yes && !is_confirmed(&what)? {
            return Err(Failure::other("nothing is deleted"));
        }
        let deleted = delete(&client, request, keys).await?;
        if options.json {
            return print_json(&Deleted { deleted });
        }
        print_lines([format!("deleted: {}", counted(deleted, "key"))])
    })
}

/// Asks the user.
fn is_confirmed(what: &str) -> Result<bool, Failure> {
    let failed = |error: io::Error| Failure::other(format!("cannot ask: {error}"));
    let mut stderr = io::stderr().lock();
    write!(stderr, "Delete {what}? [y/N] ").map_err(failed)?;
    stderr.flush().map_err(failed)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(failed)?;
    let answer = answer.trim();
    Ok(["y", "yes"]
        .iter()
        .any(|yes| answer.eq_ignore_ascii_case(yes)))
}

/// Deletes the keys of a scan. Returns how many.
async fn delete(client: &Arc<Client>, request: ScanRequest, keys: u64) -> Result<u64, Failure> {
    let settings = ImportSettings {
        operation: ImportOperation::Delete,
        replicas: request.replicas,
        shards: PARALLEL,
        patience: PATIENCE,
        passes_over: false,
    };
    let (lines, receiver) = mpsc::channel(LINES_WAITING_MAX);
    let scan_error = Arc::new(Mutex::new(None));
    let input = ScannedKeys {
        lines: receiver,
        rest: Vec::new(),
        taken: 0,
        scan_error: Arc::clone(&scan_error),
    };
    let mut shown = Shown {
        keys,
        progress: Progress::new(),
        waiting_named: None,
    };
    let deleting = client::import(
        Arc::clone(client),
        input,
        Position::default(),
        settings,
        &mut shown,
    );
    let scanning = async {
        let mut reader = client.scan(request);
        loop {
            match reader.next().await {
                Ok(Some(entity)) => {
                    let mut line = Vec::new();
                    entity.write_line(false, &mut line);
                    if lines.send(line).await.is_err() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let mut place = scan_error.lock().unwrap_or_else(PoisonError::into_inner);
                    *place = Some(error);
                    break;
                }
            }
        }
        drop(lines);
    };
    let (deleted, ()) = tokio::join!(deleting, scanning);
    shown.progress.clear();
    let scan_error = scan_error
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match deleted {
        Ok(progress) => Ok(progress.stored),
        Err(error) => Err(match scan_error {
            Some(error) => failure_of(&error),
            None => failure_of_deletion(&error),
        }
        .with_more("some keys may be left: run the same command again")),
    }
}

fn failure_of_deletion(error: &ImportError) -> Failure {
    match error {
        ImportError::Refused(error) => failure_of(error),
        ImportError::Line(failure) => Failure::other(failure.problem.clone()),
        ImportError::GaveUp(waiting) => Failure::unavailable(format!(
            "{} not deleted after {} s: {}",
            counted(waiting.more as u64 + 1, "key"),
            waiting.waited.as_secs(),
            waiting.problem
        )),
        error => Failure::other(error.to_string()),
    }
}

/// The lines of a scan, for the thread that reads them.
struct ScannedKeys {
    lines: mpsc::Receiver<Vec<u8>>,
    rest: Vec<u8>,
    /// How much of the rest was read.
    taken: usize,
    /// Why there are no more lines, unless the scan is whole.
    scan_error: Arc<Mutex<Option<client::Error>>>,
}

impl Read for ScannedKeys {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.rest.len() {
            let Some(line) = self.lines.blocking_recv() else {
                let error = self
                    .scan_error
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                // A scan that was cut is no whole input.
                return match &*error {
                    Some(error) => Err(io::Error::other(error.to_string())),
                    None => Ok(0),
                };
            };
            (self.rest, self.taken) = (line, 0);
        }
        let rest = &self.rest[self.taken..];
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

/// Shows how many keys are deleted.
struct Shown {
    keys: u64,
    progress: Progress,
    /// When it was said last that deletes are repeated.
    waiting_named: Option<Instant>,
}

impl ImportObserver for Shown {
    fn progress(&mut self, progress: &ImportProgress, _is_last: bool) -> io::Result<()> {
        let keys = self.keys.max(1) as f64;
        self.progress.show(|seconds| Stage {
            share: Some((progress.stored as f64 / keys).min(1.0)),
            text: format!(
                "{} deleted, {}",
                counted(progress.stored, "key"),
                rate(progress.stored as f64 / seconds)
            ),
        });
        Ok(())
    }

    fn passed_over(&mut self, _failure: &LineFailure) {}

    fn waits(&mut self, waiting: &Waiting) {
        let is_named = self
            .waiting_named
            .is_some_and(|at| at.elapsed() < WAITING_INTERVAL);
        if !is_named && waiting.waited >= WAITING_NAMED_AFTER {
            self.waiting_named = Some(Instant::now());
            self.progress.clear();
            report_line(&format!("deletes are repeated: {}", waiting.problem));
        }
    }
}
