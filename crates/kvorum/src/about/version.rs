//! `kvorum version`: which build this is, and what it writes and reads.

use crate::failure::Failure;
use crate::stdout::{print_json, print_lines};
use clap::Args;
use serde::Serialize;
use server::{FEATURES, Format, formats};
use std::collections::BTreeMap;
use units::{Columns, lines_of};

/// The commit of a release, which its build sets; no other build knows its commit.
const COMMIT: Option<&str> = option_env!("KVORUM_COMMIT");

/// The options of `version`.
#[derive(Args, Clone, Debug)]
pub(crate) struct VersionOptions {
    /// Print JSON for programs, with the features of the protocol between nodes
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Build {
    version: &'static str,
    commit: Option<&'static str>,
    /// What nodes of this build can do together, beyond the version of their protocol.
    features: Vec<&'static str>,
    formats: BTreeMap<&'static str, Versions>,
}

/// The versions of a format.
#[derive(Serialize)]
struct Versions {
    reads_from: u32,
    writes: u32,
}

/// Prints it.
///
/// # Errors
/// An output that cannot be written.
pub(super) fn run(options: &VersionOptions) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if options.json {
        return print_json(&Build {
            version,
            commit: COMMIT,
            features: FEATURES.iter().map(|(name, _)| *name).collect(),
            formats: formats().iter().map(versions).collect(),
        });
    }
    let commit = COMMIT.map(|commit| format!(", commit {commit}"));
    let first = format!("kvorum {version}{}", commit.unwrap_or_default());
    let titles = ["format", "writes", "reads from"].map(str::to_owned);
    let rows = formats().into_iter().map(|format| {
        let (name, Versions { reads_from, writes }) = versions(&format);
        [name.to_owned(), writes.to_string(), reads_from.to_string()]
    });
    let table: Vec<_> = std::iter::once(titles).chain(rows).collect();
    let table = lines_of(Columns::NameAndFigures, &table);
    print_lines([first, String::new()].into_iter().chain(table))
}

fn versions(format: &Format) -> (&'static str, Versions) {
    let (reads_from, writes) = (*format.versions.start(), *format.versions.end());
    (format.name, Versions { reads_from, writes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_files_has_the_versions_of_all_formats() {
        let rows = formats().into_iter().map(|format| {
            let (name, Versions { reads_from, writes }) = versions(&format);
            format!("| `{name}` | {writes} | {reads_from} |\n")
        });
        let rows: String = rows.collect();
        let table = format!("| format | writes | reads from |\n|---|---|---|\n{rows}\n");
        let page = include_str!("../../../../docs/reference/files.md");
        assert!(
            page.contains(&table),
            "put this into docs/reference/files.md, and what changes for operators into \
             CHANGELOG.md:\n{table}"
        );
    }
}
