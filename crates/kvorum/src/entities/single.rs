//! `kvorum get`, `put`, `touch`, `delete` and `replicas`: single keys.

use super::deletion;
use super::options::{
    ConditionOptions, KeyForm, KeyOptions, NodeOptions, PrefixOptions, ReplicaOptions,
    WriteOptions, entity_tag,
};
use super::outcome::{WriteRepeats, failure_of, failure_of_write, print_failure};
use super::output::{print_json, print_lines, stdout};
use super::scan;
use super::waiting::wait_for;
use crate::failure::Failure;
use crate::text::report_line;
use crate::values::ttl;
use api::{Entity, rfc3339};
use base::{Clock, SystemClock};
use clap::Args;
use client::{Client, Condition, EntityHead, Error, KeyReplica, KeyReplicas, percent_form};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use units::{Columns, counted, lines_of};

/// The longest value, in bytes: the greatest that a node can be configured to take.
const VALUE_BYTES_MAX: u64 = 1 << 30;

pub(super) const GET_HELP: &str = "\
Examples:
  kvorum get user/1
  kvorum get user/1 --json
  kvorum get user/1 user/2 user/3
  kvorum get --key-percent '%00%FF' > value
  kvorum get user/1 --ack 1 --from 3 --url http://a:8080,http://b:8080

The value of one key is written byte for byte; on a terminal a newline follows. Each of several keys \
is a line as 'kvorum scan' prints it. Keys without a value are named on stderr.";

pub(super) const PUT_HELP: &str = "\
Examples:
  kvorum put user/1 '{\"n\":1}'
  kvorum put photo --file photo.jpg
  date | kvorum put today -
  kvorum put token secret --ttl 5m
  kvorum put leader node-7 --if-none-match '*'
  kvorum put user/1 '{\"n\":2}' --if-match 032a69deb5800001-d6476c25083d69be

A value that begins with a dash follows '--': kvorum put key -- -v";

pub(super) const TOUCH_HELP: &str = "\
Examples:
  kvorum touch lock --ttl 30s --if-match 032a69deb5800001-d6476c25083d69be
  kvorum touch session/7 --ttl 1h
  kvorum touch session/7

The value stays. Without --ttl it does not expire any more. The ETag is a new one.";

pub(super) const DELETE_HELP: &str = "\
Examples:
  kvorum delete user/1
  kvorum delete --key-base64 /wA=
  kvorum delete user/1 --if-match 032a69deb5800001-d6476c25083d69be
  kvorum delete --prefix user/
  kvorum delete --prefix user/ --yes

--prefix counts the keys of the cluster, asks, and deletes them in batches. A batch whose outcome is \
unknown, or that too few replicas took, is repeated for a minute, so what others write meanwhile may be \
deleted, too. After an interruption the same \
command deletes what is left.";

pub(super) const REPLICAS_HELP: &str = "\
Examples:
  kvorum replicas user/1
  kvorum replicas user/1 --versions
  kvorum replicas user/1 --versions --json";

/// The exit code of a key without a value.
const ABSENT_CODE: u8 = 1;

/// The options of `get`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GetOptions {
    /// The keys, byte for byte unless --key-base64 or --key-percent is given
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
    #[command(flatten)]
    form: KeyForm,
    /// Print a line of JSON for each key, with the version, the expiry and the value
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    replicas: ReplicaOptions,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// The options of `put`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PutOptions {
    #[command(flatten)]
    key: KeyOptions,
    /// The value; - reads it from stdin
    #[arg(
        value_name = "VALUE",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    value: Option<OsString>,
    /// Read the value from a file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Let the value expire after TIME: 300 (seconds), 5m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<u64>,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    condition: ConditionOptions,
    #[command(flatten)]
    replicas: ReplicaOptions,
    #[command(flatten)]
    nodes: NodeOptions,
    #[command(flatten)]
    write: WriteOptions,
}

