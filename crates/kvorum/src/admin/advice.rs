//! Where an operator has to do something, and what.

use super::overview::{Asked, Member, NoStatus, NodeStatus};
use super::table::span;
use std::collections::BTreeSet;

/// A pair of nodes that no sweep has found equal for this many intervals needs a look.
const INTERVALS_MAX: u64 = 3;

/// And at least for this long: a pass over much data takes its time.
const UNCLEAN_SECONDS_MIN: u64 = 3600;

/// A full sweep is late after this many intervals.
const FULL_INTERVALS_MAX: u64 = 2;

/// A clock that is further than this from those of most other nodes is not kept by NTP.
const CLOCK_AHEAD_MS_MAX: u64 = 2000;

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
            Err(NoStatus::NotGiven(problem)) => lines.push(format!("{}: {problem}", node.name)),
            Err(NoStatus::Unreachable(problem)) => lines.push(format!(
                "{}: {problem}. {}Start it, or restart it if it hangs; if its machine or its disk \
                 is lost, replace the node",
                node.name,
                of_absence(asked, &node.name)
            )),
            Ok(status) => lines.extend(of_node(status, &unreachable)),
        }
    }
    lines.extend(of_losses(asked).into_iter().map(str::to_owned));
    lines
}

/// What may be lost. The nodes that are left say the same, unless one knows more.
fn of_losses(asked: &[Asked]) -> BTreeSet<&str> {
    let statuses = asked.iter().filter_map(|asked| asked.status.as_ref().ok());
    let reports = statuses.filter_map(|status| status.may_be_lost.as_ref());
    reports
        .filter(|lost| lost.writes_max > 0 || !lost.filled)
        .map(|lost| lost.text.as_str())
        .collect()
}

/// What it means that a node is away for so long.
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
            "It has been away for {}, and hints are kept for {}: a sweep brings it what it \
             missed before. ",
            span(down),
            span(kept)
        ),
        _ => String::new(),
    }
}

