//! Where an operator has to do something, and what.

use super::overview::{Asked, LossStatus, Member, NoStatus, NodeStatus};
use super::tombstone_gc;
use std::collections::BTreeMap;
use units::{counted, rough_span as span};

/// A pair of nodes that no repair has found equal for this many intervals needs a look.
const INTERVALS_MAX: u64 = 3;

/// And at least for this long: a pass over much data takes its time.
pub(super) const UNCLEAN_SECONDS_MIN: u64 = 3600;

/// A full repair is late after this many intervals.
pub(super) const FULL_INTERVALS_MAX: u64 = 2;

/// A clock that is further than this from those of most other nodes is not kept by NTP.
pub(super) const CLOCK_AHEAD_MS_MAX: u64 = 2000;

/// Background work that may use no more than this is at its floor, or nearly.
const BACKGROUND_SHARE_LOW: f64 = 0.05;

/// Two nodes that are both up and have had no connection for this long cannot reach each
/// other.
const APART_SECONDS: u64 = 60;

/// A line for each thing that an operator has to do.
pub(super) fn of(asked: &[Asked]) -> Vec<String> {
    let is_unreachable = |asked: &&Asked| matches!(asked.status, Err(NoStatus::Unreachable(_)));
    let unreachable = asked.iter().filter(is_unreachable);
    let unreachable: Vec<&str> = unreachable.map(|asked| asked.name.as_str()).collect();
    let mut lines = Vec::new();
    for node in asked {
        match &node.status {
            Err(NoStatus::NotGiven(problem)) => {
                lines.push(format!("{}: {}", node.name, problem.line()));
            }
            Err(NoStatus::Unreachable(problem)) => lines.push(format!(
                "{}: {}. {}Start it, or restart it if it hangs; if its machine or its disk \
                 is lost, replace the node",
                node.name,
                problem.line(),
                of_absence(asked, &node.name)
            )),
            Ok(status) => lines.extend(of_node(status, &unreachable)),
        }
    }
    lines.extend(of_losses(asked));
    lines.extend(of_limits(asked));
    lines.extend(tombstone_gc::advice(asked));
    lines
}

/// Where the nodes differ in the longest value that clients may send.
fn of_limits(asked: &[Asked]) -> Option<String> {
    let limit = |asked: &Asked| {
        let status = asked.status.as_ref().ok()?;
        Some((status.value_bytes_max?, status.name.clone()))
    };
    let limits: Vec<(u64, String)> = asked.iter().filter_map(limit).collect();
    let (least, at) = limits.iter().min()?;
    let (most, other) = limits.iter().max_by_key(|(bytes, _)| bytes)?;
    (least < most).then(|| {
        format!(
            "cluster: values may have {least} bytes at {at} and {most} at {other}, so what one \
             takes the other answers 413. Give all nodes the same --value-bytes-max, or the same \
             --memory"
        )
    })
}

/// What may be lost, a line for each loss. A node that was itself away at the last full
/// repair knows less of it than others do.
fn of_losses(asked: &[Asked]) -> Vec<String> {
    let statuses = asked.iter().filter_map(|asked| asked.status.as_ref().ok());
    let knows = |lost: &LossStatus| (!lost.incomplete, lost.writes_max);
    let mut losses: BTreeMap<&[String], &LossStatus> = BTreeMap::new();
    for lost in statuses.filter_map(|status| status.may_be_lost.as_ref()) {
        let known = losses.entry(&lost.nodes).or_insert(lost);
        if knows(lost) > knows(known) {
            *known = lost;
        }
    }
    let losses = losses.values();
    losses
        .filter(|lost| lost.writes_max > 0 || lost.incomplete)
        .map(|lost| {
            let text = &lost.text;
            format!("{text}. Clients that know what they wrote can write it again")
        })
        .collect()
}

