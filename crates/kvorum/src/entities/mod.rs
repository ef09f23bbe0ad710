//! `kvorum get`, `put`, `delete`, `ring`: what a user does with entities. The crate
//! `client` speaks with the nodes; the code here reads options and writes outputs.
//!
//! - `options`: what the commands have in common: nodes, replicas, keys.
//! - `single`: the commands for one key.
//! - `outcome`: which exit code and which line each failure becomes.
//! - `output`: stdout.

mod options;
mod outcome;
mod output;
mod single;

use crate::failure::Failure;
use clap::Subcommand;
use single::{DeleteOptions, GetOptions, PutOptions, RingOptions};

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum EntityCommand {
    /// Read the value of a key and write its bytes to stdout
    #[command(after_help = single::GET_HELP)]
    Get(GetOptions),
    /// Give a key a value
    #[command(after_help = single::PUT_HELP, allow_negative_numbers = true)]
    Put(PutOptions),
    /// Delete a key
    #[command(after_help = single::DELETE_HELP)]
    Delete(DeleteOptions),
    /// Show which nodes hold a key
    #[command(after_help = single::RING_HELP)]
    Ring(RingOptions),
}

/// Does what the options say.
///
/// # Errors
/// See `outcome`.
pub(crate) fn run(command: &EntityCommand) -> Result<(), Failure> {
    match command {
        EntityCommand::Get(options) => single::get(options),
        EntityCommand::Put(options) => single::put(options),
        EntityCommand::Delete(options) => single::delete(options),
        EntityCommand::Ring(options) => single::ring(options),
    }
}

/// Waits for a request.
fn wait_for<T>(request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| Failure::other(format!("cannot start a runtime: {error}")))?;
    let done = runtime.block_on(request);
    // What still reads a slow file must not hold the end of the program back.
    runtime.shutdown_background();
    done
}
