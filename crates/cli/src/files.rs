//! The files that options name.

use std::io;
use std::path::Path;

/// Returns the text of a file.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Reads a file of this machine.
///
/// # Errors
/// Those of the system, and of text that is not UTF-8.
pub fn read(file: &Path) -> io::Result<String> {
    std::fs::read_to_string(file)
}
