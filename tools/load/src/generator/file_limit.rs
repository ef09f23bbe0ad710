//! The limit of open files: each connection is a file.

use crate::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the process has open in addition to its connections.
const OTHER_FILES: u64 = 64;

/// Raises the limit of open files so that `connections` can be open at the same
/// time.
///
/// # Errors
/// [`Error::Plan`] if the system does not allow that many.
pub(crate) fn raise_for(connections: usize) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let needed = connections as u64 + OTHER_FILES;
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let is_enough = |most: Option<u64>| most.is_none_or(|most| most >= needed);
    if is_enough(limit.current)
        || (is_enough(limit.maximum) && setrlimit(Resource::Nofile, raised).is_ok())
    {
        return Ok(());
    }
    let most = limit.maximum.unwrap_or(u64::MAX);
    Err(Error::plan(format!(
        "{connections} connections need {needed} open files, but the system allows {most}: use \
         fewer connections, or raise the limit with ulimit -n"
    )))
}
