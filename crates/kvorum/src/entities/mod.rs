//! `kvorum get`, `put`, `touch`, `delete`, `replicas`, `scan`, `import`, `export`: commands for entities.
//! The crate `client` talks to the nodes; this code reads options, and reads and writes files.
//!
//! - `options`, `key_range`: what the commands have in common: nodes, replicas, keys.
//! - `single`: the commands for single keys; `deletion`: that of all keys with a prefix.
//! - `scan`, `import`, `export`: those for many; `aggregate`: what `scan` computes instead; `files`: their files.
//! - `outcome`: which exit code and which line each failure becomes.
//! - `output`: stdout; `waiting`: waits for requests.

mod aggregate;
mod compression;
mod deletion;
mod export;
mod files;
mod import;
mod key_range;
mod options;
mod outcome;
mod output;
mod scan;
mod single;
mod waiting;

use crate::failure::Failure;
use clap::Subcommand;
use export::ExportOptions;
use import::ImportOptions;
use scan::ScanOptions;
use single::{DeleteOptions, GetOptions, PutOptions, ReplicasOptions, TouchOptions};

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum EntityCommand {
    /// Read the value of a key and write its bytes to stdout, or print several keys
    #[command(after_help = single::GET_HELP)]
    Get(GetOptions),
    /// Give a key a value
    #[command(after_help = single::PUT_HELP, allow_negative_numbers = true)]
    Put(PutOptions),
    /// Change when the value of a key expires
    #[command(after_help = single::TOUCH_HELP)]
    Touch(TouchOptions),
    /// Delete a key, or all keys with a prefix
    #[command(after_help = single::DELETE_HELP)]
    Delete(DeleteOptions),
    /// Show which nodes hold a key
    #[command(after_help = single::REPLICAS_HELP)]
    Replicas(ReplicasOptions),
    /// Print the entities of a range of keys
    #[command(after_help = scan::HELP, mut_arg("timeout", scan::with_silence_default))]
    Scan(Box<ScanOptions>),
    /// Store the entities of a file with lines of JSON
    #[command(after_help = import::HELP)]
    Import(ImportOptions),
    /// Write the entities of the cluster to a file, as lines of JSON
    #[command(after_help = export::HELP, mut_arg("timeout", scan::with_silence_default))]
    Export(ExportOptions),
}

/// Does what the options say.
///
/// # Errors
/// See `outcome`.
pub(crate) fn run(command: &EntityCommand) -> Result<(), Failure> {
    match command {
        EntityCommand::Get(options) => single::get(options),
        EntityCommand::Put(options) => single::put(options),
        EntityCommand::Touch(options) => single::touch(options),
        EntityCommand::Delete(options) => single::delete(options),
        EntityCommand::Replicas(options) => single::replicas(options),
        EntityCommand::Scan(options) => scan::run(options),
        EntityCommand::Import(options) => import::run(options),
        EntityCommand::Export(options) => export::run(options),
    }
}
