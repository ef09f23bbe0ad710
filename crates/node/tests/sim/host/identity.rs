//! Who the nodes are: names, URLs, configurations, and the keys that clients use.

use crate::network::HostNumber;
use crate::weather::Weather;
use cluster::{Member, Members, NodeUrl};
use node::{MemoryParts, NodeConfig, Resources};
use std::time::Duration;

/// How far clocks may be apart.
pub(crate) const CLOCK_DRIFT_MAX: Duration = Duration::from_secs(60 * 60);

/// Where each node keeps its store, on its own disk.
pub(super) const FOLDER: &str = "store";

/// The port of all nodes; their hosts differ.
const PORT: u16 = 8080;

/// Small, so that a short run flushes and compacts.
const MEMTABLE_BYTES: usize = 64 << 10;

/// The room that a node keeps for deletes and compaction, in bytes.
const DISK_RESERVE_BYTES: u64 = 1 << 20;

/// A key's bytes.
pub(crate) fn key_bytes(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// The key of these bytes.
pub(crate) fn key_of(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap();
    text.strip_prefix("key-").unwrap().parse().unwrap()
}

/// The names of the nodes, in the order of their numbers.
pub(crate) fn names(nodes: usize) -> Vec<String> {
    (0..nodes).map(name).collect()
}

fn name(number: HostNumber) -> String {
    format!("node-{number}")
}

fn url(number: HostNumber) -> NodeUrl {
    let url = format!("http://127.0.0.{}:{PORT}", number + 1);
    url.parse().unwrap()
}

pub(super) fn config(number: HostNumber, weather: &Weather) -> NodeConfig {
    let member = |number| Member::named(&name(number), url(number)).unwrap();
    let members = Members::new((0..weather.nodes).map(member).collect(), &url(number)).unwrap();
    let mut config = NodeConfig::new(members, FOLDER);
    config.timeout = weather.timeout;
    config.disk_reserve_bytes = DISK_RESERVE_BYTES;
    config.clock_drift_max = CLOCK_DRIFT_MAX;
    config.durability = weather.durability;
    config.hint_bytes_max = weather.hint_bytes_max;
    config.hint_age_max = weather.hint_age_max;
    config
}

/// What each node works with.
pub(super) fn resources(weather: &Weather) -> Resources {
    Resources {
        runtimes: weather.runtimes,
        requests_max: 1024,
        memory: MemoryParts {
            memtable_bytes: MEMTABLE_BYTES,
            write_queue_bytes: 16 << 20,
            cache_bytes: 32 << 20,
            peer_bytes: 20 << 20,
            answers_bytes: 16 << 20,
            ranges_bytes: 32 << 20,
        },
    }
}
