//! Writes reports to a folder of the user.

use cli::failure::Failure;
use cli::text::report_line;
use load::Run;
use load::report;
use load::results::BreakingPoint;
use std::io;
use std::path::Path;

/// Creates the folder before the load, so that no measurement is lost if it
/// cannot be created.
///
/// # Errors
/// The folder cannot be created.
pub(super) fn make_folder(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))
}

/// Writes the page about runs, and prints its path.
///
/// # Errors
/// A folder that cannot be written.
pub(super) fn write(directory: &Path, title: &str, runs: &[Run]) -> Result<(), Failure> {
    print_path(directory, report::write(directory, title, runs))
}

/// Writes the page about a search, and prints its path.
///
/// # Errors
/// A folder that cannot be written.
pub(super) fn write_search(directory: &Path, found: &BreakingPoint) -> Result<(), Failure> {
    let title = title(&found.label);
    print_path(directory, report::write_search(directory, &title, found))
}

/// The title of a search. A default label already says that it is a breaking
/// point.
fn title(label: &str) -> String {
    match label.strip_prefix("breaking point") {
        Some(rest) => format!("Breaking point{rest}"),
        None => format!("Breaking point: {label}"),
    }
}

fn print_path(directory: &Path, written: io::Result<()>) -> Result<(), Failure> {
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
