//! Changes that a power cut may undo.

use std::path::Path;

/// A change that was not durable at the power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced<'a> {
    /// The next change of a folder's names: a creation, a renaming or a removal. Changes
    /// are decided in their order; after the first that is lost, the rest is lost too.
    Change {
        /// The folder.
        folder: &'a Path,
    },
    /// A file's new length.
    Length {
        /// The file, by its name after the crash.
        file: &'a Path,
    },
    /// What was written to a page of a file.
    Page {
        /// The file, by its name after the crash.
        file: &'a Path,
        /// The page's number in the file. A page has 4 KiB.
        page: u64,
    },
}
