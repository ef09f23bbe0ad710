//! Room for open files: each connection is one.

use crate::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the process has open beside its connections.
const OTHER_FILES: u64 = 64;

/// Sees to it that `connections` can be open at a time.
///
/// # Errors
/// [`Error::Plan`] when the system does not allow so many.
pub(crate) fn allow(connections: usize) -> Result<(), Error> {
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
        "{connections} connections need {needed} open files, and the system allows {most}: \
         use fewer, or raise it with ulimit -n"
    )))
}