/// The options of `touch`.
#[derive(Args, Clone, Debug)]
pub(crate) struct TouchOptions {
    #[command(flatten)]
    key: KeyOptions,
    /// Let the value expire after TIME from now on: 300 (seconds), 5m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<u64>,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    /// Write only if the key's value has this ETag, which get --json and each write print. Otherwise
    /// the exit code is 6, and nothing is written
    #[arg(long, value_name = "ETAG", value_parser = entity_tag, help_heading = "Conditions")]
    if_match: Option<String>,
    #[command(flatten)]
    replicas: ReplicaOptions,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// The options of `delete`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteOptions {
    #[command(flatten)]
    pub(super) keys: PrefixOptions,
    /// Delete the keys of --prefix without asking
    #[arg(long, requires = "prefix")]
    pub(super) yes: bool,
    /// Print a line of JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Delete only if the key's value has this ETag, which get --json and each write print; * stands
    /// for any value. Otherwise the exit code is 6, and nothing is written
    #[arg(long, value_name = "ETAG", value_parser = entity_tag,
        conflicts_with_all = ["retry_writes", "prefix"], help_heading = "Conditions")]
    if_match: Option<String>,
    #[command(flatten)]
    pub(super) replicas: ReplicaOptions,
    #[command(flatten)]
    pub(super) nodes: NodeOptions,
    #[command(flatten)]
    pub(super) write: WriteOptions,
}

/// The options of `replicas`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReplicasOptions {
    #[command(flatten)]
    key: KeyOptions,
    /// Ask each node for its version of the key, which explains what reads find
    #[arg(long)]
    versions: bool,
    /// Print a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nodes: NodeOptions,
}

/// An entity as `get --json` prints it.
#[derive(Serialize)]
struct EntityDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(flatten)]
    head: &'a EntityHead,
}

impl<'a> EntityDocument<'a> {
    fn new(key: &'a [u8], value: &'a [u8], head: &'a EntityHead) -> Self {
        let (key, key_base64) = api::text_or_base64(key);
        let (value, value_base64) = api::text_or_base64(value);
        Self {
            key,
            key_base64,
            value,
            value_base64,
            head,
        }
    }
}

/// Reads keys.
///
/// # Errors
/// See `outcome`.
pub(super) fn get(options: &GetOptions) -> Result<(), Failure> {
    let keys = options.keys.iter();
    let keys = keys.map(|key| options.form.parse("KEY", key));
    let keys: Vec<Vec<u8>> = keys.collect::<Result<_, _>>()?;
    let client = options.nodes.client(false)?;
    wait_for(async {
        match &*keys {
            [key] => get_one(&client, key, options).await,
            keys => get_all(&client, keys, options).await,
        }
    })
}

async fn get_one(client: &Client, key: &[u8], options: &GetOptions) -> Result<(), Failure> {
    let found = match client.get(key, options.replicas.into()).await {
        Ok(found) => found,
        Err(error) => return Err(reported(&error, failure_of(&error), options.json)?),
    };
    if options.json {
        return print_json(&EntityDocument::new(key, &found.value, &found.head));
    }
    let mut output = stdout();
    // Otherwise the prompt would follow the value on its line.
    let has_newline = io::stdout().is_terminal() && !found.value.ends_with(b"\n");
    output.write(|bytes| {
        bytes.extend_from_slice(&found.value);
        if has_newline {
            bytes.push(b'\n');
        }
    })?;
    output.flush()
}

/// Prints a line for each key. All are read, also if some have no value.
async fn get_all(client: &Client, keys: &[Vec<u8>], options: &GetOptions) -> Result<(), Failure> {
    let mut output = stdout();
    let mut absent = 0;
    for key in keys {
        let found = match client.get(key, options.replicas.into()).await {
            Ok(found) => found,
            Err(error) => {
                let failure = failure_of(&error);
                if failure.code() != ABSENT_CODE {
                    output.flush()?;
                    return Err(failure.with_origin(&percent_form(key)));
                }
                report_line(&format!("{}: {}", percent_form(key), failure.line()));
                absent += 1;
                continue;
            }
        };
        if options.json {
            print_json(&EntityDocument::new(key, &found.value, &found.head))?;
        } else {
            let entity = Entity {
                key: key.clone(),
                value: Some(found.value),
                ..Entity::default()
            };
            output.write(|line| scan::put_line(&entity, false, line))?;
        }
    }
    output.flush()?;
    match absent {
        0 => Ok(()),
        absent => Err(Failure::absent(format!(
            "{absent} of {} keys have no value",
            keys.len()
        ))),
    }
}

