//! The overview of a cluster as one screen.

use super::overview::{NodeOverview, Overview, QuorumOverview};
use super::repair::repair_of_kind;
use api::cluster::{Advice, Quantiles, ReportNumbers, Severity};
use units::{Columns, bytes, counted, latency, rate, rough_span as span};

/// How a line is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// All is well.
    Good,
    /// It will be bad, or is slow.
    Warn,
    /// Requests may fail, or data may be missing.
    Bad,
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Bad => Self::Bad,
            Severity::Warn => Self::Warn,
            Severity::Note => Self::Plain,
        }
    }
}

/// A line of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Plain,
        }
    }
}

/// What stands for a figure that is not known.
const UNKNOWN: &str = "-";

const STATE_HEAD: [&str; 7] = [
    "node",
    "URL",
    "version",
    "state",
    "replica state",
    "hints for it",
    "last repair",
];

const LOAD_HEAD: [&str; 8] = [
    "node",
    "requests",
    "p99 of reads",
    "p99 of writes",
    "data",
    "disk free",
    "clock",
    "certificate",
];

/// What quorums can bear, two tables of the nodes, the work that runs, and the advice.
pub(super) fn lines(overview: &Overview) -> Vec<Line> {
    let mut lines = vec![quorum_line(&overview.quorum), Line::plain("")];
    lines.extend(table(STATE_HEAD, &overview.nodes, state_row));
    lines.push(Line::plain(""));
    lines.extend(table(LOAD_HEAD, &overview.nodes, load_row));
    let mut work = Vec::new();
    work.extend(overview.nodes.iter().filter_map(rebuild_line));
    work.extend(overview.nodes.iter().filter_map(compaction_line));
    work.extend(overview.nodes.iter().filter_map(non_owned_line));
    work.extend(overview.repair.iter().map(|repair| {
        let mut line = format!(
            "{} has been running for {} and has compared {}",
            repair_of_kind(&repair.kind),
            span(repair.seconds),
            counted(repair.ranges, "range")
        );
        if let Some(share) = repair.share {
            line += &format!(", {:.0}% of the store", share * 100.0);
        }
        line + &speed(repair.bytes_per_second) + &left(repair.seconds_left)
    }));
    if let Some(tombstone_gc) = &overview.tombstone_gc {
        work.push(tombstone_gc.text());
    }
    if !work.is_empty() {
        lines.push(Line::plain(""));
    }
    lines.extend(work.into_iter().map(Line::plain));
    if !overview.advice.is_empty() {
        lines.push(Line::plain(""));
    }
    lines.extend(overview.advice.iter().map(advice_line));
    lines
}

/// How many failures quorums of all nodes survive.
fn quorum_line(quorum: &QuorumOverview) -> Line {
    let QuorumOverview {
        nodes,
        voters,
        writers,
        failures_tolerated,
    } = quorum;
    let verb = if *nodes == 1 { "votes" } else { "vote" };
    let mut count = format!("{voters} of {} {verb}", counted(*nodes as u64, "node"));
    if writers < voters {
        count += &format!(", and {writers} of them can store puts");
    }
    match failures_tolerated {
        None => Line {
            text: format!("{count}: too few for a quorum of all nodes"),
            tone: Tone::Bad,
        },
        Some(0) => Line {
            text: format!("{count}: none may fail"),
            tone: if *nodes == 1 { Tone::Good } else { Tone::Warn },
        },
        Some(failures) => Line {
            text: format!("{count}: {failures} may fail"),
            tone: if writers == nodes {
                Tone::Good
            } else {
                Tone::Warn
            },
        },
    }
}

/// A table with a row for each node.
fn table<const N: usize>(
    head: [&str; N],
    nodes: &[NodeOverview],
    row: impl Fn(&NodeOverview) -> [String; N],
) -> Vec<Line> {
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(nodes.iter().map(row));
    let texts = units::lines_of(Columns::Left, &rows);
    let tones = std::iter::once(Tone::Plain).chain(nodes.iter().map(tone_of));
    let lines = texts.into_iter().zip(tones);
    lines.map(|(text, tone)| Line { text, tone }).collect()
}

fn tone_of(node: &NodeOverview) -> Tone {
    match (&*node.state, node.replica_state.as_deref()) {
        ("serving", Some("voter" | "forced_voter")) => Tone::Plain,
        ("serving" | "stopping" | "waiting to join", _) => Tone::Warn,
        _ => Tone::Bad,
    }
}

fn state_row(node: &NodeOverview) -> [String; STATE_HEAD.len()] {
    [
        node.name.clone(),
        node.url.clone(),
        known(node.version.clone()),
        node.state.clone(),
        known(node.replica_state.clone()),
        node.hints_waiting.to_string(),
        last_repair(node),
    ]
}

