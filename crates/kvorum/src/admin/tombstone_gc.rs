//! How far the tombstone GC of a cluster has come.

use api::cluster::ClusterNode;
use api::status::TombstoneGc;
use serde::Serialize;
use units::rough_span as span;

/// What the nodes of a cluster say together.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub(super) struct TombstoneGcOverview {
    pub(super) gc_grace_seconds: u64,
    /// How old the GC threshold is; left out before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) age_seconds: Option<u64>,
    /// The nodes that kept it from rising in the last full repair.
    pub(super) held_back_by: Vec<String>,
}

impl TombstoneGcOverview {
    /// `None` for a node alone, and where no node says anything of it.
    pub(super) fn of(nodes: &[ClusterNode]) -> Option<Self> {
        if nodes.len() < 2 {
            return None;
        }
        let statuses = nodes.iter().filter_map(|node| node.status.as_ref());
        let said: Vec<&TombstoneGc> = statuses.map(|status| &status.tombstone_gc).collect();
        Self::of_all(&said)
    }

    /// `None` if no node says anything.
    fn of_all(said: &[&TombstoneGc]) -> Option<Self> {
        let said = || said.iter();
        let gc_grace_seconds = said().map(|said| said.gc_grace_seconds).max()?;
        let newest = said().max_by_key(|said| said.gc_threshold_unix_ms);
        let mut held_back_by: Vec<String> = said()
            .filter_map(|said| said.held_back.as_ref())
            .flat_map(|held_back| held_back.nodes.clone())
            .collect();
        held_back_by.sort_unstable();
        held_back_by.dedup();
        Some(Self {
            gc_grace_seconds,
            age_seconds: newest.and_then(|said| said.age_seconds),
            held_back_by,
        })
    }

    /// The same as a line.
    pub(super) fn text(&self) -> String {
        let grace = span(self.gc_grace_seconds);
        let bound = match self.age_seconds {
            Some(age) => format!(
                "tombstones older than {} may be dropped (grace: {grace})",
                span(age)
            ),
            None => format!(
                "no full repair has set the GC threshold yet, so all tombstones are kept (grace: \
                 {grace})"
            ),
        };
        match self.held_back_by.as_slice() {
            [] => bound,
            names => format!("{bound}; held back by {}", names.join(" and ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const DAY: u64 = 86_400;

    fn text(said: [Value; 2]) -> String {
        let said = said.map(|said| serde_json::from_value::<TombstoneGc>(said).unwrap());
        TombstoneGcOverview::of_all(&said.each_ref())
            .unwrap()
            .text()
    }

    #[test]
    fn the_newest_bound_is_that_of_the_cluster() {
        assert_eq!(
            TombstoneGcOverview::of(&[]),
            None,
            "a node alone waits for nobody"
        );
        let young = || json!({"gc_grace_seconds": 10 * DAY});
        let old = json!({
            "gc_grace_seconds": 10 * DAY, "gc_threshold_unix_ms": 7, "age_seconds": 12 * DAY,
        });
        assert_eq!(
            text([young(), old]),
            "tombstones older than 12d may be dropped (grace: 10d)"
        );
        let mut held_back = young();
        held_back["held_back"] = json!({"nodes": ["b"], "text": "b was away"});
        let line = text([young(), held_back]);
        assert!(
            line.starts_with("no full repair has set the GC threshold yet"),
            "{line}"
        );
        assert!(line.ends_with("; held back by b"), "{line}");
    }
}
