//! Why an experiment wrote no page.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// Why an experiment wrote no page. The page itself reports single measurements
/// that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text of the page does not fit to the results.
    #[error("{0}")]
    Page(String),
    /// The user stopped it.
    #[error("stopped early; no page was written")]
    Stopped,
    /// A node did not start, or ended by itself.
    #[error("{node}: {problem}")]
    Node {
        /// Its name.
        node: String,
        /// What happened, with the last line of its log if there is one.
        problem: String,
    },
    /// Something took longer than it should.
    #[error("timed out while waiting for {0}")]
    TimedOut(String),
    /// The load generator could not run.
    #[error("the load: {0}")]
    Load(String),
    /// A node did not answer as expected.
    #[error("{url}: {problem}")]
    Http {
        /// The requested URL.
        url: String,
        /// What went wrong.
        problem: String,
    },
    /// There are no certificates for the nodes.
    #[error("cannot make certificates: {0}")]
    Certificates(String),
    /// A file or folder of the laboratory could not be used.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The system refused something else.
    #[error("{what}: {error}")]
    System {
        /// What failed.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

impl Error {
    /// Wraps an error about a file or a folder.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    /// Wraps an error of the system.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    pub(crate) fn http(url: impl Into<String>, problem: &dyn Display) -> Self {
        Self::Http {
            url: url.into(),
            problem: problem.to_string(),
        }
    }
}
