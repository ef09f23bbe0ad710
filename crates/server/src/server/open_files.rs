//! The process's limit of open files, and how many connections it allows.
//!
//! A store that cannot open files fails writes, and a node that cannot accept connections fails its
//! probes. So the store gets half of what the node's fixed needs leave, but no more than
//! [`STORE_MAX`], and connections get the rest.

use crate::config::ServerConfig;
use crate::net::connection_slots::{PEER_CONNECTIONS, UNAUTHENTICATED_MAX};
use crate::start_error::FewOpenFiles;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a node opens once: listeners, its log, the files beside its store, and those that it
/// reads again.
const ONCE: u64 = 32;

/// What each thread with a scheduler opens: the selector, its waker, and the end of signals.
const A_SCHEDULER: u64 = 4;

/// Threads with a scheduler beside the runtimes: the acceptor, and that of the process.
const OTHER_SCHEDULERS: u64 = 2;

/// How many files of the store keep connections away. A larger store needs a higher limit.
const STORE_MAX: u64 = 2048;

/// What connections need at least: some of clients, and some beyond.
const CONNECTIONS_MIN: u64 = 16;

/// How many connections a node may have open, but those of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionBounds {
    /// Of clients.
    pub(crate) clients: usize,
    /// Unauthenticated ones, beyond those of clients.
    pub(crate) unauthenticated: usize,
}

/// Asks for as many open files as the system allows, and returns how many that is; `None`
/// without a limit.
pub(crate) fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit of open files; each connection and each \
         table needs one");
    }
    getrlimit(Resource::Nofile).current
}

impl ConnectionBounds {
    /// What of the configured connections fits into a limit of open files.
    ///
    /// # Errors
    /// The node cannot run with so few.
    pub(crate) fn within(limit: Option<u64>, config: &ServerConfig) -> Result<Self, FewOpenFiles> {
        let wanted = Self {
            clients: config.connections_max,
            unauthenticated: UNAUTHENTICATED_MAX,
        };
        let Some(limit) = limit else {
            return Ok(wanted);
        };
        let needed = needed(config);
        let left = limit.saturating_sub(needed);
        let connections = left - left.div_ceil(2).min(STORE_MAX);
        if connections < CONNECTIONS_MIN {
            let least = needed + 2 * CONNECTIONS_MIN;
            return Err(FewOpenFiles { limit, least });
        }
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let unauthenticated = wanted.unauthenticated.min(connections / 4);
        let clients = wanted.clients.min(connections - unauthenticated);
        Ok(Self {
            clients,
            unauthenticated,
        })
    }
}

/// What a node opens beside its tables and the connections of clients.
fn needed(config: &ServerConfig) -> u64 {
    let (threads, peers) = (config.threads, config.node.members.count() - 1);
    // One to each peer and some from it, at each runtime.
    let links = threads * usize::from(peers) * (1 + PEER_CONNECTIONS);
    let schedulers = threads as u64 + OTHER_SCHEDULERS;
    ONCE + A_SCHEDULER * schedulers + links as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{Member, Members, NodeUrl};

    fn config(nodes: usize) -> ServerConfig {
        let urls = (0..nodes).map(|node| format!("http://a:{}", 7000 + node));
        let urls: Vec<NodeUrl> = urls.map(|url| url.parse().unwrap()).collect();
        let members = urls.iter().cloned().map(Member::unnamed).collect();
        let mut config = ServerConfig::new(Members::new(members, &urls[0]).unwrap(), "store");
        config.threads = 2;
        config.connections_max = 2048;
        config
    }

    #[test]
    fn connections_take_what_the_node_and_its_store_leave() {
        for (nodes, limit, clients, unauthenticated) in [
            (1, None, 2048, 128),
            (1, Some(65_536), 2048, 128),
            (1, Some(4200), 1976, 128),
            (1, Some(4096), 1896, 128),
            (1, Some(1024), 366, 122),
            (1, Some(128), 30, 10),
            // 48 and two links of five connections on each of two runtimes.
            (3, Some(128), 23, 7),
            (3, Some(100), 12, 4),
        ] {
            let bounds = ConnectionBounds::within(limit, &config(nodes)).unwrap();
            let found = (bounds.clients, bounds.unauthenticated);
            assert_eq!(found, (clients, unauthenticated), "{nodes} {limit:?}");
        }
    }

    #[test]
    fn a_limit_that_leaves_no_room_is_refused_and_the_line_says_what_to_do() {
        for limit in [0, 20, 79] {
            let few = ConnectionBounds::within(Some(limit), &config(1)).unwrap_err();
            assert_eq!(few, FewOpenFiles { limit, least: 80 });
            assert!(few.to_string().contains("ulimit -n"), "{few}");
        }
        assert!(ConnectionBounds::within(Some(80), &config(1)).is_ok());
    }
}
