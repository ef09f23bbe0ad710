//! `kvorum`: the command line.
//!
//! [`cli`] lists the commands. [`layers`] collects their options from the
//! command line, the environment and a file. [`serve`] runs a node, [`dev`] a
//! local cluster of child processes, [`entities`] reads and writes entities,
//! [`load`] is the load generator, [`profiling`] records a profile of a running
//! node, [`admin`] shows a running cluster and has its nodes compared, and
//! [`lab`] runs experiments on clusters of its own.
//!
//! [`exit_codes`] says what the exit codes mean. Each failure is one line on stderr, and what
//! may come from a node is escaped where lines are written ([`text`]).

mod access;
mod admin;
mod cli;
mod dev;
mod entities;
mod exit_codes;
mod failure;
mod files;
mod lab;
mod layers;
mod load;
mod logging;
mod node_client;
mod private_file;
mod profiling;
mod resources;
mod serve;
mod signals;
mod stderr;
mod text;
mod threads;
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
    let _last_words = stderr::LastWords;
    resources::use_small_pages();
    profile::survive_file_size_limit();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let environment = std::env::vars_os();
    let parsed = layers::parse::<Cli>(&arguments, environment, &files::read);
    let ended = parsed.and_then(|parsed| match &parsed.program.command {
        Command::Node(ServeCommand::Serve(options)) => Ok(serve::run(options, &parsed)?),
        Command::Entities(command) => Ok(entities::run(command)?),
        Command::Dev(options) => dev::run(options),
        Command::Admin(options) => Ok(admin::run(options)?),
        Command::Lab(options) => Ok(lab::run(options)?),
        Command::Profile(options) => Ok(profiling::run(options)?),
        Command::Load(options) => Ok(load::run(options)?),
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(EarlyExit::Show(page)) => {
            // A closed output is no reason to fail.
            let _ = page.print();
            ExitCode::from(u8::try_from(page.exit_code()).unwrap_or(2))
        }
        Err(EarlyExit::Refuse(failure)) => failure.report(),
    }
}
