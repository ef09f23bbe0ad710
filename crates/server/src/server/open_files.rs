//! The process's limit of open files, and how many connections and files of tables it allows.
//!
//! A store that cannot open files fails writes, and a node that cannot accept connections fails its
//! probes. So the store gets half of what the node's fixed needs leave, but no more than
//! [`STORE_MIN`], and connections get the rest. What they do not take is the store's as well.

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

/// How many files of the store keep connections away.
const STORE_MIN: u64 = 2048;

/// What the store opens beside the tables that it keeps open: its log, and each table that is
/// written, removed, or read past the system's memory.
const STORE_OTHERS: u64 = 256;

/// So many tables are kept open at most. To open one again costs less than to read from it, and the
/// system needs a KiB for each.
const TABLES_MAX: u64 = 16 << 10;

/// What connections need at least: some of clients, and some beyond.
const CONNECTIONS_MIN: u64 = 16;

/// How many connections a node may have open, but those of peers, and how many tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFileBounds {
    /// Of clients.
    pub(crate) clients: usize,
    /// Unauthenticated ones, beyond those of clients.
    pub(crate) unauthenticated: usize,
    /// Files of tables.
    pub(crate) tables: usize,
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

impl OpenFileBounds {
    /// What of the configured connections and of tables fits into a limit of open files.
    ///
    /// # Errors
    /// The node cannot run with so few.
    pub(crate) fn within(limit: Option<u64>, config: &ServerConfig) -> Result<Self, FewOpenFiles> {
        let wanted = Self {
            clients: config.connections_max,
            unauthenticated: UNAUTHENTICATED_MAX,
            tables: TABLES_MAX as usize,
        };
        let Some(limit) = limit else {
            return Ok(wanted);
        };
        let needed = needed(config);
        let left = limit.saturating_sub(needed);
        let connections = left - left.div_ceil(2).min(STORE_MIN);
        if connections < CONNECTIONS_MIN {
            let least = needed + 2 * CONNECTIONS_MIN;
            return Err(FewOpenFiles { limit, least });
        }
        let connections = usize::try_from(connections).unwrap_or(usize::MAX);
        let unauthenticated = wanted.unauthenticated.min(connections / 4);
        let clients = wanted.clients.min(connections - unauthenticated);
        let of_store = left.saturating_sub((clients + unauthenticated) as u64);
        let tables = of_store - STORE_OTHERS.min(of_store / 2);
        Ok(Self {
            clients,
            unauthenticated,
            tables: tables.clamp(1, TABLES_MAX) as usize,
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
    fn connections_take_what_the_node_and_its_store_leave_and_tables_the_rest() {
        for (nodes, limit, clients, unauthenticated, tables) in [
            (1, None, 2048, 128, 16_384),
            (1, Some(65_536), 2048, 128, 16_384),
            (1, Some(10_000), 2048, 128, 7520),
            (1, Some(4200), 1976, 128, 1792),
            (1, Some(4096), 1896, 128, 1768),
            (1, Some(1024), 366, 122, 244),
            (1, Some(128), 30, 10, 20),
            // 48 and two links of five connections on each of two runtimes.
            (3, Some(128), 23, 7, 15),
            (3, Some(100), 12, 4, 8),
        ] {
            let bounds = OpenFileBounds::within(limit, &config(nodes)).unwrap();
            let found = (bounds.clients, bounds.unauthenticated, bounds.tables);
            let expected = (clients, unauthenticated, tables);
            assert_eq!(found, expected, "{nodes} {limit:?}");
        }
    }

    #[test]
    fn a_limit_that_leaves_no_room_is_refused_and_the_line_says_what_to_do() {
        for limit in [0, 20, 79] {
            let few = OpenFileBounds::within(Some(limit), &config(1)).unwrap_err();
            assert_eq!(few, FewOpenFiles { limit, least: 80 });
            assert!(few.to_string().contains("ulimit -n"), "{few}");
        }
        assert!(OpenFileBounds::within(Some(80), &config(1)).is_ok());
    }
}
