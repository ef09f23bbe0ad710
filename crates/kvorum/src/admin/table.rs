//! The overview of a cluster as text.

use super::overview::{NodeOverview, Overview};
use api::cluster::{Advice, Severity};
use units::{Columns, counted, rough_span as span};

const HEAD: [&str; 5] = [
    "node",
    "state",
    "replica state",
    "hints",
    "last successful repair",
];

/// The overview as the lines of a table, with the running repairs and the advice below it.
pub(super) fn lines(overview: &Overview) -> Vec<String> {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(overview.nodes.iter().map(row));
    let mut lines = units::lines_of(Columns::Left, &rows);
    let mut paragraph = |text: String| lines.extend([String::new(), text]);
    for (node, rebuild) in overview
        .nodes
        .iter()
        .filter_map(|node| Some((node, node.rebuild.as_ref()?)))
    {
        let left = match rebuild.seconds_left {
            Some(seconds) => format!(", about {} left", span(seconds)),
            None => String::new(),
        };
        paragraph(format!(
            "{} is being filled: {:.0}%, {} MiB received{left}",
            node.name,
            rebuild.share * 100.0,
            rebuild.received_bytes >> 20
        ));
    }
    for (name, compaction) in overview
        .nodes
        .iter()
        .filter_map(|node| Some((&node.name, node.compaction.as_ref()?)))
    {
        paragraph(format!(
            "{name} has been compacting its store for {} and has merged {} MiB",
            span(compaction.seconds),
            compaction.merged_bytes >> 20
        ));
    }
    for (name, non_owned) in overview
        .nodes
        .iter()
        .filter_map(|node| Some((&node.name, node.non_owned.as_ref()?)))
        .filter(|(_, non_owned)| non_owned.copies > 0)
    {
        let copies = match non_owned.copies {
            1 => "1 copy".to_owned(),
            copies => format!("{copies} copies"),
        };
        let which = match non_owned.age_seconds {
            Some(age) => format!("those more than {} old may be dropped", span(age)),
            None => "none may be dropped before a full repair with all nodes".to_owned(),
        };
        paragraph(format!(
            "{name} keeps {copies} beyond the replicas of their versions: {which}"
        ));
    }
    for sweep in &overview.repair {
        paragraph(format!(
            "a {} repair has been running for {} and has compared {}",
            sweep.kind,
            span(sweep.seconds),
            counted(sweep.ranges, "range")
        ));
    }
    if let Some(tombstone_gc) = &overview.tombstone_gc {
        paragraph(tombstone_gc.text());
    }
    if !overview.advice.is_empty() {
        lines.push(String::new());
    }
    lines.extend(overview.advice.iter().map(advice_line));
    lines
}

/// What is to be done begins with `!`.
fn advice_line(advice: &Advice) -> String {
    let sign = if advice.severity == Severity::Note {
        "-"
    } else {
        "!"
    };
    format!("{sign} {advice} (runbook: {})", advice.runbook)
}

fn row(node: &NodeOverview) -> [String; HEAD.len()] {
    let clean = node.last_clean.iter().map(|clean| {
        let when = clean.seconds_ago.map_or("never".to_owned(), |seconds| {
            format!("{} ago", span(seconds))
        });
        format!("{}: {when}", clean.name)
    });
    [
        node.name.clone(),
        node.state.clone(),
        node.replica_state.clone().unwrap_or_else(|| "-".to_owned()),
        node.hints_waiting.to_string(),
        clean.collect::<Vec<_>>().join(", "),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::overview::{CompactionOverview, LastCleanOverview, RepairOverview};
    use super::super::tombstone_gc::TombstoneGcOverview;
    use super::*;
    use api::status::{NonOwnedCopies, RebuildOverview};

    #[test]
    fn each_node_has_a_row_and_each_advice_a_line() {
        let node = |name: &str, state: &str, replica_state: Option<&str>, clean| NodeOverview {
            name: name.to_owned(),
            url: "http://h:1".to_owned(),
            state: state.to_owned(),
            replica_state: replica_state.map(str::to_owned),
            hints_waiting: 12,
            background_share: Some(1.0),
            rebuild: (name == "a").then_some(RebuildOverview {
                received_bytes: 300 << 20,
                received_keys: 7,
                share: 0.25,
                seconds_left: Some(600),
            }),
            compaction: (name == "a").then_some(CompactionOverview {
                seconds: 300,
                merged_bytes: 7 << 20,
            }),
            non_owned: Some(NonOwnedCopies {
                bound_unix_ms: None,
                copies: if name == "a" { 3 } else { 1 },
                age_seconds: (name == "a").then_some(1_036_800),
            }),
            last_clean: clean,
        };
        let clean = |name: &str, seconds_ago| LastCleanOverview {
            name: name.to_owned(),
            seconds_ago,
        };
        let advice = |severity| Advice {
            severity,
            node: Some("north-2".to_owned()),
            what: "it is down".to_owned(),
            remedy: "Start it".to_owned(),
            runbook: "A node is down".to_owned(),
        };
        let overview = Overview {
            nodes: vec![
                node(
                    "a",
                    "serving",
                    Some("voter"),
                    vec![clean("b", Some(180)), clean("c", None)],
                ),
                node("north-2", "unreachable", None, Vec::new()),
            ],
            repair: vec![RepairOverview {
                kind: "full".to_owned(),
                seconds: 5,
                ranges: 3,
            }],
            tombstone_gc: Some(TombstoneGcOverview {
                gc_grace_seconds: 864_000,
                age_seconds: Some(1_036_800),
                held_back_by: Vec::new(),
            }),
            advice: [Severity::Bad, Severity::Note].map(advice).into(),
        };
        let expected = "\
node     state        replica state  hints  last successful repair
a        serving      voter          12     b: 3m ago, c: never
north-2  unreachable  -              12

a is being filled: 25%, 300 MiB received, about 10m left

a has been compacting its store for 5m and has merged 7 MiB

a keeps 3 copies beyond the replicas of their versions: those more than 12d old may be dropped

north-2 keeps 1 copy beyond the replicas of their versions: none may be dropped before a full repair with all nodes

a full repair has been running for 5s and has compared 3 ranges

tombstones older than 12d may be dropped (grace: 10d)

! north-2: it is down. Start it (runbook: A node is down)
- north-2: it is down. Start it (runbook: A node is down)";
        assert_eq!(lines(&overview).join("\n"), expected);
    }
}