/// What a node misses for good that is away for longer than hints are kept.
fn of_absence(asked: &[Asked], name: &str) -> String {
    let statuses = asked.iter().filter_map(|asked| asked.status.as_ref().ok());
    let longest = statuses
        .filter_map(|status| {
            let member = status.others().find(|member| member.name == name)?;
            Some((member.down_seconds?, status.hints.age_max_seconds))
        })
        .max();
    match longest {
        Some((down, kept)) if down > kept => format!(
            "It has been away for {}, and hints are kept for {}: a repair brings it what it \
             missed before. ",
            span(down),
            span(kept)
        ),
        _ => String::new(),
    }
}

/// The lines of a node that has answered.
pub(super) fn of_node(status: &NodeStatus, unreachable: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |text: String| lines.push(format!("{}: {text}", status.name));
    if let Some(problem) = of_replica_state(status, unreachable) {
        say(problem);
    } else if status.replica_state != "learner"
        && let Some(why) = &status.clock.refuses_writes
    {
        say(format!("it refuses writes: {why}"));
    } else if let Some(ahead_ms) = status.clock.others_ahead_ms
        && ahead_ms.unsigned_abs() > CLOCK_AHEAD_MS_MAX
    {
        let way = if ahead_ms > 0 { "behind" } else { "ahead of" };
        say(format!(
            "its clock is {} s {way} those of most nodes: repair NTP on its machine",
            ahead_ms.unsigned_abs() / 1000
        ));
    }
    if let Some(why) = &status.store.poisoned {
        say(format!(
            "its store is read-only ({why}). Check its disk, then restart it or replace it"
        ));
    }
    if let Some(why) = &status.store.failing {
        say(format!(
            "its store cannot write files ({why}). Check its data folder and its disk; it tries \
             again each second"
        ));
    }
    if status.store.disk_full {
        say("its disk is full: give it room, or delete keys".to_owned());
    }
    match (status.store.tables_damaged, status.store.damaged_ranges) {
        (0, 0) => {}
        // Nobody repair writes a node alone.
        _ if status.others().next().is_none() => say(
            "it cannot read a part of its tables. Check its disk, then restore the last copy of \
             its folder, or copy what it can still read to a new node"
                .to_owned(),
        ),
        // A compaction notes no range for a block that it could not read; a full repair does.
        (damaged, 0) => say(format!(
            "{damaged} of its tables are damaged. Check its disk, then run 'kvorum admin repair \
             --full --wait', which has the other nodes repair them"
        )),
        (_, ranges) => {
            let who = match unreachable {
                [] => "a full repair does it by itself".to_owned(),
                missing => format!("start {}", missing.join(" and ")),
            };
            say(format!(
                "{} of its store may lie in a damaged block, and what it says about them does \
                 not count until the other nodes have repaired the block: {who}. Check its disk; \
                 damage that comes back is a disk that dies",
                counted(ranges, "key range"),
            ));
        }
    }
    for member in status
        .others()
        .filter(|member| is_apart(member, unreachable))
    {
        say(format!(
            "it has had no connection to {} for {}, although both answer here. Its log says why: \
             the network between them, another secret or another list",
            member.name,
            span(member.down_seconds.unwrap_or_default())
        ));
    }
    let hint_bytes: u64 = status.cluster.iter().map(|member| member.hint_bytes).sum();
    if hint_bytes > status.hints.bytes_max / 2 {
        let waiting = status.cluster.iter().max_by_key(|member| member.hint_bytes);
        say(format!(
            "its hints take {}% of their room, most of them for {}. Past that the oldest are \
             dropped and left to repairs: bring that node back, or raise --hint-bytes-max",
            hint_bytes.saturating_mul(100) / status.hints.bytes_max.max(1),
            waiting.map_or("another node", |member| &member.name)
        ));
    }
    let works = status.repair.rebuild.is_some() || !status.repair.running.is_empty();
    if works && status.background.share <= BACKGROUND_SHARE_LOW {
        say(format!(
            "its clients leave repairs {:.0}% of their time, so they will take long: give the \
             cluster more nodes or cores, or less load",
            status.background.share * 100.0
        ));
    }
    of_sweeps(status, unreachable).into_iter().for_each(say);
    lines
}

