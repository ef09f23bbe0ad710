//! `kvorum export`: the entities of the cluster as lines of JSON, in the order of the keys.
//!
//! A file under its own name is complete. Until then it is called NAME.partial and ends after the
//! last line that arrived, so that `--resume` can continue there.

use super::files::{Partial, PartialError};
use super::key_range::{KeyRangeOptions, transferred};
use super::options::TransferOptions;
use super::outcome::failure_of;
use super::output::{print_json, stdout};
use super::waiting::wait_for;
use crate::failure::Failure;
use crate::text::report_line;
use api::Entity;
use clap::Args;
use cli::progress::{Progress, Stage};
use client::{Client, Error, ScanRequest, Scope, percent_form};
use serde::Serialize;
use std::path::{Path, PathBuf};
use units::count;

pub(super) const HELP: &str = "Examples:
  kvorum export backup.ndjson
  kvorum export backup.ndjson.zst
  kvorum export backup.ndjson --resume
  kvorum export users.ndjson --prefix user/
  kvorum export - --url http://a:8080,http://b:8080 | gzip > backup.ndjson.gz

A line is {\"key\":…,\"value\":…} with key_base64 and value_base64 for bytes that are not text, and with expires if the value has a TTL. 'kvorum import' reads it.

A FILE that ends with .gz or .zst is compressed with gzip or zstd.

When a node does not answer, the export continues at another one. FILE appears once it is complete and matches the digests of the nodes; until then there is FILE.partial.";

/// The greatest share that is shown before the end, because the number of entities is an estimate.
const SHARE_MAX: f64 = 0.99;

/// The options of `export`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportOptions {
    /// The file to write; - for stdout
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Continue after the last line of FILE.partial
    #[arg(long)]
    resume: bool,
    /// Replace FILE if it is there
    #[arg(long)]
    overwrite: bool,
    /// Also write versions; an import ignores them unless --if-unchanged is given
    #[arg(long)]
    versions: bool,
    /// Export only what the first node holds, which may lack keys, not the whole cluster
    #[arg(long)]
    node: bool,
    #[command(flatten)]
    range: KeyRangeOptions,
    /// Print a line of JSON about the result
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// What an export has done.
#[derive(Serialize)]
struct Exported {
    /// The entities that this run has written.
    entities: u64,
    /// The length of the whole file.
    bytes: u64,
}

/// Exports a range of keys.
///
/// # Errors
/// See `outcome`.
pub(super) fn run(options: &ExportOptions) -> Result<(), Failure> {
    let scope = if options.node {
        Scope::Node
    } else {
        Scope::Cluster
    };
    let mut request = options.range.request(scope)?;
    request.replicas = options.transfer.replicas();
    let client = options.transfer.client()?;
    if options.file == Path::new("-") {
        if options.resume || options.overwrite || options.json {
            return Err(Failure::usage(
                "--resume, --overwrite and --json need a file: stdout is for the entities",
            ));
        }
        return wait_for(to_stdout(&client, request, options));
    }
    wait_for(to_file(&client, request, options))
}

async fn to_stdout(
    client: &Client,
    request: ScanRequest,
    options: &ExportOptions,
) -> Result<(), Failure> {
    let mut output = stdout();
    let mut shown = Shown::new(client, &request, options.transfer.progress(true)).await;
    let mut reader = client.scan(request);
    let ended = loop {
        match reader.next().await {
            Ok(Some(entity)) => {
                output.write(|line| entity.write_line(options.versions, line))?;
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(cut(&error)),
        }
        shown.add_one();
    };
    drop(shown);
    output.flush()?;
    ended
}

async fn to_file(
    client: &Client,
    mut request: ScanRequest,
    options: &ExportOptions,
) -> Result<(), Failure> {
    let name = options.file.display();
    let partial = Partial::open(&options.file, options.resume, options.overwrite);
    let mut partial = partial.map_err(failure_of_file)?;
    if let Some(line) = partial.last_line().map_err(failure_of_file)? {
        go_on_behind(&line, &mut request)
            .map_err(|problem| Failure::usage(format!("{name}.partial {problem}")))?;
    }
    let mut shown = Shown::new(client, &request, options.transfer.progress(false)).await;
    let mut reader = client.scan(request);
    let mut streams = 0;
    // Where what the present stream has brought begins.
    let mut stream_begin = partial.mark().map_err(failure_of_file)?;
    let mut line = Vec::new();
    let ended = loop {
        let next = reader.next().await;
        if reader.streams() != streams {
            streams = reader.streams();
            stream_begin = partial.mark().map_err(failure_of_file)?;
        }
        match next {
            Ok(Some(entity)) => {
                line.clear();
                entity.write_line(options.versions, &mut line);
                partial.write(&line).map_err(failure_of_file)?;
                shown.add_one();
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let entities = shown.entities;
    drop(shown);
    match ended {
        Ok(()) => {}
        Err(error @ Error::Damaged { .. }) => {
            // What this stream has brought may be wrong, too.
            partial.cut_at(stream_begin).map_err(failure_of_file)?;
            return Err(cut(&error));
        }
        Err(error) => {
            partial.flush().map_err(failure_of_file)?;
            return Err(cut(&error).with_more("run the same command with --resume to continue"));
        }
    }
    let bytes = partial.finish().map_err(failure_of_file)?;
    if options.json {
        return print_json(&Exported { entities, bytes });
    }
    report_line(&format!("exported {} entities to {name}", count(entities)));
    Ok(())
}

/// How far an export is.
struct Shown {
    progress: Progress,
    entities: u64,
    /// An estimate of how many there are, if there is one.
    all: Option<u64>,
}

impl Shown {
    async fn new(client: &Client, request: &ScanRequest, progress: Progress) -> Self {
        let all = if progress.is_shown() {
            client.entities_about(request).await
        } else {
            None
        };
        Self {
            progress,
            entities: 0,
            all,
        }
    }

    fn add_one(&mut self) {
        self.entities += 1;
        let (entities, all) = (self.entities, self.all);
        self.progress.show(|seconds| Stage {
            share: all.map(|all| (entities as f64 / all as f64).min(SHARE_MAX)),
            text: transferred(entities, "exported", seconds),
        });
    }
}

/// The failure of an export that is not whole.
fn cut(error: &Error) -> Failure {
    failure_of(error).with_more("the export is incomplete")
}

/// Continues behind a line of an earlier export.
fn go_on_behind(line: &[u8], request: &mut ScanRequest) -> Result<(), String> {
    let entity = Entity::parse(line).map_err(|problem| {
        format!("does not end with a line of an export ({problem}): remove it, and start again")
    })?;
    let is_before = entity.key < request.start;
    let is_behind = request.end.as_ref().is_some_and(|end| entity.key >= *end);
    if is_before || is_behind {
        return Err(format!(
            "ends with the key {}, which is not in this range: give the same --start, --end or \
             --prefix as before, or remove it",
            percent_form(&entity.key)
        ));
    }
    request.set_behind(&entity.key);
    Ok(())
}

/// The failure that a problem with a file becomes.
fn failure_of_file(error: PartialError) -> Failure {
    match error {
        PartialError::IsThere(partial) => Failure::usage(format!(
            "{0} is left of an interrupted export: give --resume to continue it, or remove the file",
            partial.display()
        )),
        PartialError::WholeIsThere(file) => Failure::usage(format!(
            "{} is there already: give --overwrite to replace it, or another name",
            file.display()
        )),
        PartialError::IsFolder(folder) => Failure::usage(format!(
            "{} is a folder: give the name of a file in it",
            folder.display()
        )),
        PartialError::NoFolder(file) => Failure::usage(format!(
            "cannot make {}: its folder is missing; make it first",
            file.display()
        )),
        PartialError::System(file, error) => {
            Failure::other(format!("cannot write {}: {error}", file.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_goes_on_behind_its_last_key_and_only_in_its_own_range() {
        let mut request = ScanRequest::all(Scope::Cluster);
        request.set_prefix(b"b");
        go_on_behind(br#"{"key":"b7","value":""}"#, &mut request).unwrap();
        assert_eq!(request.start, b"b7\0");
        for (line, word) in [
            (&br#"{"key":"a","value":""}"#[..], "not in this range"),
            (br#"{"key":"c","value":""}"#, "not in this range"),
            (b"key\tvalue", "does not end with a line of an export"),
        ] {
            let problem = go_on_behind(line, &mut request).unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
    }
}
