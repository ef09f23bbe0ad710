//! `kvorum`: the command line.
//!
//! [`commands`] lists the commands. [`option_sources`] collects their options from the command line, the
//! environment and a file. [`serve`] runs a node, [`dev`] a local cluster of child processes,
//! [`entities`] reads and writes entities, [`profiling`] records a profile of a running node, and
//! [`admin`] shows a running cluster and starts repairs and compactions. [`context`] saves how to
//! reach a cluster. [`about`] tells the version, and makes what packages ship.
//!
//! [`exit_codes`] says what the exit codes mean. Each failure is one line on stderr, and text from
//! nodes is escaped when lines are written ([`text`]). These commands and those of `kvorum-lab`
//! share the crate [`cli`].

mod about;
mod admin;
mod commands;
mod context;
mod dev;
mod entities;
mod exit_codes;
mod logging;
mod node_client;
mod option_sources;
mod profiling;
mod resources;
mod serve;
mod stderr;

use clap::CommandFactory;
use cli::{access, failure, files, private_file, signals, stdout, text, threads, values};
use commands::{Cli, Command};
use failure::Failure;
use option_sources::EarlyExit;
use serve::ServeCommand;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: profile::Allocator<mimalloc::MiMalloc> =
    profile::Allocator::new(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let _last_words = stderr::LastWords;
    resources::use_small_pages();
    profile::survive_file_size_limit();
    profile::look_up_hosts_without_modules();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = std::env::vars_os();
    let parsed = option_sources::parse::<Cli>(&arguments, environment, &files::read);
    let ended = parsed.and_then(|parsed| match &parsed.program.command {
        Command::Node(ServeCommand::Serve(options)) => Ok(serve::run(options, &parsed)?),
        Command::Entities(command) => Ok(entities::run(command)?),
        Command::Dev(options) => dev::run(options),
        Command::Admin(options) => Ok(admin::run(options, &parsed)?),
        Command::Restore(options) => Ok(serve::restore(options)?),
        Command::Context(command) => Ok(context::run(command)?),
        Command::Profile(options) => Ok(profiling::run(options)?),
        Command::About(command) => Ok(about::run(command, exit_codes::in_help(Cli::command()))?),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(EarlyExit::Show(page)) => {
            let is_unread = |error: io::Error| error.kind() == io::ErrorKind::BrokenPipe;
            if page.print().is_err_and(is_unread) {
                return Failure::unread().report();
            }
            ExitCode::from(u8::try_from(page.exit_code()).unwrap_or(2))
        }
        Err(EarlyExit::Refuse(failure)) => failure.report(),
    }
}