/// Whether a node that answers has had no connection to another that answers, too.
fn is_apart(member: &Member, unreachable: &[&str]) -> bool {
    let seconds = member.down_seconds.unwrap_or_default();
    member.state == "down" && seconds >= APART_SECONDS && !unreachable.contains(&&*member.name)
}

/// What to do about pairs of nodes that no repair has found equal for too long.
fn of_sweeps(status: &NodeStatus, unreachable: &[&str]) -> Option<String> {
    // The nodes that answer and were last found equal longer ago than they should be.
    let late = |seconds_max: u64, last: fn(&Member) -> Option<u64>| -> Vec<&str> {
        let members = status.others().filter(|member| {
            let seconds = status.seconds_since(last(member));
            !unreachable.contains(&member.name.as_str())
                && seconds.unwrap_or(status.uptime_seconds) > seconds_max
        });
        members.map(|member| member.name.as_str()).collect()
    };
    if let Some(interval) = status.repair.incremental.interval_seconds {
        let seconds_max = (interval * INTERVALS_MAX).max(UNCLEAN_SECONDS_MIN);
        let names = late(seconds_max, |member| member.last_repair_unix_ms);
        if !names.is_empty() {
            return Some(format!(
                "no repair has found it equal with {} for more than {} minutes. Its log says why; \
                 then run 'kvorum admin repair --wait'",
                names.join(" and "),
                seconds_max / 60
            ));
        }
    }
    let interval = status.repair.full.interval_seconds?;
    let seconds_max = (interval * FULL_INTERVALS_MAX).max(UNCLEAN_SECONDS_MIN);
    let names = late(seconds_max, |member| member.last_full_repair_unix_ms);
    (!names.is_empty()).then(|| {
        format!(
            "no full repair has found it equal with {} for more than {}: run 'kvorum admin repair \
             --full --wait' while all nodes are up",
            names.join(" and "),
            span(seconds_max)
        )
    })
}

/// What to do about a store that does not count, or has been accepted.
fn of_replica_state(status: &NodeStatus, unreachable: &[&str]) -> Option<String> {
    let has_all = unreachable.is_empty();
    let missing = unreachable.join(" and ");
    match status.replica_state.as_str() {
        "voter" => None,
        "learner" if has_all && status.learner_because.is_some() => {
            let why = status.learner_because.as_deref().unwrap_or_default();
            let runs = !status.repair.running.is_empty();
            (!runs).then(|| format!("its store does not count: {why}"))
        }
        "learner" if has_all => {
            let failed = status.repair.full.incomplete;
            let (repair, have) = match failed {
                1 => ("full repair", "has"),
                _ => ("full repairs", "have"),
            };
            // While one runs, or until the first has ended, it needs nobody.
            (failed > 0 && status.repair.running.is_empty()).then(|| {
                format!(
                    "{failed} {repair} {have} not filled its store: see 'a repair has ended' in the \
                     log of the first node by name"
                )
            })
        }
        "learner" => Some(format!(
            "its store has lost data and does not count. It is filled by itself once all nodes \
             are up: start {missing}"
        )),
        "starting" if has_all => None,
        "starting" => Some(format!(
            "its store does not count before all nodes have met once: start {missing}"
        )),
        // A full repair has filled it since it started. What came before says nothing: a store
        // that was restored from a copy brings its old times with it.
        "forced_voter"
            if status.others().all(|member| {
                let seconds = status.seconds_since(member.last_full_repair_unix_ms);
                seconds.is_some_and(|seconds| seconds < status.uptime_seconds)
            }) =>
        {
            None
        }
        "forced_voter" => Some(
            "it was started with --accept-data-loss and may lack data: run 'kvorum admin repair \
             --full --wait' once all nodes are up"
                .to_owned(),
        ),
        other => Some(format!(
            "its replica state is {other}, which this program does not know"
        )),
    }
}
