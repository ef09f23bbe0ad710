//! What may be lost, deleted data that stays, and limits that differ.

use super::clocks::Clocks;
use super::reach::Refusing;
use super::thresholds::{
    FULL_REPAIR_INTERVAL_SECONDS, FULL_REPAIR_INTERVALS_MAX, repair_seconds_max,
};
use super::view::View;
use super::view::listed;
use api::cluster::{Advice, Severity};
use api::status::MayBeLost;
use std::collections::BTreeMap;
use units::rough_span as span;

/// What to do about the data of the cluster.
pub(super) fn of(view: View<'_>, clocks: &Clocks<'_>, refusing: &Refusing<'_>) -> Vec<Advice> {
    let mut all = of_losses(view);
    all.extend(of_limits(view));
    all.extend(of_deleted_data(view, clocks, refusing));
    all
}

/// What may be lost, an advice for each loss. A node that was itself away at the last full
/// repair knows less of it than others do. Once the stores are rebuilt there is nothing to wait
/// for, and what is lost stays lost.
fn of_losses(view: View<'_>) -> Vec<Advice> {
    let reports = || {
        view.statuses()
            .filter_map(|status| status.may_be_lost.as_ref())
    };
    // There is an advice of its own about what is set aside.
    let with_learners = |lost: &MayBeLost| lost.writes_max.saturating_sub(lost.set_aside);
    let knows = |lost: &MayBeLost| (!lost.incomplete, with_learners(lost));
    let mut losses: BTreeMap<&[String], &MayBeLost> = BTreeMap::new();
    for lost in reports() {
        let known = losses.entry(&lost.nodes).or_insert(lost);
        if knows(lost) > knows(known) {
            *known = lost;
        }
    }
    let advice = |lost: &&MayBeLost| {
        let is_over = reports().all(|other| other.nodes != lost.nodes || other.rebuilt);
        let (severity, since) = if is_over {
            (
                Severity::Note,
                ". Since then the stores were rebuilt from what the others had",
            )
        } else {
            (Severity::Bad, "")
        };
        let what = format!("{}{since}", lost.text);
        let remedy = "Clients that know what they wrote can write it again";
        Advice::of_cluster(severity, what, remedy, "A disk died")
    };
    let losses = losses.values();
    let losses = losses.filter(|lost| with_learners(lost) > 0 || lost.incomplete);
    losses.map(advice).collect()
}

/// Nodes that differ in the longest value that clients may send.
fn of_limits(view: View<'_>) -> Option<Advice> {
    let limits = || {
        view.statuses()
            .map(|status| (status.value_bytes_max, &status.name))
    };
    let (least, at) = limits().min()?;
    let (most, other) = limits().max_by_key(|(bytes, _)| *bytes)?;
    let what = format!(
        "values may have {least} bytes at {at} and {most} at {other}, so what one takes the other \
         answers 413"
    );
    let remedy = "Give all nodes the same --value-bytes-max, or the same --memory";
    let advice = || Advice::of_cluster(Severity::Warn, what, remedy, "Requests are refused");
    (least < most).then(advice)
}

/// A GC threshold that is older than the grace and the interval of full repairs explain.
fn of_deleted_data(view: View<'_>, clocks: &Clocks<'_>, refusing: &Refusing<'_>) -> Option<Advice> {
    if view.nodes.len() < 2 {
        return None;
    }
    let statuses = || view.statuses();
    let interval = statuses().filter_map(|status| status.repair.full.interval_seconds);
    let interval = interval.max().unwrap_or(FULL_REPAIR_INTERVAL_SECONDS);
    let repairs_max = repair_seconds_max(interval, FULL_REPAIR_INTERVALS_MAX);
    let grace = statuses()
        .map(|status| status.tombstone_gc.gc_grace_seconds)
        .max()?;
    let normal = grace.saturating_add(repairs_max);
    // Each node learns of the bound of the others.
    let newest = statuses().map(|status| &status.tombstone_gc);
    let newest = newest.max_by_key(|said| said.gc_threshold_unix_ms)?;
    let late = match newest.age_seconds {
        Some(age) if age > normal => format!(
            "the GC threshold is {} old, and no more than {} is normal",
            span(age),
            span(normal)
        ),
        None if statuses().any(|status| status.uptime_seconds > repairs_max) => {
            "no full repair has set the GC threshold yet".to_owned()
        }
        _ => return None,
    };
    let what = format!("{late}, so the tombstones of what was deleted since take room");
    let remedy = remedy(view, clocks, refusing);
    Some(Advice::of_cluster(
        Severity::Warn,
        what,
        remedy,
        "Deleted data stays",
    ))
}

/// What lets the GC threshold rise again.
fn remedy(view: View<'_>, clocks: &Clocks<'_>, refusing: &Refusing<'_>) -> String {
    if !refusing.is_empty() {
        return "It needs every node, so none may refuse another".to_owned();
    }
    let silent = view.silent();
    if !silent.is_empty() {
        return format!(
            "It needs every node: start {}, or replace it",
            listed(silent)
        );
    }
    if !clocks.to_blame.is_empty() {
        let names = listed(&clocks.to_blame);
        return format!("It needs clocks that agree: repair NTP on the machine of {names}");
    }
    let repair = "run 'kvorum admin repair --full --wait' while all nodes are up";
    let mut held_back = view
        .statuses()
        .filter_map(|status| status.tombstone_gc.held_back.as_ref());
    match held_back.next() {
        Some(why) => format!("In the last full repair {}. Then {repair}", why.text),
        None => format!("All nodes are up: {repair}"),
    }
}
