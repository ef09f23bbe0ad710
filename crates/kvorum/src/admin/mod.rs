//! `kvorum admin`: what an operator does with a running cluster.
//!
//! - `status`: asks a node how all nodes are, and prints what they say and what to do.
//! - `overview`: what it prints of them.
//! - `tombstone_gc`: how far tombstones are dropped.
//! - `screen`: the overview as text.
//! - `repair`: has a node compare all nodes now.
//! - `compact`: has nodes compact their stores now.
//! - `set_aside`: lists, restores and discards what a node has set aside.
//! - `target`: the node that is asked; `waiting`: what is shown while it works.
//! - `token`: makes a token, which `append_token` adds to the tokens file.

mod append_token;
mod compact;
mod overview;
mod repair;
mod screen;
mod set_aside;
mod status;
mod target;
mod token;
mod tombstone_gc;
mod waiting;

pub(crate) use target::{print, print_json, print_lines};

use crate::failure::Failure;
use clap::{Args, Subcommand};
use compact::CompactOptions;
use repair::RepairOptions;
use set_aside::SetAsideCommand;
use status::StatusOptions;
use token::TokenCommand;

/// The options of `admin`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminOptions {
    #[command(subcommand)]
    command: AdminCommand,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
enum AdminCommand {
    /// Show the state of each node, its last repair, and what to do; exit code 1 if something needs
    /// attention, 6 if there are only warnings, such as a certificate that expires soon
    Status(StatusOptions),
    /// Have the nodes compare what they hold and send each other what is missing
    Repair(RepairOptions),
    /// Have nodes merge all of their tables now, which frees the space of overwritten, expired and
    /// deleted data
    Compact(CompactOptions),
    /// List, restore or discard the copies that a node has set aside, because they may have been
    /// deleted
    #[command(subcommand)]
    SetAside(SetAsideCommand),
    /// Make tokens for the clients of nodes with --tokens-file
    #[command(subcommand)]
    Token(TokenCommand),
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
        AdminCommand::SetAside(command) => set_aside::run(command),
        AdminCommand::Token(command) => token::run(command),
    }
}
