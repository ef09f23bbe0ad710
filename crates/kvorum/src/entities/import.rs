//! `kvorum import`: lines of JSON into a cluster, through batches.

use super::files::{FileInput, InputSize, PositionFile, with_suffix};
use super::options::TransferOptions;
use super::outcome::failure_of;
use super::output::print_json;
use super::waiting::wait_for;
use crate::failure::Failure;
use crate::text::report_line;
use crate::values::{self, TimeSpan, span};
use clap::Args;
use cli::progress::{Progress, Stage};
use client::{
    ImportError, ImportObserver, ImportOperation, ImportSettings, LineFailure, Position, Waiting,
};
use serde::Serialize;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use units::{count, rate};

pub(super) const HELP: &str = "Examples:
  kvorum import backup.ndjson
  kvorum import backup.ndjson.zst
  kvorum import backup.ndjson --resume
  kvorum import backup.ndjson --url http://a:8080,http://b:8080,http://c:8080 --parallel 16
  curl -s https://example.com/data.ndjson.gz | kvorum import - --position data.position

A line is {\"key\":…,\"value\":…} as 'kvorum export' and the API write it: key_base64 and value_base64 for bytes that are not text, expires for a TTL; versions are ignored unless --if-unchanged is given. If several lines have the same key, the last one wins. Input in gzip or zstd is recognized and decompressed.

While an import runs, FILE.position records confirmed progress; it is deleted on success. After an interruption, --resume continues there: it stores some lines again, with the same content, and misses none. Name at least one of the nodes that were named before.";

/// How many skipped lines are named at most.
const NAMED_MAX: u64 = 20;

/// After how long a line on stderr says that lines are sent again.
pub(super) const WAITING_NAMED_AFTER: Duration = Duration::from_secs(3);

/// How often that is said.
pub(super) const WAITING_INTERVAL: Duration = Duration::from_secs(10);

/// How often the position is kept.
const POSITION_INTERVAL: Duration = Duration::from_secs(1);

/// How long a batch is repeated, unless the user says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `--patience` may be.
const PATIENCES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 3600);

/// The options of `import`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImportOptions {
    /// The file to read; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Continue an interrupted import where FILE.position says
    #[arg(long)]
    resume: bool,
    /// The file that records progress [default: FILE.position; none for stdin]
    #[arg(long, value_name = "FILE")]
    position: Option<PathBuf>,
    /// Skip and report lines that cannot be stored; otherwise the first one ends the import
    #[arg(long)]
    keep_going: bool,
    /// Store a line only if its key still has the version of the line; other keys stay as they are
    #[arg(long)]
    if_unchanged: bool,
    /// How many batches to send in parallel
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = values::count(1..=256_u16))]
    parallel: u16,
    /// Give up after a batch has made no progress for TIME
    #[arg(long, value_name = "TIME", default_value_t = TimeSpan(PATIENCE), value_parser = span(PATIENCES))]
    patience: TimeSpan,
    /// Print a line of JSON about the result
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// What an import has done.
#[derive(Serialize)]
struct Imported {
    /// The lines that this run has stored; some of them more than once.
    stored: u64,
    /// The lines of the input.
    lines: u64,
    /// The lines that were passed over.
    passed_over: u64,
}