/// Writes a key.
///
/// # Errors
/// See `outcome`.
pub(super) fn put(options: &PutOptions) -> Result<(), Failure> {
    let key = options.key.bytes()?;
    let value = value_of(options)?;
    let client = options.nodes.client(options.write.retry_writes)?;
    wait_for(async {
        let replicas = options.replicas.into();
        let condition = Condition::from(&options.condition);
        let written = client.put_if(&key, value.into(), options.ttl, replicas, &condition);
        let written = written.await;
        let repeats = WriteRepeats::of(&condition, options.write.retry_writes);
        print_written("stored", written, repeats, options.json)
    })
}

/// Changes when a value expires.
///
/// # Errors
/// See `outcome`.
pub(super) fn touch(options: &TouchOptions) -> Result<(), Failure> {
    let key = options.key.bytes()?;
    let client = options.nodes.client(false)?;
    wait_for(async {
        let replicas = options.replicas.into();
        let condition = Condition {
            if_match: options.if_match.clone(),
            if_none_match: None,
        };
        let written = client.touch(&key, options.ttl, replicas, &condition).await;
        print_written("touched", written, WriteRepeats::Never, options.json)
    })
}

/// Deletes a key, or all keys with a prefix.
///
/// # Errors
/// See `outcome`.
pub(super) fn delete(options: &DeleteOptions) -> Result<(), Failure> {
    let Some(key) = options.keys.key()? else {
        return deletion::run(options);
    };
    let client = options.nodes.client(options.write.retry_writes)?;
    wait_for(async {
        let condition = Condition {
            if_match: options.if_match.clone(),
            if_none_match: None,
        };
        let written = client.delete_if(&key, options.replicas.into(), &condition);
        let written = written.await;
        let repeats = WriteRepeats::of(&condition, options.write.retry_writes);
        print_written("deleted", written, repeats, options.json)
    })
}

/// Shows where a key lies.
///
/// # Errors
/// See `outcome`.
pub(super) fn replicas(options: &ReplicasOptions) -> Result<(), Failure> {
    let key = options.key.bytes()?;
    let client = options.nodes.client(false)?;
    wait_for(async {
        match client.replicas(&key, options.versions).await {
            Ok(listed) if options.json => print_json(&listed),
            Ok(listed) => {
                let now_unix_ms = SystemClock::new().unix_ms();
                print_lines(replicas_lines(&listed, options.versions, now_unix_ms))
            }
            Err(error) => Err(reported(&error, failure_of(&error), options.json)?),
        }
    })
}

/// A line for each node, in the order of the preference list.
fn replicas_lines(listed: &KeyReplicas, has_versions: bool, now_unix_ms: u64) -> Vec<String> {
    let rows = listed.replicas.iter().enumerate().map(|(index, replica)| {
        let held = if has_versions {
            held_text(replica, now_unix_ms)
        } else {
            String::new()
        };
        let place = format!("{:>3}", index + 1);
        [place, replica.name.clone(), replica.url.clone(), held]
    });
    lines_of(Columns::Left, &rows.collect::<Vec<_>>())
}

/// What a node holds.
fn held_text(replica: &KeyReplica, now_unix_ms: u64) -> String {
    if let Some(missed) = &replica.missed {
        return format!("unknown: {missed}");
    }
    let mut text = match (&replica.kind, &replica.version) {
        (Some(kind), Some(version)) => {
            let bytes = replica.value_bytes;
            let bytes = bytes.map_or_else(String::new, |bytes| {
                format!(" of {}", counted(bytes, "byte"))
            });
            format!("{kind}{bytes}, version {version}")
        }
        _ => "nothing".to_owned(),
    };
    if let Some(copies) = replica.copies {
        let replicas = if copies == 1 { "replica" } else { "replicas" };
        text += &format!(", for {copies} {replicas}");
    }
    if let Some(expires) = &replica.expires {
        let is_over = rfc3339::unix_ms_of(expires).is_some_and(|expiry| expiry <= now_unix_ms);
        let verb = if is_over { "expired" } else { "expires" };
        text += &format!(", {verb} {expires}");
    }
    if replica.stale == Some(true) {
        text += ", stale";
    }
    text
}

fn print_written(
    what: &str,
    written: Result<EntityHead, Error>,
    repeats: WriteRepeats,
    json: bool,
) -> Result<(), Failure> {
    match written {
        Ok(head) if json => print_json(&head),
        Ok(head) => print_lines([written_line(what, &head)]),
        Err(error) => {
            let failure = failure_of_write(&error, repeats);
            Err(reported(&error, failure, json)?)
        }
    }
}

