//! `kvorum scan`: the entities of a range of keys, as lines of text or of JSON.

use super::aggregate::{self, AggregateOptions};
use super::key_range::{KeyRangeOptions, transferred};
use super::options::TransferOptions;
use super::outcome::failure_of;
use super::output::{print_json, print_lines, stdout};
use super::waiting::wait_for;
use crate::failure::Failure;
use crate::values::count_from;
use api::{Entity, ListedLine};
use clap::{Arg, Args};
use cli::progress::Stage;
use client::{Client, ScanRequest, Scope, percent_form};
use serde::Serialize;
use std::ffi::OsString;

pub(super) const HELP: &str = "\
Examples:
  kvorum scan user/
  kvorum scan --count
  kvorum scan orders/ --where 'value.total > 100' --limit 10
  kvorum scan orders/ --where 'value.total > 100' --count --by value.country
  kvorum scan orders/ --sum value.total --max value.total
  kvorum scan user/ --delimiter / --values-omit
  kvorum scan --start a --end b --limit 100
  kvorum scan --values-omit --key-percent --start '%00%FF'
  kvorum scan --json | jq .key

Each line is a key, a tab and a value; unprintable bytes and % are written as %XX. --json writes \
lines of JSON as the API does. With --delimiter keys are listed like files in folders: a line without \
a tab may be what the keys of a folder begin with.

The nodes evaluate the expressions of --where, --by, --sum, --min and --max, which are of CEL over key, \
value (read as JSON), version, expires, size and now. What does not fit an entity is no match. With --by \
each line is a group: its values, then its count (--count), sums, least and greatest values. stderr says \
over how many keys.

When a node does not answer, the scan continues at another one. An incomplete scan ends \
with an exit code other than 0.";

/// The options of `scan`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScanOptions {
    /// Only keys that begin with PREFIX, as --prefix
    #[arg(value_name = "PREFIX", conflicts_with_all = ["prefix", "start", "end"])]
    beginning: Option<OsString>,
    /// Scan only what the first node holds, which may lack keys, not the whole cluster
    #[arg(long)]
    node: bool,
    #[command(flatten)]
    range: KeyRangeOptions,
    /// List keys like the files of one folder: print one line for all keys that have the same bytes
    /// up to the first DELIMITER behind the prefix
    #[arg(
        long,
        value_name = "DELIMITER",
        conflicts_with = "count",
        help_heading = "Range"
    )]
    delimiter: Option<OsString>,
    /// Stop after N entities
    #[arg(long, value_name = "N", value_parser = count_from(1), help_heading = "Range")]
    limit: Option<u64>,
    /// Only entities that match EXPR, a condition such as 'value.total > 100'
    #[arg(
        long = "where",
        value_name = "EXPR",
        conflicts_with = "delimiter",
        allow_hyphen_values = true,
        help_heading = "Conditions"
    )]
    condition: Option<String>,
    #[command(flatten)]
    aggregates: AggregateOptions,
    /// Print keys without values
    #[arg(long)]
    values_omit: bool,
    /// Print only the number of entities
    #[arg(long, conflicts_with = "values_omit")]
    count: bool,
    /// Print lines of JSON, of entities with versions and expiries
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    transfer: TransferOptions,
}

/// The option `--timeout` of a command that scans: a node may have to look for the next entity, and
/// sends nothing until it has counted all.
pub(super) fn with_silence_default(timeout: Arg) -> Arg {
    timeout.help("How long a node may be silent [default: 60s; 1h while it counts]")
}

/// Prints the entities of a range of keys.
///
/// # Errors
/// See `outcome`.
pub(super) fn run(options: &ScanOptions) -> Result<(), Failure> {
    let scope = if options.node {
        Scope::Node
    } else {
        Scope::Cluster
    };
    aggregate::check(
        options.condition.as_deref(),
        &options.aggregates,
        options.count,
    )?;
    let mut request = options.range.request_of(scope, &options.beginning)?;
    request.condition.clone_from(&options.condition);
    request.limit = options.limit;
    request.has_values = !options.values_omit;
    request.replicas = options.transfer.replicas();
    request.delimiter = options.range.bytes("--delimiter", &options.delimiter)?;
    if scope == Scope::Node && request.replicas != client::Replicas::default() {
        return Err(Failure::usage(
            "--ack and --from do not go with --node: a scan of one node asks no other node",
        ));
    }
    let client = options.transfer.client()?;
    wait_for(async {
        let aggregates = &options.aggregates;
        if !aggregates.is_empty() {
            return aggregate::run(&client, &request, aggregates, options.count, options.json)
                .await;
        }
        if options.count {
            let counted = client.count(&request).await;
            let count = counted.map_err(|error| failure_of(&error))?;
            if options.json {
                return print_json(&Counted { count });
            }
            return print_lines([count.to_string()]);
        }
        scan(&client, request, options).await
    })
}

/// A count as `--json` prints it.
#[derive(Serialize)]
struct Counted {
    count: u64,
}

async fn scan(client: &Client, request: ScanRequest, options: &ScanOptions) -> Result<(), Failure> {
    let mut reader = client.scan(request);
    let mut output = stdout();
    let mut progress = options.transfer.progress(true);
    let (mut count, mut last_key) = (0, None);
    let ended = loop {
        let line = match reader.next_line().await {
            Ok(Some(line)) => line,
            Ok(None) => break Ok(()),
            Err(error) => break Err(failure_of(&error)),
        };
        count += 1;
        output.write(|out| match &line {
            ListedLine::Entity(entity) => put_line(entity, options.json, out),
            ListedLine::Prefix(prefix) => put_prefix(prefix, options.json, out),
        })?;
        last_key = Some(match line {
            ListedLine::Entity(entity) => entity.key,
            ListedLine::Prefix(prefix) => prefix,
        });
        progress.show(|seconds| Stage {
            share: None,
            text: transferred(count, "read", seconds),
        });
    };
    progress.clear();
    output.flush()?;
    ended.map_err(|failure| match &last_key {
        None => failure,
        Some(key) => failure.with_more(&format!(
            "the scan is incomplete: its last key is {}",
            percent_form(key)
        )),
    })
}

/// Appends the line of an entity.
pub(super) fn put_line(entity: &Entity, json: bool, line: &mut Vec<u8>) {
    if json {
        return entity.write_line(true, line);
    }
    line.extend_from_slice(percent_form(&entity.key).as_bytes());
    if let Some(value) = &entity.value {
        line.push(b'\t');
        line.extend_from_slice(percent_form(value).as_bytes());
    }
    line.push(b'\n');
}

/// Appends the line of a common prefix of keys.
fn put_prefix(prefix: &[u8], json: bool, line: &mut Vec<u8>) {
    if json {
        return api::write_prefix_line(prefix, line);
    }
    line.extend_from_slice(percent_form(prefix).as_bytes());
    line.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_text_has_one_tab_and_one_end() {
        let line = |key: &[u8], value: Option<&[u8]>| {
            let entity = Entity {
                key: key.to_vec(),
                value: value.map(<[u8]>::to_vec),
                ..Entity::default()
            };
            let mut line = Vec::new();
            put_line(&entity, false, &mut line);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(line(b"a\tb", Some(b"v\n\xff")), "a%09b\tv%0A%FF\n");
        assert_eq!(line(b"a", Some(b"")), "a\t\n");
        assert_eq!(line(b"a", None), "a\n");
    }
}