/// Imports a file.
///
/// # Errors
/// See `outcome`.
pub(super) fn run(options: &ImportOptions) -> Result<(), Failure> {
    let is_stdin = options.file == Path::new("-");
    let urls = options.transfer.urls()?;
    let position_file = |path| PositionFile::new(path, urls.clone());
    let file = match (&options.position, is_stdin) {
        (Some(path), _) => Some(position_file(path.clone())),
        (None, false) => Some(position_file(with_suffix(&options.file, ".position"))),
        (None, true) if options.resume => {
            let line =
                "--resume needs --position FILE: without it no progress of stdin is recorded";
            return Err(Failure::usage(line));
        }
        (None, true) => None,
    };
    let from = begin(file.as_ref(), options.resume)?;
    let mut size = None;
    let input: Box<dyn Read + Send> = if is_stdin {
        Box::new(io::stdin())
    } else {
        let opened = FileInput::open(&options.file).map_err(|error| {
            let name = options.file.display();
            Failure::usage(format!("cannot open {name}: {error}"))
        })?;
        size = Some(opened.size());
        Box::new(opened)
    };
    let client = Arc::new(options.transfer.client()?);
    let settings = ImportSettings {
        operation: if options.if_unchanged {
            ImportOperation::PutIfUnchanged
        } else {
            ImportOperation::Put
        },
        replicas: options.transfer.replicas(),
        shards: NonZeroUsize::new(options.parallel.into()).unwrap_or(NonZeroUsize::MIN),
        patience: options.patience.0,
        passes_over: options.keep_going,
    };
    let mut keeper = Keeper {
        // A position that nobody asked for need not be kept where that is not possible.
        is_optional: options.position.is_none() && !options.resume,
        file,
        kept: None,
        begin: from,
        size,
        progress: options.transfer.progress(false),
        named: 0,
        waiting_named: None,
    };
    wait_for(async {
        let imported = client::import(client, input, from, settings, &mut keeper).await;
        keeper.progress.clear();
        match imported {
            Ok(progress) => keeper.end(progress, options.json),
            Err(error) => {
                keeper.forget_the_beginning();
                Err(failure_of_import(&error, keeper.file.as_ref()))
            }
        }
    })
}

/// Where to begin.
fn begin(file: Option<&PositionFile>, resumes: bool) -> Result<Position, Failure> {
    let Some(file) = file else {
        return Ok(Position::default());
    };
    let name = file.path().display();
    match file.read() {
        Ok(None) => Ok(Position::default()),
        // Nothing is stored for certain, so there is nothing to continue.
        Ok(Some(position)) if resumes || position.lines == 0 => Ok(position),
        Ok(Some(position)) => Err(Failure::usage(format!(
            "{name} is left of an import that was interrupted after line {}: give --resume to \
             continue it, or remove the file to start again",
            position.lines
        ))),
        Err(problem) => Err(Failure::usage(format!(
            "cannot continue from {name} ({problem}): remove the file to start again"
        ))),
    }
}

/// Keeps the position, and tells the user.
struct Keeper {
    file: Option<PositionFile>,
    is_optional: bool,
    /// When it was kept last, and what.
    kept: Option<(Instant, Position)>,
    begin: Position,
    /// How long the input is; not known of stdin.
    size: Option<InputSize>,
    progress: Progress,
    named: u64,
    /// When it was said last that lines are sent again.
    waiting_named: Option<Instant>,
}

