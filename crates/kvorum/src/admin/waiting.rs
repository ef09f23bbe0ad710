//! What a command shows while it waits for nodes: how far their work is, by their statuses.

use super::target::ANSWER_BYTES_MAX;
use crate::access::Access;
use crate::node_client::NodeRequest;
use cli::progress::{Progress, Stage};
use cluster::NodeUrl;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use units::{bytes, counted};

/// How often a node is asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where it says how far its work is.
const STATUS: &str = "/v0/status";

/// How long it may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Work that should be over by what is known of it is shown so far.
const SHARE_MAX: f64 = 0.99;

/// What a node says of its work.
#[derive(Clone, Debug, Deserialize)]
struct WorkStatus {
    clock: ClockTime,
    repair: RepairWork,
    store: StoreWork,
}

#[derive(Clone, Debug, Deserialize)]
struct ClockTime {
    unix_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct RepairWork {
    running: Vec<RunningWork>,
    incremental: EndedWork,
    rebuild: Option<RebuildWork>,
}

#[derive(Clone, Debug, Deserialize)]
struct RunningWork {
    kind: String,
    began_unix_ms: u64,
    ranges: u64,
    share: Option<f64>,
    bytes_per_second: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct EndedWork {
    last_duration_ms: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct RebuildWork {
    received_bytes: u64,
    share: f64,
    bytes_per_second: Option<u64>,
    stalled_because: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct StoreWork {
    table_bytes: u64,
    compaction: Option<CompactionWork>,
}

#[derive(Clone, Debug, Deserialize)]
struct CompactionWork {
    merged_bytes: u64,
}

/// What a node says of the backup that it makes.
#[derive(Clone, Debug, Deserialize)]
struct BackupStatus {
    running: Option<BackupWork>,
}

#[derive(Clone, Debug, Deserialize)]
struct BackupWork {
    bytes: u64,
    done_bytes: u64,
}

/// Shows how far a repair is, as the node says that coordinates it.
pub(super) async fn show_repair(node: &NodeUrl, access: &Access, is_full: bool) -> Infallible {
    let mut progress = Progress::new();
    watch(
        node,
        access,
        STATUS,
        progress.is_shown(),
        |status: WorkStatus| {
            if let Some(stage) = stage_of_repair(&status.repair, status.clock.unix_ms, is_full) {
                progress.show(|_| stage);
            }
        },
    )
    .await
}

/// How far a repair is. A full one says how far it has come in the bytes of the node's store. An
/// incremental one passes over most of them, so its share is that of the time that the last one took.
fn stage_of_repair(repair: &RepairWork, now_unix_ms: u64, is_full: bool) -> Option<Stage> {
    let kind = if is_full { "full" } else { "incremental" };
    if let (Some(rebuild), true) = (&repair.rebuild, is_full) {
        let received = with_speed(
            format!("{} received", bytes(rebuild.received_bytes as f64)),
            rebuild.bytes_per_second,
        );
        return Some(match &rebuild.stalled_because {
            // The time left follows from a share.
            Some(why) => Stage {
                share: None,
                text: format!("{received}; it stands still, because {why}"),
            },
            None => Stage {
                share: Some(rebuild.share),
                text: received,
            },
        });
    }
    let running = repair.running.iter().find(|running| running.kind == kind)?;
    let compared = format!("{} compared", counted(running.ranges, "range"));
    let ms = now_unix_ms.saturating_sub(running.began_unix_ms);
    let last_ms = repair.incremental.last_duration_ms;
    let last_ms = last_ms.filter(|last| *last > 0 && !is_full);
    let of_last = last_ms.map(|last| (ms as f64 / last as f64).min(SHARE_MAX));
    Some(Stage {
        share: running.share.or(of_last),
        text: with_speed(compared, running.bytes_per_second),
    })
}

fn with_speed(text: String, bytes_per_second: Option<u64>) -> String {
    match bytes_per_second {
        Some(speed) => format!("{text}, {}/s", bytes(speed as f64)),
        None => text,
    }
}

/// How far compactions of several nodes are together.
pub(super) struct Compactions(Mutex<CompactionsState>);

struct CompactionsState {
    progress: Progress,
    is_shown: bool,
    /// For each node the bytes of its tables at first, and those that it has merged.
    nodes: BTreeMap<String, (u64, u64)>,
}

impl Compactions {
    pub(super) fn new() -> Self {
        let progress = Progress::new();
        Self(Mutex::new(CompactionsState {
            is_shown: progress.is_shown(),
            progress,
            nodes: BTreeMap::new(),
        }))
    }

    /// Adds what a node says to what is shown.
    pub(super) async fn show(&self, name: &str, node: &NodeUrl, access: &Access) -> Infallible {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shown = lock().is_shown;
        watch(node, access, STATUS, is_shown, |status: WorkStatus| {
            let Some(compaction) = status.store.compaction else {
                return;
            };
            let mut state = lock();
            let CompactionsState {
                progress, nodes, ..
            } = &mut *state;
            let work = nodes.entry(name.to_owned()).or_default();
            work.0 = work.0.max(status.store.table_bytes);
            work.1 = compaction.merged_bytes;
            let stage = stage_of_compactions(nodes.values());
            progress.show(|_| stage);
        })
        .await
    }
}

/// How far compactions are, of which each has so many bytes of tables to merge, and has merged
/// so many of keys and values. Tables that are compressed have more of these than bytes.
fn stage_of_compactions<'a>(nodes: impl Iterator<Item = &'a (u64, u64)>) -> Stage {
    let (tables, merged) = nodes.fold((0, 0), |sum, node| (sum.0 + node.0, sum.1 + node.1));
    Stage {
        share: (tables > 0).then(|| (merged as f64 / tables as f64).min(SHARE_MAX)),
        text: format!("{} merged", bytes(merged as f64)),
    }
}

/// Shows how far a backup is, as the node says that coordinates it.
pub(super) async fn show_backup(node: &NodeUrl, access: &Access) -> Infallible {
    let mut progress = Progress::new();
    let is_shown = progress.is_shown();
    watch(
        node,
        access,
        "/v0/admin/backups",
        is_shown,
        |status: BackupStatus| {
            if let Some(running) = status.running {
                progress.show(|_| stage_of_backup(&running));
            }
        },
    )
    .await
}

/// How far a backup is. How much there is is known once all nodes have written what they had in
/// memory.
fn stage_of_backup(running: &BackupWork) -> Stage {
    let (all, done) = (running.bytes as f64, running.done_bytes as f64);
    Stage {
        share: (all > 0.0).then(|| (done / all).min(SHARE_MAX)),
        text: format!("{} of {} stored", bytes(done), bytes(all)),
    }
}

/// Hands each answer of a node to `seen`, if it `is_shown`; whoever waits for the node ends it.
async fn watch<T: DeserializeOwned>(
    node: &NodeUrl,
    access: &Access,
    target: &str,
    is_shown: bool,
    mut seen: impl FnMut(T),
) -> Infallible {
    loop {
        if !is_shown {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(INTERVAL).await;
        let request = NodeRequest {
            node,
            access,
            is_named: false,
            method: "GET",
            target,
            headers: &[],
            time_max: ANSWER_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        // What is wrong with the node, the request says that is waited for.
        let Ok(answer) = request.fetch().await else {
            continue;
        };
        if let Ok(status) = serde_json::from_slice(&answer.body) {
            seen(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_repair_is_as_far_as_its_bytes_or_its_time_or_the_rebuild() {
        let repair = |share: Option<f64>, rebuild: serde_json::Value| -> RepairWork {
            serde_json::from_value(json!({
                "running": [
                    {"kind": "incremental", "began_unix_ms": 1, "ranges": 1},
                    {
                        "kind": "full", "began_unix_ms": 1000, "ranges": 3,
                        "share": share, "bytes_per_second": share.map(|_| 5 << 20),
                    },
                ],
                "incremental": {"last_duration_ms": 4000}, "full": {}, "rebuild": rebuild,
            }))
            .unwrap()
        };
        let stage = |share, text: &str| {
            Some(Stage {
                share,
                text: text.to_owned(),
            })
        };
        let alone = repair(None, json!(null));
        let of = |now, is_full| stage_of_repair(&alone, now, is_full);
        assert_eq!(of(1001, false), stage(Some(0.25), "1 range compared"));
        assert_eq!(of(90_000, false), stage(Some(0.99), "1 range compared"));
        assert_eq!(of(2000, true), stage(None, "3 ranges compared"));
        let shown = stage_of_repair(&repair(Some(0.75), json!(null)), 2000, true);
        assert_eq!(shown, stage(Some(0.75), "3 ranges compared, 5.00 MiB/s"));
        let repair = |rebuild| repair(None, rebuild);
        let rebuild = repair(json!({"received_bytes": 3 << 20, "share": 0.5}));
        let shown = stage_of_repair(&rebuild, 2000, true);
        assert_eq!(shown, stage(Some(0.5), "3.00 MiB received"));
        let stalled = json!({"received_bytes": 0, "share": 0.5, "stalled_because": "it is full"});
        let shown = stage_of_repair(&repair(stalled), 2000, true);
        let text = "0 B received; it stands still, because it is full";
        assert_eq!(shown, stage(None, text));
    }

    #[test]
    fn a_backup_is_as_far_as_what_is_stored() {
        let stage = |bytes, done_bytes| stage_of_backup(&BackupWork { bytes, done_bytes });
        let half = stage(4 << 20, 2 << 20);
        assert_eq!(half.share, Some(0.5));
        assert_eq!(half.text, "2.00 MiB of 4.00 MiB stored");
        assert_eq!(stage(0, 0).share, None);
        assert_eq!(stage(7, 7).share, Some(0.99));
    }

    #[test]
    fn compactions_are_shown_together() {
        let stage = stage_of_compactions([(300, 100), (100, 60)].iter());
        assert_eq!(stage.share, Some(0.4));
        assert_eq!(stage.text, "160 B merged");
        assert_eq!(stage_of_compactions([(0, 0)].iter()).share, None);
        assert_eq!(stage_of_compactions([(1, 9)].iter()).share, Some(0.99));
    }
}
