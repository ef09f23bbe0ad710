//! `kvorum-lab`: measures nodes.
//!
//! [`load`] generates load on nodes that run. [`lab`] runs experiments on nodes of its own,
//! and writes a page about each; `report`
//! writes pages again. Both do their work on another thread, while
//! [`until_stopped`] waits for signals. The program is apart from `kvorum`, so that a node
//! neither contains nor waits to be built with what draws plots.

mod commands;
mod exit_codes;
mod lab;
mod load;
mod until_stopped;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use cli::failure::Failure;
use commands::{Command, Program};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::text::report_as(env!("CARGO_BIN_NAME"));
    // Who first touches a huge page waits for the kernel to zero it, and would measure that.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let parsed = commands::with_help()
        .try_get_matches()
        .and_then(|matches| Program::from_arg_matches(&matches));
    let ended = match parsed {
        Ok(program) => match program.command {
            Command::Lab(options) => lab::run(&options),
            Command::Report(options) => lab::report(&options),
            Command::Load(options) => load::run(&options),
        },
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                // A closed output is no reason to fail.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
            _ => Err(Failure::from_clap(&error)),
        },
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