/// How long ago the last repair was that found the node equal with all others.
fn last_repair(node: &NodeOverview) -> String {
    if let Some(never) = node
        .last_equal
        .iter()
        .find(|last| last.seconds_ago.is_none())
    {
        return format!("never with {}", never.name);
    }
    let oldest = node
        .last_equal
        .iter()
        .filter_map(|last| last.seconds_ago)
        .max();
    known(oldest.map(|seconds| format!("{} ago", span(seconds))))
}

/// How far a clock is ahead, roughly from a minute on.
fn clock_ahead(ahead_ms: i64) -> String {
    let seconds = ahead_ms.unsigned_abs() / 1000;
    if seconds < 60 {
        return format!("{ahead_ms:+} ms");
    }
    let sign = if ahead_ms < 0 { '-' } else { '+' };
    format!("{sign}{}", span(seconds))
}

fn load_row(node: &NodeOverview) -> [String; LOAD_HEAD.len()] {
    let report = node.report.as_ref();
    let p99 = |quantiles: &Quantiles| latency(quantiles.p99_us as f64 / 1000.0);
    [
        node.name.clone(),
        known(report.map(|report| rate(report.requests_a_second))),
        known(report.and_then(|report| report.reads.as_ref()).map(p99)),
        known(report.and_then(|report| report.writes.as_ref()).map(p99)),
        known(report.map(|report| bytes(report.data_bytes as f64))),
        known(report.and_then(disk_free)),
        known(node.clock_ahead_ms.map(clock_ahead)),
        known(node.certificate_seconds_left.map(|left| match left {
            0 => "expired".to_owned(),
            left => format!("{} left", span(left)),
        })),
    ]
}

/// What a node's disk has left, of how much.
fn disk_free(report: &ReportNumbers) -> Option<String> {
    let free = report.free_bytes? as f64;
    let size = report.disk_bytes.map(|size| size as f64);
    Some(match size.filter(|size| *size > 0.0) {
        Some(size) => format!(
            "{} of {} ({:.0}%)",
            bytes(free),
            bytes(size),
            free / size * 100.0
        ),
        None => bytes(free),
    })
}

fn known(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| UNKNOWN.to_owned())
}

fn speed(bytes_per_second: Option<u64>) -> String {
    bytes_per_second.map_or_else(String::new, |speed| format!(", {}/s", bytes(speed as f64)))
}

fn left(seconds: Option<u64>) -> String {
    seconds.map_or_else(String::new, |seconds| {
        format!(", about {} left", span(seconds))
    })
}

fn rebuild_line(node: &NodeOverview) -> Option<String> {
    let rebuild = node.rebuild.as_ref()?;
    let goes_on = match &rebuild.stalled_because {
        Some(why) => format!("; it stands still, because {why}"),
        None => speed(rebuild.bytes_per_second) + &left(rebuild.seconds_left),
    };
    // The share is how far the comparison has come: of one that stores nothing it says nothing.
    let shows_share = rebuild.stalled_because.is_none() && rebuild.received_bytes > 0;
    let share = if shows_share {
        format!("{:.0}%, ", rebuild.share * 100.0)
    } else {
        String::new()
    };
    Some(format!(
        "{} is being rebuilt: {share}{} received{goes_on}",
        node.name,
        bytes(rebuild.received_bytes as f64)
    ))
}

fn compaction_line(node: &NodeOverview) -> Option<String> {
    let compaction = node.compaction.as_ref()?;
    Some(format!(
        "{} has been compacting its store for {} and has merged {}",
        node.name,
        span(compaction.seconds),
        bytes(compaction.merged_bytes as f64)
    ))
}

fn non_owned_line(node: &NodeOverview) -> Option<String> {
    let non_owned = node
        .non_owned
        .as_ref()
        .filter(|non_owned| non_owned.copies > 0)?;
    let copies = match non_owned.copies {
        1 => "1 copy".to_owned(),
        copies => format!("{copies} copies"),
    };
    let which = match non_owned.age_seconds {
        Some(age) => format!("those more than {} old may be dropped", span(age)),
        None => "none may be dropped before a full repair with all nodes".to_owned(),
    };
    Some(format!(
        "{} keeps {copies} beyond the replicas of their versions: {which}",
        node.name
    ))
}

