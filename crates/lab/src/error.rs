//! Why an experiment has no page.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

/// Why an experiment has no page. What a single probe of it could not measure
/// is told in the page instead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was told to stop.
    #[error("stopped before it was done; no page was written")]
    Stopped,
    /// A node did not start, or ended by itself.
    #[error("{node}: {problem}")]
    Node {
        /// Its name.
        node: String,
        /// What happened, with its own last line where there is one.
        problem: String,
    },
    /// Something took longer than it ever should.
    #[error("waited in vain: {0}")]
    TimedOut(String),
    /// The load generator could not run.
    #[error("the load: {0}")]
    Load(String),
    /// A node did not answer as it should.
    #[error("{url}: {problem}")]
    Http {
        /// What was asked.
        url: String,
        /// What came of it.
        problem: String,
    },
    /// A file or folder of the laboratory's own.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Something else that the system refused.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

impl Error {
    /// The failure of something that was tried with a file or a folder.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    /// The failure of something that was asked of the system.
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