impl ImportObserver for Keeper {
    fn progress(&mut self, progress: &client::ImportProgress, is_last: bool) -> io::Result<()> {
        let size = self.size.as_ref();
        self.progress.show(|seconds| Stage {
            share: size.map(|size| size.share(progress.position.bytes)),
            text: format!(
                "{} lines stored, {}; the first {} are done",
                count(progress.stored),
                rate(progress.stored as f64 / seconds),
                count(progress.position.lines)
            ),
        });
        let Some(file) = &self.file else {
            return Ok(());
        };
        let is_due = self.kept.is_none_or(|(at, position)| {
            position != progress.position && (is_last || at.elapsed() >= POSITION_INTERVAL)
        });
        if !is_due {
            return Ok(());
        }
        match file.write(progress.position) {
            Ok(()) => self.kept = Some((Instant::now(), progress.position)),
            Err(_) if self.is_optional => self.file = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn passed_over(&mut self, failure: &LineFailure) {
        self.named += 1;
        if self.named <= NAMED_MAX {
            self.progress.clear();
            report_line(&format!("line {}: {}", failure.line, failure.problem));
        }
    }

    fn waits(&mut self, waiting: &Waiting) {
        let is_named = self
            .waiting_named
            .is_some_and(|at| at.elapsed() < WAITING_INTERVAL);
        if is_named || waiting.waited < WAITING_NAMED_AFTER {
            return;
        }
        self.waiting_named = Some(Instant::now());
        self.progress.clear();
        report_line(&line_of_waiting(waiting));
    }
}

impl Keeper {
    /// Removes a position before the first line: there is nothing to continue.
    fn forget_the_beginning(&mut self) {
        let kept = self.kept.map_or(self.begin, |(_, position)| position);
        if kept.lines == 0
            && self.begin.lines == 0
            && let Some(file) = self.file.take()
        {
            // If it stays, the next import begins anew nevertheless.
            let _ = file.remove();
        }
    }

    /// The end of an import that has reached the end of its input.
    fn end(&mut self, progress: client::ImportProgress, json: bool) -> Result<(), Failure> {
        if let Some(file) = &self.file {
            let removed = file.remove();
            removed.map_err(|error| {
                let name = file.path().display();
                Failure::other(format!(
                    "everything is stored, but {name} cannot be removed: {error}"
                ))
            })?;
        }
        let Position {
            lines, passed_over, ..
        } = progress.position;
        let stored = count(progress.stored);
        if json {
            print_json(&Imported {
                stored: progress.stored,
                lines,
                passed_over,
            })?;
        }
        if passed_over > 0 {
            return Err(Failure::other(format!(
                "{} of {} lines could not be stored and were skipped; {stored} are stored",
                count(passed_over),
                count(lines)
            )));
        }
        if !json {
            let before = match self.begin.lines {
                0 => String::new(),
                before => format!(", after {} lines of earlier runs", count(before)),
            };
            report_line(&format!("imported {stored} entities{before}"));
        }
        Ok(())
    }
}

/// What is said while lines are sent again.
fn line_of_waiting(waiting: &Waiting) -> String {
    format!(
        "{} not stored after {} s, and sent again: {}",
        waiting.lines(),
        waiting.waited.as_secs(),
        waiting.problem
    )
}

/// The failure of an import that is not complete.
fn failure_of_import(error: &ImportError, file: Option<&PositionFile>) -> Failure {
    let line = error.to_string();
    let (failure, repair) = match error {
        ImportError::Line(_) => (Failure::other(line), "correct the line"),
        ImportError::OtherInput(_) => {
            let name = file.map(|file| file.path().display().to_string());
            let name = name.unwrap_or_default();
            return Failure::usage(format!(
                "{line}; give the same input, or remove {name} to start again"
            ));
        }
        ImportError::Refused(error) => (failure_of(error), "repair that"),
        ImportError::GaveUp(_) => (Failure::unavailable(line), "repair that"),
        ImportError::Input(_) | ImportError::Observer(_) => (Failure::other(line), "repair that"),
    };
    let (again, skipping) = match file {
        Some(_) => ("with --resume", "--resume --keep-going"),
        None => ("again, which stores the same again", "--keep-going"),
    };
    let or_skip = match error {
        ImportError::Line(_) => format!("; to skip such lines run it with {skipping}"),
        _ => String::new(),
    };
    failure.with_more(&format!(
        "the import is incomplete: {repair}, and run the same command {again}{or_skip}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Error;

    #[test]
    fn each_failure_has_its_exit_code_and_says_how_to_go_on() {
        let file = PositionFile::new("f.position".into(), Vec::new());
        let line = LineFailure {
            line: 7,
            problem: "it has no key".to_owned(),
        };
        let refused = Error::Unreachable {
            node: "http://h:1".to_owned(),
            problem: None,
        };
        let waiting = Waiting {
            line: 7,
            more: 2,
            waited: Duration::from_secs(60),
            problem: "p".to_owned(),
        };
        assert_eq!(
            line_of_waiting(&waiting),
            "line 7 and 2 more are not stored after 60 s, and sent again: p"
        );
        let gave_up = ImportError::GaveUp(waiting);
        for (error, code, word) in [
            (ImportError::Line(line.clone()), 4, "line 7: it has no key"),
            (
                ImportError::Line(line),
                4,
                "to skip such lines run it with --resume --keep-going",
            ),
            (
                ImportError::OtherInput(Position::default()),
                2,
                "f.position",
            ),
            (ImportError::Refused(refused), 3, "start the node"),
            (gave_up, 3, "line 7 and 2 more are not stored after 60 s: p"),
            (
                ImportError::Input(io::ErrorKind::NotFound.into()),
                4,
                "the input",
            ),
            (
                ImportError::Observer(io::ErrorKind::NotFound.into()),
                4,
                "position",
            ),
        ] {
            let failure = failure_of_import(&error, Some(&file));
            assert_eq!(failure.code(), code, "{error}");
            assert!(failure.line().contains(word), "{}", failure.line());
            let says_how = failure.line().contains("--resume") || code == 2;
            assert!(says_how, "{}", failure.line());
        }
    }
}
