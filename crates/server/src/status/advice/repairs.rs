//! Repairs that are late, or get no time.

use super::node::stands_still;
use super::thresholds::{
    BACKGROUND_SHARE_LOW, FULL_REPAIR_INTERVALS_MAX, REPAIR_INTERVALS_MAX, repair_seconds_max,
};
use super::view::View;
use super::view::listed;
use api::cluster::{Advice, Severity};
use api::status::{Member, Status};
use units::rough_span as span;

/// What to do about the repairs of one node.
pub(super) fn of(view: View<'_>, status: &Status) -> Vec<Advice> {
    of_time(view, status)
        .into_iter()
        .chain(of_late(view, status))
        .collect()
}

/// Repairs that get hardly any time.
fn of_time(view: View<'_>, status: &Status) -> Option<Advice> {
    let share = status.background.share;
    let works = status.repair.rebuild.is_some() || !status.repair.running.is_empty();
    // A rebuild that lacks room takes long however much time it gets.
    let stands_still = view.statuses().any(stands_still);
    if !works || share > BACKGROUND_SHARE_LOW || stands_still {
        return None;
    }
    // A node works for the clients of all nodes.
    let reports = view.nodes.iter().filter_map(|node| node.report.as_ref());
    let requests: f64 = reports.map(|report| report.requests_a_second).sum();
    let (who, remedy) = if requests > 0.0 {
        (
            "its clients leave repairs",
            "Give the nodes more cores, or less load",
        )
    } else {
        (
            "although no client reads or writes, repairs have",
            "Look at what else uses its processors and its disk",
        )
    };
    let what = format!(
        "{who} {:.0}% of their time, so they take long",
        share * 100.0
    );
    Some(Advice::of_node(
        Severity::Warn,
        &status.name,
        what,
        remedy,
        "Overload",
    ))
}

/// Nodes that run and that no repair has found equal with this one for too long. A clock that is
/// far off cannot say how long that is.
fn of_late(view: View<'_>, status: &Status) -> Option<Advice> {
    if status.clock.refuses_because.as_deref() == Some("far") {
        return None;
    }
    let late = |seconds_max: u64, last: fn(&Member) -> Option<u64>| {
        let is_late = |member: &&Member| {
            let seconds = status.seconds_since(last(member));
            view.runs(&member.name) && seconds.unwrap_or(status.uptime_seconds) > seconds_max
        };
        let names = status
            .others()
            .filter(is_late)
            .map(|member| member.name.as_str());
        let names: Vec<&str> = names.collect();
        (!names.is_empty())
            .then(|| format!("{} for more than {}", listed(&names), span(seconds_max)))
    };
    let seconds_max = |interval: Option<u64>, intervals| {
        interval.map(|interval| repair_seconds_max(interval, intervals))
    };
    let repair = &status.repair;
    let incremental = seconds_max(repair.incremental.interval_seconds, REPAIR_INTERVALS_MAX);
    let full = seconds_max(repair.full.interval_seconds, FULL_REPAIR_INTERVALS_MAX);
    let (kind, late, remedy) = if let Some(late) =
        incremental.and_then(|max| late(max, |member| member.last_repair_unix_ms))
    {
        let remedy = "Its log says why; then run 'kvorum admin repair --wait'";
        ("repair", late, remedy)
    } else {
        let late = late(full?, |member| member.last_full_repair_unix_ms)?;
        let remedy = "Run 'kvorum admin repair --full --wait' while all nodes are up";
        ("full repair", late, remedy)
    };
    let what = format!("no {kind} has found it equal with {late}");
    Some(Advice::of_node(
        Severity::Warn,
        &status.name,
        what,
        remedy,
        "No successful repair",
    ))
}
