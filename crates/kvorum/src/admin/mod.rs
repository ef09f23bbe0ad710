//! `kvorum admin`: what an operator does with a running cluster.
//!
//! - `status`: asks every node for its status, and prints what they say.
//! - `overview`: what the statuses of all nodes say together.
//! - `advice`: where an operator has to do something.
//! - `tombstone_gc`: how far what was deleted is forgotten.
//! - `table`: the overview as text.
//! - `sweep`: has a node compare all nodes now.
//! - `compact`: has nodes compact their stores now.
//! - `token`: makes a token, which `append_token` adds to the tokens file.

mod advice;
#[cfg(test)]
mod advice_tests;
mod append_token;
mod compact;
mod overview;
mod repair;
mod status;
mod table;
mod token;
mod tombstone_gc;

use crate::access::{Access, AccessOptions};
use crate::failure::Failure;
use crate::text;
use crate::values::url;
use clap::{Args, Subcommand};
use cluster::NodeUrl;
use serde::Serialize;
use std::io::{self, Write};
use token::TokenCommand;

/// The longest response that is read, in bytes: far above any status.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The options of `admin`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminOptions {
    #[command(subcommand)]
    command: AdminCommand,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
enum AdminCommand {
    /// Show how each node is, when it was last found equal with the others, and what to do; exit
    /// code 1 if something needs attention
    Status(StatusOptions),
    /// Have the nodes compare what they keep now, and send each other what is missing
    Repair(RepairOptions),
    /// Have nodes merge all of their tables now, which frees what is overwritten, expired or
    /// deleted
    Compact(CompactOptions),
    /// Make tokens, which clients need on nodes with --tokens-file
    #[command(subcommand)]
    Token(TokenCommand),
}

/// The node to ask.
#[derive(Args, Clone, Debug)]
struct Target {
    /// A node of the cluster
    #[arg(long = "target", value_parser = url, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: NodeUrl,
    #[command(flatten)]
    access: AccessOptions,
}

impl Target {
    /// Whom the command trusts, and how it shows who it is.
    ///
    /// # Errors
    /// See [`AccessOptions::access`].
    fn access(&self) -> Result<Access, Failure> {
        self.access.access([&self.url])
    }
}

/// The options of `admin status`.
#[derive(Args, Clone, Debug)]
struct StatusOptions {
    #[command(flatten)]
    target: Target,
    /// Print JSON for programs instead of a table
    #[arg(long)]
    json: bool,
}

/// The options of `admin repair`.
#[derive(Args, Clone, Debug)]
struct RepairOptions {
    #[command(flatten)]
    target: Target,
    /// Compare everything and verify every stored block, not only what has changed
    #[arg(long)]
    full: bool,
    /// Wait until the repair has ended, and say how; exit code 1 if the nodes are not equal
    #[arg(long)]
    wait: bool,
}

/// The options of `admin compact`.
#[derive(Args, Clone, Debug)]
struct CompactOptions {
    /// The names of the nodes to compact; all nodes if none is named
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    target: Target,
    /// Wait until the compactions have ended, and say what they freed
    #[arg(long)]
    wait: bool,
    /// Print JSON for programs instead of a line for each node
    #[arg(long)]
    json: bool,
}

#[cfg(test)]
impl AdminOptions {
    /// The options of `admin token new`, if they are that.
    fn new_token(&self) -> Option<&token::NewTokenOptions> {
        match &self.command {
            AdminCommand::Token(TokenCommand::New(options)) => Some(options),
            _ => None,
        }
    }
}

/// Does what the options say.
///
/// # Errors
/// A node that cannot be reached or refuses; a repair that was waited for and did not find
/// all nodes equal; a compaction that failed.
pub(crate) fn run(options: &AdminOptions) -> Result<(), Failure> {
    match &options.command {
        AdminCommand::Status(options) => status::run(options),
        AdminCommand::Repair(options) => repair::run(options),
        AdminCommand::Compact(options) => compact::run(options),
        AdminCommand::Token(command) => token::run(command),
    }
}

/// Writes JSON for programs to stdout.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    print(&format!("{json}\n"))
}

/// Writes lines for people to stdout.
fn print_lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), Failure> {
    print(&text::of_lines(lines))
}

/// Writes to stdout.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::failed(format!("cannot write to stdout: {error}")))
}
