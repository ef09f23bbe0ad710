//! `kvorum admin`: what an operator does with a running cluster.
//!
//! - `status`: asks a node how all nodes are, and prints what they say and what to do.
//! - `overview`: what it prints of them.
//! - `tombstone_gc`: how far tombstones are dropped.
//! - `screen`: the overview as text.
//! - `members`: shows and changes the list of members.
//! - `repair`: has a node compare all nodes now.
//! - `compact`: has nodes compact their stores now.
//! - `set_aside`: lists, restores and discards what a node has set aside.
//! - `backup`: has a node make, list, verify and prune backups of the cluster.
//! - `target`: the node that is asked; `waiting`: what is shown while it works.
//! - `check` is in `serve`, whose options it takes.
//! - `cert`: makes an authority and certificates of nodes.
//! - `token`: makes, lists and revokes tokens.

mod backup;
mod cert;
mod compact;
mod members;
mod overview;
mod repair;
mod screen;
mod set_aside;
mod status;
mod target;
mod token;
mod tombstone_gc;
mod waiting;

pub(crate) use cert::{NODE_DAYS, SigningAuthority, signing_failed, write_file};
pub(crate) use members::waits_for;

use crate::failure::Failure;
use crate::option_sources::Parsed;
use crate::serve::{self, ServeOptions};
use backup::BackupOptions;
use cert::CertCommand;
use clap::{Args, Subcommand};
use compact::CompactOptions;
use members::MembersOptions;
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
    /// Show the members of the cluster, and change them while it serves
    Members(Box<MembersOptions>),
    /// Have the nodes compare what they hold and send each other what is missing
    Repair(RepairOptions),
    /// Have nodes merge all of their tables now, which frees the space of overwritten, expired and
    /// deleted data
    Compact(CompactOptions),
    /// Back up the cluster at a target that its nodes know by name, and list, verify or prune backups
    Backup(Box<BackupOptions>),
    /// List, restore or discard the copies that a node has set aside, because they may have been
    /// deleted
    #[command(subcommand)]
    SetAside(SetAsideCommand),
    /// Check what a node needs before it is started: its options, certificates, tokens, addresses, limits,
    /// folder and disk, and the clocks of the others; takes the options of 'kvorum serve', also from the
    /// environment and the file of --config
    #[command(allow_negative_numbers = true)]
    Check(Box<ServeOptions>),
    /// Make the authority of a cluster, and the certificates of its nodes
    #[command(subcommand)]
    Cert(CertCommand),
    /// Make, list and revoke tokens for the clients of nodes with --tokens-file
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
pub(crate) fn run<P>(options: &AdminOptions, parsed: &Parsed<P>) -> Result<(), Failure> {
    match &options.command {
        AdminCommand::Status(options) => status::run(options),
        AdminCommand::Members(options) => members::run(options),
        AdminCommand::Repair(options) => repair::run(options),
        AdminCommand::Compact(options) => compact::run(options),
        AdminCommand::Backup(options) => backup::run(options),
        AdminCommand::SetAside(command) => set_aside::run(command),
        AdminCommand::Check(options) => serve::check(options, parsed),
        AdminCommand::Cert(command) => cert::run(command),
        AdminCommand::Token(command) => token::run(command),
    }
}
