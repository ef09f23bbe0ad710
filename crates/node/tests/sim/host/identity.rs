//! The names, URLs and configurations of the nodes, and the keys that clients use.

use crate::network::HostNumber;
use crate::scenario::Scenario;
use cluster::{Member, Members, NodeUrl, Replicas};
use node::{MemoryParts, NodeConfig, RepairSizes, Resources};
use std::time::Duration;

/// How far clocks may be apart in most worlds.
pub(crate) const CLOCK_DRIFT_MAX: Duration = Duration::from_secs(60 * 60);

/// The folder of the store on the disk of each host.
pub(crate) const FOLDER: &str = "store";

/// The target of backups, and its folder, which hosts share that have one.
pub(crate) const TARGET: &str = "nas";
pub(crate) const TARGET_FOLDER: &str = "/nas";

/// The port of all nodes, which have different addresses.
const PORT: u16 = 8080;

/// Small, so that a short run flushes and compacts.
const MEMTABLE_BYTES: usize = 64 << 10;

/// Short, so that most values lie in blob tables.
const BLOB_VALUE_BYTES_MIN: usize = 6;

/// The ranges between two checkpoints of a full repair, at most.
pub(crate) const CHECKPOINT_RANGES: u32 = 2;

/// How many bytes a node keeps free for deletes and compaction.
const DISK_RESERVE_BYTES: u64 = 1 << 20;

/// What the keys begin with that clients use, but those of counters.
pub(crate) const KEY_PREFIX: &[u8] = b"key-";

/// The bytes of a key.
pub(crate) fn key_bytes(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

/// The number of the key with these bytes.
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

/// The URL of a node that has moved so often.
pub(crate) fn url(number: HostNumber, moves: u8) -> NodeUrl {
    let url = format!("http://127.0.{moves}.{}:{PORT}", number + 1);
    url.parse().unwrap()
}

/// The host that a URL names, and after how many moves it has it.
pub(crate) fn address_of(url: &NodeUrl) -> Option<(HostNumber, u8)> {
    let (rest, last) = url.host().rsplit_once('.')?;
    let (_, moves) = rest.rsplit_once('.')?;
    let number: HostNumber = last.parse().ok()?;
    Some((number.checked_sub(1)?, moves.parse().ok()?))
}

/// The members of a configuration, as a node has them in its own that has moved so often.
pub(super) fn moved(members: &Members, number: HostNumber, moves: u8) -> Members {
    let own = Member::named(&name(number), url(number, moves)).unwrap();
    if members.is_single_node() {
        return Members::single_node(own);
    }
    let others = members.iter().map(|(_, member)| member.clone());
    let others = others.filter(|member| member.name() != own.name());
    Members::new(others.chain([own.clone()]).collect(), own.url()).unwrap()
}

pub(super) fn config(number: HostNumber, scenario: &Scenario) -> NodeConfig {
    let member = |number| Member::named(&name(number), url(number, 0)).unwrap();
    let founders = scenario.nodes - scenario.joiners;
    let members = if number < founders {
        Members::new((0..founders).map(member).collect(), &url(number, 0)).unwrap()
    } else {
        Members::single_node(member(number))
    };
    let pair = Replicas::quorum(members.count().min(3));
    let mut config = NodeConfig::new(members, FOLDER);
    config.default_pair = Some(pair);
    config.join = (number >= founders).then(|| url(0, 0));
    config.zone = scenario.zone_of(number).map(str::to_owned);
    config.timeout = scenario.timeout;
    config.disk_reserve_bytes = DISK_RESERVE_BYTES;
    config.clock_drift_max = scenario.clock_drift_max;
    config.durability = scenario.durability;
    // Some nodes compact one after another, others beside each other.
    config.compactions_max = 1 + number % 3;
    // Some nodes keep most values apart.
    config.blob_value_bytes_min = (number % 2 == 1).then_some(BLOB_VALUE_BYTES_MIN);
    config.hint_bytes_max = scenario.hint_bytes_max;
    config.hint_age_max = scenario.hint_age_max;
    config.repair_interval = scenario.repair_interval;
    if scenario.has_backups {
        let place = backup::TargetPlace::Folder(TARGET_FOLDER.into());
        let target = (TARGET.to_owned(), place);
        config.backup_targets = [target].into();
    }
    if let Some(tombstone_gc) = scenario.tombstone_gc {
        config.gc_grace = tombstone_gc.gc_grace;
        config.full_repair_interval = Some(tombstone_gc.full_repair_interval);
    }
    // Few keys, so that a scan has many pages.
    config.page_bytes_max = 300;
    config.repair_sizes = RepairSizes {
        // The store is read in batches of so many bytes, which must not hold many keys.
        range_bytes: scenario.range_keys * 64,
        range_keys: scenario.range_keys,
        checkpoint_ranges: CHECKPOINT_RANGES,
        ..RepairSizes::default()
    };
    config
}

/// The resources of each node.
pub(super) fn resources(scenario: &Scenario) -> Resources {
    Resources {
        runtimes: scenario.runtimes,
        requests_max: 1024,
        memory: MemoryParts {
            memtable_bytes: MEMTABLE_BYTES,
            write_queue_bytes: 16 << 20,
            cache_bytes: 32 << 20,
            peer_bytes: 20 << 20,
            answers_bytes: 16 << 20,
            scans_bytes: 32 << 20,
        },
    }
}