/// What is to be done begins with `!`.
fn advice_line(advice: &Advice) -> Line {
    let sign = if advice.severity == Severity::Note {
        "-"
    } else {
        "!"
    };
    Line {
        text: format!("{sign} {advice}. Runbook: {}", advice.runbook_url),
        tone: advice.severity.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::overview::{CompactionOverview, LastEqualOverview, RepairOverview};
    use super::super::tombstone_gc::TombstoneGcOverview;
    use super::*;
    use api::status::{NonOwnedCopies, RebuildOverview};

    fn serving(name: &str, replica_state: &str) -> NodeOverview {
        NodeOverview {
            name: name.to_owned(),
            url: format!("http://{name}:1"),
            version: Some("0.1.0".to_owned()),
            state: "serving".to_owned(),
            replica_state: Some(replica_state.to_owned()),
            ..NodeOverview::default()
        }
    }

    fn last_equal(name: &str, seconds_ago: Option<u64>) -> LastEqualOverview {
        LastEqualOverview {
            name: name.to_owned(),
            seconds_ago,
        }
    }

    #[test]
    fn each_node_has_two_rows_and_each_advice_a_line() {
        let quantiles = |p99_us| Quantiles {
            p50_us: 1,
            p99_us,
            p999_us: 1,
        };
        let busy = NodeOverview {
            report: Some(ReportNumbers {
                data_bytes: 3 << 30,
                free_bytes: Some(40 << 30),
                disk_bytes: Some(100 << 30),
                hints: 0,
                background_share: 1.0,
                requests_a_second: 12_345.0,
                reads: Some(quantiles(812)),
                writes: Some(quantiles(1_630)),
            }),
            clock_ahead_ms: Some(-3),
            certificate_seconds_left: Some(89 * 86_400),
            hints_waiting: 12,
            rebuild: Some(RebuildOverview {
                received_bytes: 300 << 20,
                received_keys: 7,
                share: 0.25,
                bytes_per_second: Some(5 << 20),
                seconds_left: Some(600),
                stalled_because: None,
            }),
            compaction: Some(CompactionOverview {
                seconds: 300,
                merged_bytes: 7 << 20,
            }),
            non_owned: Some(NonOwnedCopies {
                bound_unix_ms: None,
                copies: 3,
                age_seconds: Some(1_036_800),
            }),
            last_equal: vec![last_equal("b", Some(180)), last_equal("c", Some(7))],
            ..serving("a", "voter")
        };
        let expired = NodeOverview {
            rebuild: Some(RebuildOverview {
                received_bytes: 300 << 20,
                received_keys: 7,
                share: 0.25,
                bytes_per_second: Some(5 << 20),
                seconds_left: None,
                stalled_because: Some("its disk has no room".to_owned()),
            }),
            certificate_seconds_left: Some(0),
            non_owned: Some(NonOwnedCopies {
                bound_unix_ms: None,
                copies: 1,
                age_seconds: None,
            }),
            last_equal: vec![last_equal("a", Some(180)), last_equal("north-2", None)],
            ..serving("b", "learner")
        };
        let down = NodeOverview {
            name: "north-2".to_owned(),
            url: "http://north-2:1".to_owned(),
            state: "unreachable".to_owned(),
            ..NodeOverview::default()
        };
        let advice = |severity| Advice {
            severity,
            node: Some("north-2".to_owned()),
            what: "it is down".to_owned(),
            remedy: "Start it".to_owned(),
            runbook: "A node is down".to_owned(),
            runbook_url: "http://a:1/#/runbooks?at=a-node-is-down".to_owned(),
        };
        let nodes = vec![busy, expired, down];
        let overview = Overview {
            quorum: QuorumOverview::of(&nodes),
            nodes,
            repair: vec![
                RepairOverview {
                    kind: "incremental".to_owned(),
                    seconds: 5,
                    ranges: 3,
                    share: None,
                    bytes_per_second: None,
                    seconds_left: None,
                },
                RepairOverview {
                    kind: "full".to_owned(),
                    seconds: 7_200,
                    ranges: 180_000,
                    share: Some(0.75),
                    bytes_per_second: Some(200 << 20),
                    seconds_left: Some(2_400),
                },
            ],
            tombstone_gc: Some(TombstoneGcOverview {
                gc_grace_seconds: 864_000,
                age_seconds: Some(1_036_800),
                held_back_by: Vec::new(),
            }),
            advice: [Severity::Bad, Severity::Warn, Severity::Note]
                .map(advice)
                .into(),
        };
        let expected = [
            (
                Tone::Bad,
                "1 of 3 nodes vote: too few for a quorum of all nodes",
            ),
            (Tone::Plain, ""),
            (
                Tone::Plain,
                "node     URL               version  state        replica state  hints for it  last repair",
            ),
            (
                Tone::Plain,
                "a        http://a:1        0.1.0    serving      voter          12            3m ago",
            ),
            (
                Tone::Warn,
                "b        http://b:1        0.1.0    serving      learner        0             never with north-2",
            ),
            (
                Tone::Bad,
                "north-2  http://north-2:1  -        unreachable  -              0             -",
            ),
            (Tone::Plain, ""),
            (
                Tone::Plain,
                "node     requests  p99 of reads  p99 of writes  data      disk free                  clock  certificate",
            ),
            (
                Tone::Plain,
                "a        12,345/s  812 us        1.63 ms        3.00 GiB  40.0 GiB of 100 GiB (40%)  -3 ms  89d left",
            ),
            (
                Tone::Warn,
                "b        -         -             -              -         -                          -      expired",
            ),
            (
                Tone::Bad,
                "north-2  -         -             -              -         -                          -      -",
            ),
            (Tone::Plain, ""),
            (
                Tone::Plain,
                "a is being rebuilt: 25%, 300 MiB received, 5.00 MiB/s, about 10m left",
            ),
            (
                Tone::Plain,
                "b is being rebuilt: 300 MiB received; it stands still, because its disk has no room",
            ),
            (
                Tone::Plain,
                "a has been compacting its store for 5m and has merged 7.00 MiB",
            ),
            (
                Tone::Plain,
                "a keeps 3 copies beyond the replicas of their versions: those more than 12d old may be dropped",
            ),
            (
                Tone::Plain,
                "b keeps 1 copy beyond the replicas of their versions: none may be dropped before a full repair with all nodes",
            ),
            (
                Tone::Plain,
                "an incremental repair has been running for 5s and has compared 3 ranges",
            ),
            (
                Tone::Plain,
                "a full repair has been running for 2h and has compared 180,000 ranges, 75% of the store, 200 MiB/s, about 40m left",
            ),
            (
                Tone::Plain,
                "tombstones older than 12d may be dropped (grace: 10d)",
            ),
            (Tone::Plain, ""),
            (
                Tone::Bad,
                "! north-2: it is down. Start it. Runbook: http://a:1/#/runbooks?at=a-node-is-down",
            ),
            (
                Tone::Warn,
                "! north-2: it is down. Start it. Runbook: http://a:1/#/runbooks?at=a-node-is-down",
            ),
            (
                Tone::Plain,
                "- north-2: it is down. Start it. Runbook: http://a:1/#/runbooks?at=a-node-is-down",
            ),
        ];
        let lines = lines(&overview);
        for (line, (tone, text)) in lines.iter().zip(expected) {
            assert_eq!((line.tone, &*line.text), (tone, text));
        }
        assert_eq!(lines.len(), expected.len());
    }

    #[test]
    fn a_clock_that_is_far_off_is_shown_roughly() {
        let shown = [0, 3, -59_999, 60_000, 5_399_999, -7_200_000].map(clock_ahead);
        assert_eq!(
            shown,
            ["+0 ms", "+3 ms", "-59999 ms", "+60s", "+89m", "-2h"]
        );
    }

    #[test]
    fn the_first_line_says_how_many_nodes_may_fail() {
        for (states, tone, text) in [
            (
                &["voter"][..],
                Tone::Good,
                "1 of 1 node votes: none may fail",
            ),
            (&["voter"; 3], Tone::Good, "3 of 3 nodes vote: 1 may fail"),
            (&["voter"; 5], Tone::Good, "5 of 5 nodes vote: 2 may fail"),
            (
                &["voter", "learner", "forced_voter"],
                Tone::Warn,
                "2 of 3 nodes vote: none may fail",
            ),
            (
                &["voter", "voter", "voter", "voter", "starting"],
                Tone::Warn,
                "4 of 5 nodes vote: 1 may fail",
            ),
            (
                &["voter", "learner"],
                Tone::Bad,
                "1 of 2 nodes vote: too few for a quorum of all nodes",
            ),
        ] {
            let nodes: Vec<NodeOverview> = states.iter().map(|state| serving("a", state)).collect();
            let line = quorum_line(&QuorumOverview::of(&nodes));
            assert_eq!((line.tone, &*line.text), (tone, text));
        }
        let mut nodes = ["voter"; 3].map(|state| serving("a", state));
        for text in [
            "3 of 3 nodes vote, and 2 of them can store puts: none may fail",
            "3 of 3 nodes vote, and 1 of them can store puts: too few for a quorum of all nodes",
        ] {
            let open = nodes.iter_mut().find(|node| node.store.is_none()).unwrap();
            open.store = Some("disk full".to_owned());
            assert_eq!(quorum_line(&QuorumOverview::of(&nodes)).text, text);
        }
    }
}
