//! How far a cluster has forgotten what was deleted, and what an operator has to do if it
//! does not.

use super::advice::{CLOCK_AHEAD_MS_MAX, FULL_INTERVALS_MAX, UNCLEAN_SECONDS_MIN};
use super::overview::{Asked, NodeStatus};
use serde::{Deserialize, Serialize};
use units::rough_span as span;

/// How often full repairs should run where none begins by itself.
const FULL_INTERVAL_SECONDS: u64 = 7 * 86_400;

/// What a node says of tombstone GC.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TombstoneGcStatus {
    gc_grace_seconds: u64,
    gc_threshold_unix_ms: Option<u64>,
    age_seconds: Option<u64>,
    held_back: Option<HeldBackStatus>,
}

/// Why the last full repair that a node led has not raised the GC threshold.
#[derive(Clone, Debug, Deserialize)]
struct HeldBackStatus {
    nodes: Vec<String>,
    text: String,
}

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
    pub(super) fn of(asked: &[Asked]) -> Option<Self> {
        if asked.len() < 2 {
            return None;
        }
        let gc_grace_seconds = said(asked).map(|(_, said)| said.gc_grace_seconds).max()?;
        let newest = said(asked).max_by_key(|(_, said)| said.gc_threshold_unix_ms);
        let mut held_back_by: Vec<String> = held_back(asked)
            .flat_map(|held_back| held_back.nodes.clone())
            .collect();
        held_back_by.sort_unstable();
        held_back_by.dedup();
        Some(Self {
            gc_grace_seconds,
            age_seconds: newest.and_then(|(_, said)| said.age_seconds),
            held_back_by,
        })
    }

    /// The same as a line.
    pub(super) fn text(&self) -> String {
        let grace = span(self.gc_grace_seconds);
        let bound = match self.age_seconds {
            Some(age) => format!(
                "what was deleted more than {} ago may be dropped (grace: {grace})",
                span(age)
            ),
            None => format!(
                "no full repair has set the GC threshold yet, so nothing that was deleted is \
                 dropped (grace: {grace})"
            ),
        };
        match self.held_back_by.as_slice() {
            [] => bound,
            names => format!("{bound}; held back by {}", names.join(" and ")),
        }
    }
}

/// What to do about a GC threshold that is older than the grace and the interval of full
/// repairs explain.
pub(super) fn advice(asked: &[Asked]) -> Option<String> {
    let overview = TombstoneGcOverview::of(asked)?;
    let intervals = statuses(asked).filter_map(|status| status.repair.full.interval_seconds);
    let interval = intervals.max().unwrap_or(FULL_INTERVAL_SECONDS);
    let sweeps_max = (interval * FULL_INTERVALS_MAX).max(UNCLEAN_SECONDS_MIN);
    let is_late = match overview.age_seconds {
        Some(age) => age > overview.gc_grace_seconds + sweeps_max,
        None => statuses(asked).any(|status| status.uptime_seconds > sweeps_max),
    };
    if !is_late {
        return None;
    }
    let late = match overview.age_seconds {
        Some(age) => format!(
            "the GC threshold is {} old, and no more than {} is normal",
            span(age),
            span(overview.gc_grace_seconds + sweeps_max)
        ),
        None => "no full repair has set the GC threshold yet".to_owned(),
    };
    Some(format!(
        "cluster: {late}, so the tombstones of what was deleted since take room. {}",
        remedy(asked)
    ))
}

/// What lets the GC threshold rise again.
fn remedy(asked: &[Asked]) -> String {
    let names = |names: Vec<&str>| names.join(" and ");
    let silent = asked.iter().filter(|node| node.status.is_err());
    let silent: Vec<&str> = silent.map(|node| node.name.as_str()).collect();
    if !silent.is_empty() {
        return format!(
            "It needs every node: start {}, or replace it",
            names(silent)
        );
    }
    let unproven = statuses(asked).filter(|status| status.clock.proven == Some(false));
    let unproven: Vec<&NodeStatus> = unproven.collect();
    if !unproven.is_empty() {
        // Beside a wrong clock, right ones are not proven either. The wrong one is to blame.
        let is_wrong = |status: &&&NodeStatus| {
            let ahead_ms = status.clock.others_ahead_ms.unwrap_or_default();
            ahead_ms.unsigned_abs() > CLOCK_AHEAD_MS_MAX
        };
        let mut to_blame: Vec<&NodeStatus> = unproven.iter().filter(is_wrong).copied().collect();
        if to_blame.is_empty() {
            to_blame = unproven;
        }
        let to_blame = to_blame.into_iter().map(|status| status.name.as_str());
        return format!(
            "It needs clocks that agree: repair NTP on the machine of {}",
            names(to_blame.collect())
        );
    }
    let sweep = "run 'kvorum admin repair --full --wait' while all nodes are up";
    match held_back(asked).next() {
        Some(why) => format!("In the last full repair {}. Then {sweep}", why.text),
        None => format!("All nodes are up: {sweep}"),
    }
}

