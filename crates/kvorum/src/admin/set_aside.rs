//! `kvorum admin set-aside`: what a node has set aside, because it may have been deleted.

use super::target::{ANSWER_BYTES_MAX, Target, is_confirmed, query_form};
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::{print, print_lines};
use base::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand};
use client::{parse_percent, percent_form};
use cluster::NodeUrl;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use units::{bytes, counted};

/// How long a node may take for a page, or to discard.
const ANSWER_MAX: Duration = Duration::from_secs(300);

const LIST_HELP: &str = "\
The last column says whether another node holds this version of the key, or a newer one:
  elsewhere  one does: nothing is missing
  nowhere    none does: the copy was deleted, or it is the last one of what is lost
  unknown    a node does not answer: start all nodes, and list again

Examples:
  kvorum admin set-aside list --url http://b:8080
  kvorum admin set-aside list --url http://b:8080 | grep nowhere";

const RESTORE_HELP: &str = "\
A restored copy is an ordinary write with a new version. If its key was deleted, it comes back.

Examples:
  kvorum admin set-aside restore cart/1 cart/2 --url http://b:8080
  kvorum admin set-aside restore --all --url http://b:8080";

/// What to do with copies that were set aside.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum SetAsideCommand {
    /// List the copies that a node has set aside: the key, when it was written, its version, its
    /// length, and whether another node holds it
    #[command(after_help = LIST_HELP)]
    List(ListOptions),
    /// Write copies anew that no other node holds; each gets a new version
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreOptions),
    /// Discard all that a node has set aside, for good
    Discard(DiscardOptions),
}

