//! Whose clock is wrong. Each node knows how far the others are from itself, so two nodes that
//! differ blame each other; only a majority can say which of them is wrong.

use super::thresholds::CLOCK_AHEAD_MS_MAX;
use super::view::View;
use super::view::listed;
use api::cluster::{Advice, Severity};
use std::collections::BTreeMap;
use units::rough_span as span;

const RUNBOOK: &str = "Clock out of bounds";

/// What is known of the clocks.
#[derive(Default)]
pub(super) struct Clocks<'a> {
    /// What to do.
    pub(super) advice: Vec<Advice>,
    /// The nodes whose clocks are wrong, or may be.
    pub(super) to_blame: Vec<&'a str>,
}

/// Compares the clocks of all nodes of which they are known.
pub(super) fn of(view: View<'_>) -> Clocks<'_> {
    let ahead_ms = ahead_of_one(view);
    let is_near = |one: i64, other: i64| one.abs_diff(other) <= CLOCK_AHEAD_MS_MAX;
    let near = |ms: i64| {
        ahead_ms
            .values()
            .filter(|other| is_near(ms, **other))
            .count()
    };
    let Some(most_ms) = ahead_ms.values().copied().max_by_key(|ms| near(*ms)) else {
        return Clocks::default();
    };
    let (agreed, far): (Vec<_>, Vec<_>) = ahead_ms
        .iter()
        .map(|(name, ms)| (*name, ms.saturating_sub(most_ms)))
        .partition(|(_, ms)| ms.unsigned_abs() <= CLOCK_AHEAD_MS_MAX);
    let is_refusing = view.statuses().any(|status| {
        let because = status.clock.refuses_because.as_deref();
        because.is_some_and(|because| ["far", "none near"].contains(&because))
    });
    let severity = if is_refusing {
        Severity::Bad
    } else {
        Severity::Warn
    };
    let way = |ms: i64| {
        let way = if ms > 0 { "ahead of" } else { "behind" };
        format!("{} {way}", span(ms.unsigned_abs() / 1000))
    };
    let has_majority = agreed.len() > view.nodes.len() / 2;
    let advice = |(name, ms): &(&str, i64)| {
        if has_majority {
            let what = format!("its clock is {} those of most nodes", way(*ms));
            Advice::of_node(severity, name, what, "Repair NTP on its machine", RUNBOOK)
        } else {
            let what = format!(
                "the clock of {name} is {} that of {}, and no majority says which is right",
                way(*ms),
                listed(&names(&agreed))
            );
            let remedy = "Compare both with a clock that you trust, and repair NTP where it is \
                          wrong";
            Advice::of_cluster(severity, what, remedy, RUNBOOK)
        }
    };
    let mut to_blame = names(&far);
    if !has_majority && !far.is_empty() {
        to_blame.extend(names(&agreed));
        to_blame.sort_unstable();
    }
    Clocks {
        advice: far.iter().map(advice).collect(),
        to_blame,
    }
}

/// How far the clocks are ahead of that of one node, as it sees them, and for those that it does
/// not see, as those that it sees do.
fn ahead_of_one(view: View<'_>) -> BTreeMap<&str, i64> {
    let mut ahead_ms = BTreeMap::new();
    let own = view.statuses().find(|status| status.name == view.own);
    let Some(first) = own.or_else(|| view.statuses().next()) else {
        return ahead_ms;
    };
    ahead_ms.insert(first.name.as_str(), 0);
    // The first node comes first.
    let others = view.statuses().filter(|status| status.name != first.name);
    for status in std::iter::once(first).chain(others) {
        let Some(of_status) = ahead_ms.get(status.name.as_str()).copied() else {
            continue;
        };
        for member in status.others() {
            // What a node was last heard to say is no reason once it is down.
            let ms = member.clock_ahead_ms.filter(|_| member.state == "up");
            if let Some(ms) = ms {
                let known = ahead_ms.entry(&member.name);
                known.or_insert(ms.saturating_add(of_status));
            }
        }
    }
    ahead_ms
}

fn names<'a>(clocks: &[(&'a str, i64)]) -> Vec<&'a str> {
    clocks.iter().map(|(name, _)| *name).collect()
}
