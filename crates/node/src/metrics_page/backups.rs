//! Metrics about backups.

use crate::metrics::{Family, Labels};
use crate::node::Node;

/// How old the newest backups are, and what backups cost this node.
pub(super) fn families(node: &Node) -> [Family; 4] {
    let newest = node.newest_backups();
    let of_target = |name: &String| -> Labels { vec![("target", name.clone())] };
    let usage = node.backup_usage();
    [
        Family::gauges(
            "kvorum_backup_newest_timestamp_seconds",
            "Moment of the newest backup at a target that this node knows; 0 if there is none",
            newest.iter().map(|(name, newest)| {
                let ms = newest.cut_unix_ms.unwrap_or(0);
                (of_target(name), ms as f64 / 1000.0)
            }),
        ),
        Family::gauges(
            "kvorum_backup_target_reached",
            "Whether the target could be read when this node last looked at it: 1, or 0",
            newest
                .iter()
                .map(|(name, newest)| (of_target(name), f64::from(u8::from(newest.is_reached)))),
        ),
        Family::gauge(
            "kvorum_backup_pinned_bytes",
            "Bytes of removed tables that stay on the disk until a backup has stored them",
            usage.pinned_bytes as f64,
        ),
        Family::counter(
            "kvorum_backup_uploaded_bytes",
            "Bytes of tables that this node has stored for backups",
            usage.uploaded_bytes,
        ),
    ]
}