fn statuses(asked: &[Asked]) -> impl Iterator<Item = &NodeStatus> {
    asked.iter().filter_map(|asked| asked.status.as_ref().ok())
}

fn said(asked: &[Asked]) -> impl Iterator<Item = (&NodeStatus, &TombstoneGcStatus)> {
    statuses(asked).filter_map(|status| Some((status, status.tombstone_gc.as_ref()?)))
}

fn held_back(asked: &[Asked]) -> impl Iterator<Item = &HeldBackStatus> {
    said(asked).filter_map(|(_, said)| said.held_back.as_ref())
}

#[cfg(test)]
mod tests {
    use super::super::advice_tests::{asked, status, unreachable};
    use super::*;
    use serde_json::{Value, json};

    const DAY: u64 = 86_400;

    /// Two nodes with the defaults, of which one says this of tombstone GC.
    fn two_nodes(tombstone_gc: Value) -> [Value; 2] {
        let (mut one, mut other) = (status(), status());
        one["repair"]["full"]["interval_seconds"] = json!(7 * DAY);
        one["uptime_seconds"] = json!(30 * DAY);
        one["tombstone_gc"] = tombstone_gc;
        other["name"] = json!("b");
        other["tombstone_gc"] = json!({"gc_grace_seconds": 10 * DAY});
        [one, other]
    }

    fn forgetting(age_days: u64) -> Value {
        let age = age_days * DAY;
        json!({"gc_grace_seconds": 10 * DAY, "gc_threshold_unix_ms": 7, "age_seconds": age})
    }

    fn advice_on(nodes: &[Value]) -> String {
        let asked: Vec<Asked> = nodes.iter().cloned().map(asked).collect();
        advice(&asked).unwrap_or_default()
    }

    #[test]
    fn the_newest_bound_is_that_of_the_cluster() {
        let nodes = two_nodes(forgetting(12)).map(asked);
        let overview = TombstoneGcOverview::of(&nodes).unwrap();
        let line = "what was deleted more than 12d ago may be dropped (grace: 10d)";
        assert_eq!(overview.text(), line);
        let alone = &nodes[..1];
        assert_eq!(
            TombstoneGcOverview::of(alone),
            None,
            "a node alone waits for nobody"
        );
        let mut young = two_nodes(json!({"gc_grace_seconds": 10 * DAY}));
        young[1]["tombstone_gc"]["held_back"] = json!({"nodes": ["b"], "text": "b was away"});
        let young = TombstoneGcOverview::of(&young.map(asked)).unwrap().text();
        assert!(
            young.starts_with("no full repair has set the GC threshold yet"),
            "{young}"
        );
        assert!(young.ends_with("; held back by b"), "{young}");
        let [mut old, other] = two_nodes(json!(null));
        old.as_object_mut().unwrap().remove("tombstone_gc");
        let overview = TombstoneGcOverview::of(&[old, other].map(asked)).unwrap();
        assert_eq!(
            overview.age_seconds, None,
            "a, of an older release, says nothing"
        );
    }

    #[test]
    fn a_bound_that_the_grace_and_full_sweeps_explain_needs_nobody() {
        assert_eq!(advice_on(&two_nodes(forgetting(24))), "");
        let mut young = two_nodes(json!({"gc_grace_seconds": 10 * DAY}));
        young[0]["uptime_seconds"] = json!(14 * DAY);
        assert_eq!(advice_on(&young), "");
    }

    #[test]
    fn an_old_bound_has_a_line_that_says_what_to_do() {
        let late = two_nodes(forgetting(25));
        let line = advice_on(&late);
        let begin = "cluster: the GC threshold is 25d old, and no more than 24d is normal";
        assert!(line.starts_with(begin), "{line}");
        assert!(
            line.ends_with(
                "All nodes are up: run 'kvorum admin repair --full --wait' while all nodes are up"
            ),
            "{line}"
        );

        let mut held_back = late.clone();
        held_back[1]["tombstone_gc"]["held_back"] =
            json!({"nodes": ["a", "b"], "text": "these nodes could not be made equal: a and b"});
        let line = advice_on(&held_back);
        assert!(
            line.contains("could not be made equal: a and b. Then run"),
            "{line}"
        );

        let mut clock = late.clone();
        clock[1]["clock"]["proven"] = json!(false);
        assert!(advice_on(&clock).ends_with("NTP on the machine of b"));
        // The clock of a third node keeps those of the others from being proven.
        clock[0]["clock"]["proven"] = json!(false);
        clock[0]["clock"]["others_ahead_ms"] = json!(-7_200_000);
        assert!(advice_on(&clock).ends_with("NTP on the machine of a"));

        let nodes = late.map(asked);
        let nodes: Vec<Asked> = nodes.into_iter().chain([unreachable("c")]).collect();
        let line = advice(&nodes).unwrap();
        assert!(line.ends_with("start c, or replace it"), "{line}");

        let never = advice_on(&two_nodes(json!({"gc_grace_seconds": 10 * DAY})));
        assert!(
            never.starts_with("cluster: no full repair has set the GC threshold"),
            "{never}"
        );
    }
}
