//! Reports in a folder of the user's.

use crate::failure::{Failure, report_line};
use load::Run;
use load::report;
use load::results::BreakingPoint;
use std::io;
use std::path::Path;

/// Makes the folder, so that a wrong one is told before there is anything to lose.
///
/// # Errors
/// A folder that cannot be made.
pub(super) fn make_folder(directory: &Path) -> Result<(), Failure> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a folder for people, which has nothing to do with a store's disk"
    )]
    std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))
}

/// Writes the page of runs, and says where it is.
///
/// # Errors
/// A folder that cannot be written.
pub(super) fn write(directory: &Path, title: &str, runs: &[Run]) -> Result<(), Failure> {
    tell_of(directory, report::write(directory, title, runs))
}

/// Writes the page of a search, and says where it is.
///
/// # Errors
/// A folder that cannot be written.
pub(super) fn write_search(directory: &Path, found: &BreakingPoint) -> Result<(), Failure> {
    let title = title(&found.label);
    tell_of(directory, report::write_search(directory, &title, found))
}

/// The title of a search: its own name says what it is, another one need not.
fn title(label: &str) -> String {
    match label.strip_prefix("breaking point") {
        Some(rest) => format!("Breaking point{rest}"),
        None => format!("Breaking point: {label}"),
    }
}

fn tell_of(directory: &Path, written: io::Result<()>) -> Result<(), Failure> {
    written.map_err(|error| cannot_write(directory, &error))?;
    report_line(&format!(
        "the report is in {}",
        directory.join(report::PAGE).display()
    ));
    Ok(())
}

fn cannot_write(directory: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_called_a_breaking_point_once() {
        assert_eq!(title("breaking point of get"), "Breaking point of get");
        assert_eq!(title("three nodes"), "Breaking point: three nodes");
    }
}