fn of_node(status: &NodeStatus, unreachable: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |text: String| lines.push(format!("{}: {text}", status.name));
    if let Some(problem) = of_standing(status, unreachable) {
        say(problem);
    } else if status.standing != "unfilled"
        && let Some(why) = &status.clock.refuses_writes
    {
        say(format!("it refuses writes: {why}"));
    } else if let Some(ahead_ms) = status.clock.others_ahead_ms
        && ahead_ms.unsigned_abs() > CLOCK_AHEAD_MS_MAX
    {
        let way = if ahead_ms > 0 { "behind" } else { "ahead of" };
        say(format!(
            "its clock is {} s {way} those of the other nodes: repair NTP on its machine",
            ahead_ms.unsigned_abs() / 1000
        ));
    }
    if let Some(why) = &status.store.poisoned {
        say(format!(
            "its store is read-only ({why}). Check its disk, then restart it or replace it"
        ));
    }
    if status.store.disk_full {
        say("its disk is full: give it room, or delete keys".to_owned());
    }
    match (status.store.tables_damaged, status.store.damaged_ranges) {
        (0, 0) => {}
        // A compaction notes no range for a block that it could not read; a full sweep does.
        (damaged, 0) => say(format!(
            "{damaged} of its tables are damaged. Check its disk, then {}",
            match status.others().next() {
                Some(_) =>
                    "run 'kvorum admin sweep --full --wait', which has the other nodes mend them",
                None => "replace the node",
            }
        )),
        (_, ranges) => {
            let who = match unreachable {
                [] => "a full sweep does it by itself".to_owned(),
                missing => format!("start {}", missing.join(" and ")),
            };
            say(format!(
                "{ranges} key ranges of its store are damaged and do not count until the other \
                 nodes have mended them: {who}. Check its disk; damage that comes back is a disk \
                 that dies"
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
             dropped and left to sweeps: bring that node back, or raise --hint-bytes-max",
            hint_bytes.saturating_mul(100) / status.hints.bytes_max.max(1),
            waiting.map_or("another node", |member| &member.name)
        ));
    }
    let works = status.sweeps.refill.is_some() || !status.sweeps.running.is_empty();
    if works && status.background.share <= BACKGROUND_SHARE_LOW {
        say(format!(
            "its clients leave sweeps {:.0}% of their time, so they will take long: give the \
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

/// What to do about pairs of nodes that no sweep has found equal for too long.
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
    if let Some(interval) = status.sweeps.recent.interval_seconds {
        let seconds_max = (interval * INTERVALS_MAX).max(UNCLEAN_SECONDS_MIN);
        let names = late(seconds_max, |member| member.last_clean_unix_ms);
        if !names.is_empty() {
            return Some(format!(
                "no sweep has found it equal with {} for more than {} minutes. Its log says why; \
                 then run 'kvorum admin sweep --wait'",
                names.join(" and "),
                seconds_max / 60
            ));
        }
    }
    let interval = status.sweeps.full.interval_seconds?;
    let seconds_max = (interval * FULL_INTERVALS_MAX).max(UNCLEAN_SECONDS_MIN);
    let names = late(seconds_max, |member| member.last_full_clean_unix_ms);
    (!names.is_empty()).then(|| {
        format!(
            "no full sweep has found it equal with {} for more than {}: run 'kvorum admin sweep \
             --full --wait' while all nodes are up",
            names.join(" and "),
            span(seconds_max)
        )
    })
}

/// What to do about a store that does not count, or has been accepted.
fn of_standing(status: &NodeStatus, unreachable: &[&str]) -> Option<String> {
    let has_all = unreachable.is_empty();
    let missing = unreachable.join(" and ");
    match status.standing.as_str() {
        "witness" => None,
        "unfilled" if has_all => {
            let failed = status.sweeps.full.incomplete;
            let sweeps = if failed == 1 {
                "sweep has"
            } else {
                "sweeps have"
            };
            // While one runs, or until the first has ended, it needs nobody.
            (failed > 0 && status.sweeps.running.is_empty()).then(|| {
                format!(
                    "{failed} full {sweeps} not filled its store: see 'a sweep has ended' in the \
                     log of the first node by name"
                )
            })
        }
        "unfilled" => Some(format!(
            "its store has lost data and does not count. It is filled by itself once all nodes \
             are up: start {missing}"
        )),
        "unconfirmed" if has_all => None,
        "unconfirmed" => Some(format!(
            "its store does not count before all nodes have met once: start {missing}"
        )),
        // A full sweep has filled it since it started. What came before says nothing: a store
        // that was restored from a copy brings its old times with it.
        "accepted"
            if status.others().all(|member| {
                let seconds = status.seconds_since(member.last_full_clean_unix_ms);
                seconds.is_some_and(|seconds| seconds < status.uptime_seconds)
            }) =>
        {
            None
        }
        "accepted" => Some(
            "it was started with --accept-empty and may lack data: run 'kvorum admin sweep \
             --full --wait' once all nodes are up"
                .to_owned(),
        ),
        other => Some(format!(
            "its standing is {other}, which this program does not know"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn status() -> Value {
        json!({
            "name": "a", "uptime_seconds": 7200, "state": "serving", "standing": "witness",
            "cluster": [
                {
                    "name": "a", "url": "http://h:1", "state": "this node",
                    "hints": 0, "hint_bytes": 0,
                },
                {
                    "name": "b", "url": "http://h:2", "state": "up",
                    "hints": 0, "hint_bytes": 0,
                    "last_clean_unix_ms": 9_000_000, "last_full_clean_unix_ms": 9_000_000,
                },
            ],
            "clock": {"unix_ms": 10_000_000},
            "hints": {"age_max_seconds": 10_800, "bytes_max": 1000},
            "background": {"share": 1.0},
            "sweeps": {
                "running": [],
                "recent": {"interval_seconds": 600, "incomplete": 0},
                "full": {"interval_seconds": 1800, "incomplete": 0},
            },
            "store": {"poisoned": null, "disk_full": false, "tables_damaged": 0, "damaged_ranges": 0},
        })
    }

    /// The advice for a node whose status has another value at `pointer`.
    fn advice_with(pointer: &str, value: Value, others: &[&str]) -> String {
        let mut status = status();
        match status.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => {
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                status.pointer_mut(parent).unwrap()[name] = value;
            }
        }
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        of_node(&status, others).join("\n")
    }

    #[test]
    fn a_node_that_is_well_needs_nobody() {
        assert_eq!(advice_with("/standing", json!("witness"), &[]), "");
        // It is filled, or confirmed, by itself.
        assert_eq!(advice_with("/standing", json!("unfilled"), &[]), "");
        assert_eq!(advice_with("/standing", json!("unconfirmed"), &[]), "");
        assert_eq!(advice_with("/cluster/0/hints", json!(99), &[]), "");
    }

    #[test]
    fn each_state_that_needs_an_operator_has_a_line() {
        for (pointer, value, others, word) in [
            ("/standing", json!("unfilled"), &["b"][..], "start b"),
            (
                "/standing",
                json!("unconfirmed"),
                &["b", "c"],
                "start b and c",
            ),
            (
                "/clock/others_ahead_ms",
                json!(-3000),
                &[],
                "clock is 3 s ahead of",
            ),
            ("/clock/others_ahead_ms", json!(9000), &[], "9 s behind"),
            (
                "/cluster/1/hint_bytes",
                json!(600),
                &[],
                "60% of their room",
            ),
            (
                "/cluster/1/last_full_clean_unix_ms",
                json!(6_300_000),
                &[],
                "no full sweep has found it equal with b",
            ),
            (
                "/clock/refuses_writes",
                json!("the clock is wrong"),
                &[],
                "the clock is wrong",
            ),
            (
                "/store/poisoned",
                json!("a sync failed"),
                &[],
                "a sync failed",
            ),
            ("/store/disk_full", json!(true), &[], "disk is full"),
            (
                "/store/tables_damaged",
                json!(2),
                &[],
                "2 of its tables are damaged. Check its disk, then run 'kvorum admin sweep --full",
            ),
            (
                "/store/damaged_ranges",
                json!(3),
                &[],
                "3 key ranges of its store are damaged",
            ),
            ("/store/damaged_ranges", json!(3), &["b"], "start b"),
            (
                "/cluster/1/last_clean_unix_ms",
                json!(6_300_000),
                &[],
                "equal with b",
            ),
            (
                "/cluster/1/last_clean_unix_ms",
                json!(null),
                &[],
                "more than 60 minutes",
            ),
        ] {
            let advice = advice_with(pointer, value, others);
            assert!(advice.starts_with("a: "), "{pointer}: {advice}");
            assert!(advice.contains(word), "{pointer}: {advice}");
            assert_eq!(advice.lines().count(), 1, "{advice}");
        }
    }

    #[test]
    fn what_may_be_lost_is_said_once() {
        let asked = |name: &str, writes_max: u64, filled: bool, text: &str| {
            let mut status = status();
            status["may_be_lost"] = json!({
                "writes_max": writes_max, "filled": filled, "text": text,
            });
            Asked {
                name: name.to_owned(),
                url: "http://h:1".to_owned(),
                status: Ok(serde_json::from_value(status).unwrap()),
            }
        };
        let many = "up to 7 acknowledged writes may be lost";
        let told = |filled: bool| {
            of(&[
                asked("a", 7, true, many),
                asked("b", 7, true, many),
                asked("c", 0, filled, "no acknowledged write is lost"),
            ])
        };
        assert_eq!(told(true), [many]);
        assert_eq!(told(false), ["no acknowledged write is lost", many]);
    }

    #[test]
    fn sweeps_that_clients_leave_no_time_have_a_line() {
        let advice = |share: f64, running: Value| {
            let mut status = status();
            status["background"]["share"] = json!(share);
            status["sweeps"]["running"] = running;
            let status: NodeStatus = serde_json::from_value(status).unwrap();
            of_node(&status, &[]).join("\n")
        };
        let running = || json!([{"kind": "full", "began_unix_ms": 9_000_000, "ranges": 3}]);
        assert_eq!(advice(0.02, json!([])), "", "nothing waits for it");
        assert_eq!(advice(0.5, running()), "");
        let low = advice(0.02, running());
        assert!(low.contains("2% of their time"), "{low}");
    }

    #[test]
    fn an_accepted_store_needs_a_full_sweep() {
        let mut status = status();
        status["standing"] = json!("accepted");
        // Never, and before it was started: it may have been restored from a copy since.
        for last_full_clean in [json!(null), json!(10_000_000 - 8_000_000)] {
            status["cluster"][1]["last_full_clean_unix_ms"] = last_full_clean;
            let status: NodeStatus = serde_json::from_value(status.clone()).unwrap();
            let advice = of_node(&status, &[]).join("\n");
            let accepted = "may lack data: run 'kvorum admin sweep --full";
            assert!(advice.contains(accepted), "{advice}");
        }
    }

    #[test]
    fn a_store_that_full_sweeps_have_not_filled_has_a_line() {
        let mut status = status();
        status["standing"] = json!("unfilled");
        status["sweeps"]["full"]["incomplete"] = json!(3);
        let advice = |status: &Value| {
            let status: NodeStatus = serde_json::from_value(status.clone()).unwrap();
            of_node(&status, &[]).join("\n")
        };
        let failed = advice(&status);
        assert!(failed.contains("3 full sweeps have not filled"), "{failed}");
        let running = json!([{"kind": "full", "began_unix_ms": 9_000_000, "ranges": 3}]);
        status["sweeps"]["running"] = running;
        assert_eq!(advice(&status), "", "one fills it now");
    }

    #[test]
    fn a_lone_node_with_a_damaged_table_is_to_be_replaced() {
        let mut status = status();
        status["cluster"].as_array_mut().unwrap().pop();
        status["store"]["tables_damaged"] = json!(1);
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        let advice = of_node(&status, &[]).join("\n");
        assert!(advice.ends_with("then replace the node"), "{advice}");
    }

    #[test]
    fn only_a_node_that_does_not_answer_is_to_be_started() {
        let mut status = status();
        status["standing"] = json!("unfilled");
        let asked = |no_status: NoStatus| {
            let asked = [
                Asked {
                    name: "a".to_owned(),
                    url: "http://h:1".to_owned(),
                    status: Ok(serde_json::from_value(status.clone()).unwrap()),
                },
                Asked {
                    name: "b".to_owned(),
                    url: "http://h:2".to_owned(),
                    status: Err(no_status),
                },
            ];
            of(&asked).join("\n")
        };
        let away = asked(NoStatus::Unreachable("b is gone".to_owned()));
        assert!(away.contains("b: b is gone. Start it"), "{away}");
        assert!(away.contains("all nodes are up: start b"), "{away}");
        let other = asked(NoStatus::NotGiven("b refuses".to_owned()));
        assert_eq!(other, "b: b refuses");
    }

    #[test]
    fn two_nodes_that_answer_and_cannot_reach_each_other_have_a_line() {
        let mut status = status();
        let member = &mut status["cluster"][1];
        member["state"] = json!("down");
        member["down_seconds"] = json!(59);
        let of = |status: &Value, unreachable: &[&str]| {
            let status: NodeStatus = serde_json::from_value(status.clone()).unwrap();
            of_node(&status, unreachable).join("\n")
        };
        assert_eq!(of(&status, &[]), "", "it may just be starting");
        status["cluster"][1]["down_seconds"] = json!(60);
        let advice = of(&status, &[]);
        assert!(advice.contains("no connection to b for 60s"), "{advice}");
        assert_eq!(of(&status, &["b"]), "");
    }

    #[test]
    fn a_node_that_is_away_longer_than_hints_are_kept_is_told_apart() {
        let advice = |down_seconds: u64| {
            let mut status = status();
            status["cluster"][1]["down_seconds"] = json!(down_seconds);
            let asked = [
                Asked {
                    name: "a".to_owned(),
                    url: "http://h:1".to_owned(),
                    status: Ok(serde_json::from_value(status).unwrap()),
                },
                Asked {
                    name: "b".to_owned(),
                    url: "http://h:2".to_owned(),
                    status: Err(NoStatus::Unreachable("b is gone".to_owned())),
                },
            ];
            of(&asked).join("\n")
        };
        assert!(advice(10_800).starts_with("b: b is gone. Start it,"));
        let longer = advice(20_000);
        let expected = "b: b is gone. It has been away for 5h, and hints are kept for 3h: a sweep";
        assert!(longer.starts_with(expected), "{longer}");
    }

    #[test]
    fn a_restored_store_needs_nobody_but_all_nodes() {
        let mut status = status();
        status["standing"] = json!("unfilled");
        status["clock"]["refuses_writes"] = json!("restored");
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        let advice = |unreachable: &[&str]| of_node(&status, unreachable).join("\n");
        assert!(advice(&["c"]).contains("start c"), "{}", advice(&["c"]));
        assert_eq!(advice(&[]), "");
    }

    #[test]
    fn a_store_that_a_full_sweep_has_filled_needs_nobody() {
        let mut status = status();
        status["standing"] = json!("accepted");
        let status: NodeStatus = serde_json::from_value(status).unwrap();
        assert!(of_node(&status, &[]).is_empty());
    }

    #[test]
    fn no_sweep_is_missed_where_none_is_due() {
        let no_interval = advice_with("/sweeps/recent", json!({"incomplete": 0}), &[]);
        assert_eq!(no_interval, "");
        // The node that cannot be reached has a line of its own.
        let unreachable = advice_with("/cluster/1/last_clean_unix_ms", json!(null), &["b"]);
        assert_eq!(unreachable, "");
        // A node that has just started has not been found equal yet.
        let mut young = status();
        young["uptime_seconds"] = json!(60);
        young["cluster"][1]["last_clean_unix_ms"] = json!(null);
        let young: NodeStatus = serde_json::from_value(young).unwrap();
        assert!(of_node(&young, &[]).is_empty());
    }
}