/// The options of `admin set-aside list`.
#[derive(Args, Clone, Debug)]
pub(super) struct ListOptions {
    /// Print JSON for programs, a line for each copy
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin set-aside restore`.
#[derive(Args, Clone, Debug)]
pub(super) struct RestoreOptions {
    /// The keys, as `list` prints them: %00 is a zero byte, %25 is a percent sign
    #[arg(value_name = "KEY", required_unless_present = "all")]
    keys: Vec<String>,
    /// Restore all copies that no other node holds
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    #[command(flatten)]
    target: Target,
}

/// The options of `admin set-aside discard`.
#[derive(Args, Clone, Debug)]
pub(super) struct DiscardOptions {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    target: Target,
}

/// A page of the list.
#[derive(Debug, Deserialize)]
struct Page {
    tables: u64,
    bytes: u64,
    below: Option<String>,
    copies: Vec<Copy>,
    next: Option<String>,
    next_base64: Option<String>,
}

/// A copy.
#[derive(Debug, Deserialize, Serialize)]
struct Copy {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    value_bytes: u64,
    copies: u8,
    found: String,
}

/// Does what the command says.
///
/// # Errors
/// The node cannot be reached, or refuses.
pub(super) fn run(command: &SetAsideCommand) -> Result<(), Failure> {
    match command {
        SetAsideCommand::List(options) => list(options),
        SetAsideCommand::Restore(options) => restore(options),
        SetAsideCommand::Discard(options) => discard(options),
    }
}

fn list(options: &ListOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let mut count: u64 = 0;
    let first = each_copy(&node, &access, |copy| {
        count += 1;
        if options.json {
            let line = serde_json::to_string(copy);
            let line =
                line.map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
            print(&format!("{line}\n"))
        } else {
            print_lines([copy.line()])
        }
    })?;
    if options.json {
        return Ok(());
    }
    print_lines([match first.below {
        None => nothing_set_aside(&node),
        Some(_) => format!(
            "{}; {node} keeps {} with {} until you run 'kvorum admin set-aside discard'",
            counted(count, "key"),
            counted(first.tables, "table"),
            bytes(first.bytes as f64)
        ),
    }])
}

fn restore(options: &RestoreOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    if !options.all {
        for key in &options.keys {
            let broken = || {
                Failure::usage(format!(
                    "the key {key} has a broken percent escape: write % and two hexadecimal digits"
                ))
            };
            restore_key(
                &node,
                &access,
                &parse_percent(key.as_bytes()).ok_or_else(broken)?,
            )?;
        }
        return Ok(());
    }
    let (mut restored, mut unknown) = (0_u64, 0_u64);
    each_copy(&node, &access, |copy| {
        match copy.found.as_str() {
            "nowhere" => {
                restore_key(&node, &access, &copy.key()?)?;
                restored += 1;
            }
            "unknown" => unknown += 1,
            _ => {}
        }
        Ok(())
    })?;
    if unknown > 0 {
        return Err(Failure::failed(format!(
            "restored {}; of {unknown} more it is not known whether another node holds something \
             newer: try again once all nodes are up",
            counted(restored, "key")
        )));
    }
    print_lines([format!("restored {}", counted(restored, "key"))])
}

fn restore_key(node: &NodeUrl, access: &Access, key: &[u8]) -> Result<(), Failure> {
    let target = format!("/v0/admin/set-aside?id={}", query_form(key));
    let restored = send(node, access, "POST", &target, 201)
        .map_err(|failure| failure.with_origin(&percent_form(key)))?;
    let version = restored["version"].as_str().unwrap_or_default();
    print_lines([format!(
        "restored {} as version {version}",
        percent_form(key)
    )])
}

fn discard(options: &DiscardOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let page = page(&node, &access, b"", 1)?;
    let Some(below) = page.below else {
        return print_lines([nothing_set_aside(&node)]);
    };
    let what = format!(
        "{} with {}",
        counted(page.tables, "table"),
        bytes(page.bytes as f64)
    );
    let question = format!("Discard {what}? Copies in it that no other node has are lost then.");
    if !options.yes && !is_confirmed(&question)? {
        return Err(Failure::failed(
            "nothing was discarded: the answer has to be yes, or give --yes".to_owned(),
        ));
    }
    let target = format!("/v0/admin/set-aside?up_to={below}");
    send(&node, &access, "DELETE", &target, 200)?;
    print_lines([format!("discarded {what}")])
}

fn nothing_set_aside(node: &NodeUrl) -> String {
    format!("{node} has set nothing aside; name another node with --url to ask it")
}

/// Gives all copies of a node, page by page. Returns the first page.
fn each_copy(
    node: &NodeUrl,
    access: &Access,
    mut give: impl FnMut(&Copy) -> Result<(), Failure>,
) -> Result<Page, Failure> {
    let first = page(node, access, b"", 1000)?;
    first.copies.iter().try_for_each(&mut give)?;
    let mut next = first.next_key()?;
    while let Some(start) = next {
        let page = page(node, access, &start, 1000)?;
        page.copies.iter().try_for_each(&mut give)?;
        next = page.next_key()?;
    }
    Ok(first)
}

fn page(node: &NodeUrl, access: &Access, start: &[u8], limit: u64) -> Result<Page, Failure> {
    let start = match start {
        [] => String::new(),
        start => format!("&start={}", query_form(start)),
    };
    let target = format!("/v0/admin/set-aside?limit={limit}{start}");
    let json = send(node, access, "GET", &target, 200)?;
    Page::deserialize(&json).map_err(|error| other_server(node, &error))
}

fn send(
    node: &NodeUrl,
    access: &Access,
    method: &str,
    target: &str,
    status: u16,
) -> Result<serde_json::Value, Failure> {
    let request = NodeRequest {
        node,
        access,
        is_named: true,
        method,
        target,
        headers: &[("Content-Type", "application/json")],
        time_max: ANSWER_MAX,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = request.send()?;
    if answer.status != status {
        return Err(refusal(node, answer.status, &answer.body));
    }
    serde_json::from_slice(&answer.body).map_err(|error| other_server(node, &error))
}

fn other_server(node: &NodeUrl, error: &serde_json::Error) -> Failure {
    Failure::failed(format!("{node} does not answer as a Kvorum node: {error}"))
}

fn bytes_of(text: Option<&str>, base64: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    match (text, base64) {
        (Some(text), _) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(base64)) => BASE64
            .decode(base64)
            .map(Some)
            .map_err(|error| Failure::failed(format!("the node has written no base64: {error}"))),
        (None, None) => Ok(None),
    }
}

impl Page {
    fn next_key(&self) -> Result<Option<Vec<u8>>, Failure> {
        bytes_of(self.next.as_deref(), self.next_base64.as_deref())
    }
}

impl Copy {
    fn key(&self) -> Result<Vec<u8>, Failure> {
        let key = bytes_of(self.key.as_deref(), self.key_base64.as_deref())?;
        Ok(key.unwrap_or_default())
    }

    /// The copy as a line, with tabs: key, when it was written, version, bytes, and where it was
    /// found.
    fn line(&self) -> String {
        let key = self
            .key()
            .map_or_else(|_| "?".to_owned(), |key| percent_form(&key));
        let version = self.version.parse().map(Timestamp::from_u64);
        let written = version.map_or_else(
            |_| "?".to_owned(),
            |version| api::rfc3339::of_unix_ms(version.unix_ms()),
        );
        format!(
            "{key}\t{written}\t{}\t{}\t{}",
            self.version,
            bytes(self.value_bytes as f64),
            self.found
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_a_line_with_a_key_that_restore_takes() {
        for (key, text) in [
            (r#""key":"a b%""#, "a b%25"),
            (r#""key_base64":"/w==""#, "%FF"),
        ] {
            let json =
                format!(r#"{{{key},"version":"9","value_bytes":7,"copies":3,"found":"nowhere"}}"#);
            let copy: Copy = serde_json::from_str(&json).unwrap();
            let expected = format!("{text}\t2020-01-01T00:00:00Z\t9\t7 B\tnowhere");
            assert_eq!(copy.line(), expected);
            assert_eq!(parse_percent(text.as_bytes()), Some(copy.key().unwrap()));
        }
    }
}
