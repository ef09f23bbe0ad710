//! What the program says of itself: its version and formats (`version`), and what packages ship,
//! completions for shells and manual pages. These come from the definition of the command line,
//! which the caller passes, so they cannot name what does not exist.

mod version;

use crate::failure::Failure;
use crate::stdout::print;
use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use version::VersionOptions;

/// What to say.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AboutCommand {
    /// Print the version, the commit, and the formats of files that this program writes and reads
    Version(VersionOptions),
    /// Print the script that completes commands and options in a shell
    Completions(CompletionsOptions),
    /// Write the manual page of each command
    Man(ManOptions),
}

/// The options of `completions`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// The options of `man`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ManOptions {
    /// The folder for the pages; created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Does what `command` says, with the definition of the whole program.
///
/// # Errors
/// A folder or an output that cannot be written.
pub(crate) fn run(command: &AboutCommand, program: Command) -> Result<(), Failure> {
    match command {
        AboutCommand::Version(options) => version::run(options),
        AboutCommand::Completions(options) => print(&completions(options.shell, program)),
        AboutCommand::Man(options) => write_pages(&options.folder, program).map_err(|error| {
            let folder = options.folder.display();
            Failure::failed(format!("cannot write the pages to {folder}: {error}"))
        }),
    }
}

fn completions(shell: Shell, mut program: Command) -> String {
    let name = program.get_name().to_owned();
    // Writing to memory does not fail, where the generator would panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the folder of the pages is not part of a store"
)]
fn write_pages(folder: &Path, program: Command) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program.disable_help_subcommand(true), folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;
    use std::process::Command as Process;

    /// The names of a command and of all below it, with hyphens, and the commands.
    fn all(name: &str, command: &Command) -> Vec<(String, Command)> {
        let below = command.get_subcommands();
        let below = below.flat_map(|one| all(&format!("{name}-{}", one.get_name()), one));
        std::iter::once((name.to_owned(), command.clone()))
            .chain(below)
            .collect()
    }

    #[test]
    fn bash_completes_commands_and_options() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kvorum");
        #[expect(
            clippy::disallowed_methods,
            reason = "the script is not part of a store"
        )]
        std::fs::write(&file, completions(Shell::Bash, Cli::command())).unwrap();
        for (words, completed) in [
            (&["kvorum", "ser"][..], "serve"),
            (&["kvorum", "serve", "--read-t"], "--read-threads"),
            (&["kvorum", "admin", "sta"], "status"),
            (&["kvorum", "completions", "z"], "zsh"),
        ] {
            let last = words.len() - 1;
            let script = format!(
                "source {} && COMP_WORDS=({}) COMP_CWORD={last} && _kvorum kvorum {} {} && echo \
                 \"${{COMPREPLY[@]}}\"",
                file.display(),
                words.join(" "),
                words[last],
                words[last - 1],
            );
            let output = Process::new("bash").args(["-c", &script]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said.trim(), completed, "{words:?}: {output:?}");
        }
    }

    #[test]
    fn completions_of_other_shells_know_every_command() {
        let program = Cli::command();
        for shell in [Shell::Zsh, Shell::Fish] {
            let script = completions(shell, program.clone());
            for (name, command) in all("kvorum", &program) {
                assert!(script.contains(command.get_name()), "{shell}: {name}");
            }
        }
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder of the pages is not part of a store"
    )]
    fn every_command_has_a_page_with_its_options_and_exit_codes() {
        let folder = tempfile::tempdir().unwrap();
        let pages = folder.path().join("man1");
        let program = crate::exit_codes::in_help(Cli::command());
        write_pages(&pages, program.clone()).unwrap();
        let read = |page: &Path| std::fs::read_to_string(page).unwrap();
        let all = all("kvorum", &program);
        for (name, command) in &all {
            let page = read(&pages.join(format!("{name}.1")));
            assert!(page.contains("Exit codes"), "{name}: {page}");
            let options = command.get_arguments().filter(|one| !one.is_hide_set());
            for option in options.filter_map(clap::Arg::get_long) {
                let option = format!("\\-\\-{}", option.replace('-', "\\-"));
                assert!(page.contains(&option), "{name}: no {option}: {page}");
            }
        }
        assert_eq!(std::fs::read_dir(&pages).unwrap().count(), all.len());
    }
}
