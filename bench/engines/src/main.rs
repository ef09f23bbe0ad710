//! Kvorum's engine beside RocksDB and fjall, in one run and on equal terms.
//!
//! `engines run` measures and writes the page. Each task runs in its own process, so that
//! the memory and the processor time of the process are those of the task. Reading order:
//! `terms`, `store`, `task`, `measure`, `part`, `campaign`, `profiles`, `page`.

mod campaign;
mod data;
mod measure;
mod page;
mod part;
mod profiles;
mod results;
mod store;
mod task;
mod terms;
mod usage;

use campaign::{Campaign, Effort};
use clap::{Args, Parser, Subcommand};
use part::Part;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::Failure;

/// The allocator of all three engines: it also replaces that of RocksDB's C++.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure, and write the page from all results
    Run(RunArguments),
    /// Write the page anew from the results of earlier runs
    Page(PageArguments),
    /// Do one task, given as JSON, in this process
    #[command(hide = true)]
    Task {
        /// The task
        task: String,
        /// The file for a flame graph of the task's processor time
        #[arg(long, value_name = "FILE")]
        flame_graph: Option<PathBuf>,
    },
}

#[derive(Args)]
struct RunArguments {
    /// Only this part; may be given several times [default: all but `big`]
    #[arg(long = "part", value_name = "PART")]
    parts: Vec<Part>,
    /// How often each engine does each task; the page has the medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Ten times as many keys, and longer reads
    #[arg(long)]
    full: bool,
    /// The folder of the temporary stores, on the disk to measure
    #[arg(long, value_name = "FOLDER", default_value = "data")]
    data: PathBuf,
    #[command(flatten)]
    page: PageArguments,
}

#[derive(Args)]
struct PageArguments {
    /// The folder of the results
    #[arg(long, value_name = "FOLDER", default_value = "results")]
    results: PathBuf,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "../../docs/lab/engines.md")]
    page: PathBuf,
}

fn main() -> ExitCode {
    let done = match CommandLine::parse().command {
        Command::Run(arguments) => run(arguments),
        Command::Page(arguments) => write_page(&arguments),
        Command::Task { task, flame_graph } => do_task(&task, flame_graph.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engines: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: RunArguments) -> Result<(), Failure> {
    if cfg!(all(target_arch = "x86_64", not(target_feature = "sse4.2"))) {
        return Err(
            "RocksDB was compiled without this processor's instructions and would seem too \
             slow: build in the folder bench/engines, without RUSTFLAGS"
                .into(),
        );
    }
    let campaign = Campaign {
        effort: if arguments.full {
            Effort::Full
        } else {
            Effort::Quick
        },
        rounds: arguments.rounds,
        folder: arguments.data,
        results: arguments.page.results.clone(),
    };
    campaign::check_folder(&campaign.folder)?;
    let parts = if arguments.parts.is_empty() {
        Part::SHORT.to_vec()
    } else {
        arguments.parts
    };
    for part in parts {
        campaign.run(part)?;
    }
    write_page(&arguments.page)
}

fn write_page(arguments: &PageArguments) -> Result<(), Failure> {
    let parts = Part::ALL.map(|part| Ok((part, results::read(&arguments.results, part)?)));
    let parts = parts.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    if parts
        .iter()
        .all(|(_, measurements)| measurements.is_empty())
    {
        let folder = arguments.results.display();
        return Err(format!("{folder} holds no results: `engines run` makes them").into());
    }
    page::write(&arguments.page, &arguments.results, &parts)
}

fn do_task(task: &str, flame_graph: Option<&Path>) -> Result<(), Failure> {
    let measurement = measure::measure(serde_json::from_str(task)?, flame_graph)?;
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(())
}
