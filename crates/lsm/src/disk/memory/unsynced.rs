//! What a power cut may take.

use std::path::Path;

/// Something that was not yet durable when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced<'a> {
    /// The next change of a folder's names (a creation, renaming or removal).
    /// Asked in the order of the changes until the first that is lost: those
    /// after it are lost too.
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
        /// The page's number in the file; pages have 4 KiB.
        page: u64,
    },
}