/// What became of a write, as a line.
fn written_line(what: &str, head: &EntityHead) -> String {
    let EntityHead { version, node, .. } = head;
    let acks = head.acks.as_deref().unwrap_or("unknown");
    let etag = head.etag.as_deref().map_or_else(String::new, |etag| {
        format!(", ETag {}", etag.trim_matches('"'))
    });
    format!("{what}: version {version}{etag}, acknowledged by {acks} replicas through {node}")
}

/// The failure, after it was printed if the user wants JSON.
fn reported(error: &Error, failure: Failure, json: bool) -> Result<Failure, Failure> {
    if json {
        print_failure(error, &failure)?;
    }
    Ok(failure)
}

/// The value that the options name.
fn value_of(options: &PutOptions) -> Result<Vec<u8>, Failure> {
    match (&options.value, &options.file) {
        (_, Some(file)) => read_file(file),
        (Some(value), None) if value == "-" => read(io::stdin().lock(), "stdin"),
        (Some(value), None) => Ok(value.as_bytes().to_vec()),
        (None, None) => Err(Failure::usage("give VALUE, or --file FILE, or - for stdin")),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a value to put is no part of a store"
)]
fn read_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let name = file.display().to_string();
    match std::fs::File::open(file) {
        Ok(opened) => read(opened, &name),
        Err(error) => Err(Failure::usage(format!(
            "--file: cannot open {name}: {error}"
        ))),
    }
}

fn read(from: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    let read = from.take(VALUE_BYTES_MAX + 1).read_to_end(&mut value);
    read.map_err(|error| Failure::other(format!("cannot read {name}: {error}")))?;
    match value.len() as u64 {
        ..=VALUE_BYTES_MAX => Ok(value),
        _ => Err(Failure::usage(format!(
            "{name} is longer than {VALUE_BYTES_MAX} bytes, which no node takes: store it in parts"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_what_became_of_a_request() {
        let head = EntityHead {
            node: "http://h:1".to_owned(),
            version: "9".to_owned(),
            etag: Some("\"0a-1b\"".to_owned()),
            acks: Some("2/3".to_owned()),
            expires: None,
        };
        assert_eq!(
            written_line("stored", &head),
            "stored: version 9, ETag 0a-1b, acknowledged by 2/3 replicas through http://h:1"
        );
        let replica = |name: &str, url: &str| KeyReplica {
            name: name.to_owned(),
            url: url.to_owned(),
            ..KeyReplica::default()
        };
        let mut listed = KeyReplicas {
            replicas: vec![replica("node-10", "http://h:1"), replica("b", "http://h:2")],
        };
        assert_eq!(
            replicas_lines(&listed, false, 0),
            ["  1  node-10  http://h:1", "  2  b        http://h:2"]
        );
        listed.replicas.push(replica("c", "http://h:30"));
        let text = |text: &str| Some(text.to_owned());
        listed.replicas[0].version = text("9");
        listed.replicas[0].kind = text("value");
        listed.replicas[0].value_bytes = Some(5);
        listed.replicas[0].copies = Some(3);
        listed.replicas[0].expires = text("2026-11-22T16:00:00Z");
        listed.replicas[1].stale = Some(true);
        listed.replicas[2].missed = text("timeout");
        assert_eq!(
            replicas_lines(&listed, true, 0),
            [
                "  1  node-10  http://h:1   value of 5 bytes, version 9, for 3 replicas, expires \
                 2026-11-22T16:00:00Z",
                "  2  b        http://h:2   nothing, stale",
                "  3  c        http://h:30  unknown: timeout",
            ]
        );
        let last = rfc3339::unix_ms_of("2026-11-22T16:00:00Z").unwrap();
        let later = replicas_lines(&listed, true, last);
        assert!(
            later[0].ends_with("expired 2026-11-22T16:00:00Z"),
            "{later:?}"
        );
        let document = EntityDocument::new(b"\xff", b"v", &head);
        assert_eq!(
            serde_json::to_string(&document).unwrap(),
            r#"{"key_base64":"/w==","value":"v","node":"http://h:1","version":"9","etag":"\"0a-1b\"","acks":"2/3"}"#
        );
    }
}
