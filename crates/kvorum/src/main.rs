//! `kvorum`: the command line.
//!
//! [`cli`] lists the commands; each has its options with it. [`layers`] gathers
//! the values of those from the command line, the environment and a file; then
//! [`serve`] runs a node, [`dev`] a local cluster of child processes, [`load`] a load
//! generator, [`profiling`] asks a running node what it spends its time on, and
//! [`lab`] makes experiments on clusters of its own.
//!
//! Exit codes: 0 for a command that did what it should, 1 for one that failed,
//! 2 for one that was given wrongly, 130 and 143 for one that SIGINT or SIGTERM
//! ended before its time. Whatever goes wrong is one line on stderr.

mod cli;
mod dev;
mod failure;
mod files;
mod lab;
mod layers;
mod load;
mod logging;
mod profiling;
mod resources;
mod serve;
mod signals;
mod values;

use cli::{Cli, Command};
use layers::EarlyExit;
use serve::ServeCommand;
use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: profile::Allocator<mimalloc::MiMalloc> =
    profile::Allocator::new(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = std::env::vars_os();
    let parsed = layers::parse::<Cli>(&arguments, environment, &files::read);
    let ended = parsed.and_then(|parsed| match &parsed.program.command {
        Command::Node(ServeCommand::Serve(options)) => Ok(serve::run(options, &parsed)?),
        Command::Dev(options) => dev::run(options),
        Command::Lab(options) => Ok(lab::run(options)?),
        Command::Profile(options) => Ok(profiling::run(options)?),
        Command::Load(options) => Ok(load::run(options)?),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(EarlyExit::Show(page)) => {
            // Who closed the output does not want the page.
            let _ = page.print();
            ExitCode::from(u8::try_from(page.exit_code()).unwrap_or(2))
        }
        Err(EarlyExit::Refuse(failure)) => failure.report(),
    }
}
