//! `kvorum admin compact`.

use super::status::{Member, members};
use super::target::{ANSWER_BYTES_MAX, Target};
use super::waiting::Compactions;
use crate::access::Access;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::{print_json, print_lines};
use clap::Args;
use cluster::NodeUrl;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::Duration;
use units::{bytes, counted};

/// The options of `admin compact`.
#[derive(Args, Clone, Debug)]
pub(super) struct CompactOptions {
    /// The names of the nodes to compact; all nodes if none is named
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Wait for the end, and print what is left
    #[arg(long)]
    wait: bool,
    /// Print JSON for programs instead of a line for each node
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// How long a compaction is waited for. It reads and writes all data of the node once.
const COMPACTION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a node may take to begin one.
const BEGIN_MAX: Duration = Duration::from_secs(30);

/// What a node answers.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Compaction {
    /// `ordered`, `running` or `ended`.
    state: String,
    /// Whether it had begun before.
    joined: bool,
    #[serde(flatten)]
    report: Option<Report>,
}

/// What a compaction has done.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Report {
    before: Contents,
    after: Contents,
}

/// What the tables of a node hold.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
struct Contents {
    table_bytes: u64,
    entries: u64,
    tombstones: u64,
}

/// What became of the request to a node.
#[derive(Debug, Serialize)]
struct CompactedNode {
    name: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Done(Compaction),
    Failed { problem: String },
}

/// All nodes that were asked, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    nodes: &'a [CompactedNode],
}

/// Has nodes compact their stores, all of them at the same time.
///
/// # Errors
/// A name that no node has; a node that cannot be reached, or refuses; a compaction that
/// failed.
pub(super) fn run(options: &CompactOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let cluster = members(&node, &access)?;
    let is_alone = cluster.len() == 1;
    let members = chosen(&cluster, &options.nodes)?;
    let shown = options.wait.then(Compactions::new);
    let asked: Vec<CompactedNode> = thread::scope(|scope| {
        let asked: Vec<_> = members
            .iter()
            .map(|member| (member, scope.spawn(|| ask(member, &access, shown.as_ref()))))
            .collect();
        let asked = asked.into_iter().map(|(member, answer)| CompactedNode {
            name: member.name.clone(),
            outcome: match answer.join() {
                Ok(Ok(compaction)) => Outcome::Done(compaction),
                Ok(Err(problem)) => Outcome::Failed { problem },
                Err(_) => Outcome::Failed {
                    problem: "the request panicked".to_owned(),
                },
            },
        });
        asked.collect()
    });
    drop(shown);
    if options.json {
        print_json(&Answer { nodes: &asked })?;
    } else {
        print_lines(lines(&asked, is_alone))?;
    }
    match problems(&asked) {
        None => Ok(()),
        Some(problems) => Err(Failure::failed(format!(
            "{problems}. Fix that, then compact these nodes again"
        ))),
    }
}

/// The members with these names, or all.
fn chosen(members: &[Member], names: &[String]) -> Result<Vec<Member>, Failure> {
    if names.is_empty() {
        return Ok(members.to_vec());
    }
    let unknown = names
        .iter()
        .find(|name| members.iter().all(|member| member.name != **name));
    if let Some(unknown) = unknown {
        let known: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "no node has the name {unknown}: the nodes are {}",
            known.join(", ")
        )));
    }
    let chosen = members.iter().filter(|member| names.contains(&member.name));
    Ok(chosen.cloned().collect())
}

/// Asks a node, and waits for its end if the work of all nodes is `shown`.
fn ask(
    member: &Member,
    access: &Access,
    shown: Option<&Compactions>,
) -> Result<Compaction, String> {
    let waits = shown.is_some();
    let node: NodeUrl = member
        .url
        .parse()
        .map_err(|error| format!("its URL {} is wrong: {error}", member.url))?;
    let request = NodeRequest {
        node: &node,
        access,
        is_named: false,
        method: "POST",
        target: &format!("/v0/admin/compact?wait={waits}"),
        headers: &[("Content-Type", "application/json")],
        time_max: if waits { COMPACTION_MAX } else { BEGIN_MAX },
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = match shown {
        Some(shown) => request.send_beside(shown.show(&member.name, &node, access)),
        None => request.send(),
    };
    let answer = answer.map_err(|failure| failure.line().to_owned())?;
    if !matches!(answer.status, 200 | 202) {
        return Err(refusal(&node, answer.status, &answer.body)
            .line()
            .to_owned());
    }
    let compaction: Compaction = serde_json::from_slice(&answer.body)
        .map_err(|error| format!("{node} does not answer as a Kvorum node: {error}"))?;
    if waits && compaction.report.is_none() {
        return Err(format!(
            "{node} stopped before the compaction ended: start it, then compact it again"
        ));
    }
    Ok(compaction)
}

/// A line for each node that has done what it was asked for.
fn lines(asked: &[CompactedNode], is_alone: bool) -> Vec<String> {
    let lines = asked.iter().filter_map(|node| match &node.outcome {
        Outcome::Done(compaction) => {
            Some(format!("{}: {}", node.name, describe(compaction, is_alone)))
        }
        Outcome::Failed { .. } => None,
    });
    lines.collect()
}

/// The problems of the other nodes.
fn problems(asked: &[CompactedNode]) -> Option<String> {
    let problems = asked.iter().filter_map(|node| match &node.outcome {
        Outcome::Done(_) => None,
        Outcome::Failed { problem } => Some(format!("{}: {problem}", node.name)),
    });
    let problems: Vec<String> = problems.collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// What a node has answered, as one line. A node alone has no GC threshold.
fn describe(compaction: &Compaction, is_alone: bool) -> String {
    let Some(Report { before, after }) = &compaction.report else {
        return if compaction.joined {
            "a compaction was already running".to_owned()
        } else {
            "a compaction has started".to_owned()
        } + ": 'kvorum admin status' shows its progress";
    };
    let left = match after.tombstones {
        0 => ", and no tombstone is left".to_owned(),
        left => format!(
            ", and {} left {}",
            counted(left, "tombstone"),
            if is_alone {
                "for a later compaction: the last writes and running scans need them"
            } else {
                "until the GC threshold rises further; 'kvorum admin status' shows it"
            }
        ),
    };
    format!(
        "its tables hold {} in {} after {} in {}{left}",
        counted(after.entries, "version"),
        bytes(after.table_bytes as f64),
        before.entries,
        bytes(before.table_bytes as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compaction(json: serde_json::Value) -> Compaction {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_line_says_what_became_of_the_store() {
        let described = |compaction: &Compaction| describe(compaction, false);
        let ordered = compaction(json!({"joined": false, "state": "ordered"}));
        assert!(described(&ordered).starts_with("a compaction has started"));
        let joined = compaction(json!({"joined": true, "state": "running"}));
        assert!(described(&joined).starts_with("a compaction was already running"));
        let ended = |left: u64| {
            compaction(json!({
                "joined": false, "state": "ended",
                "before": {"table_bytes": 30 << 20, "entries": 900, "tombstones": 400},
                "after": {"table_bytes": 20 << 10, "entries": 500, "tombstones": left},
            }))
        };
        assert_eq!(
            described(&ended(0)),
            "its tables hold 500 versions in 20.0 KiB after 900 in 30.0 MiB, and no tombstone is left"
        );
        let left = described(&ended(1));
        assert!(left.contains("1 tombstone left"), "{left}");
        let left = described(&ended(7));
        assert!(left.contains("7 tombstones left"), "{left}");
        assert!(left.contains("GC threshold"), "{left}");
        let alone = describe(&ended(7), true);
        assert!(alone.contains("7 tombstones left for a later"), "{alone}");
        assert!(!alone.contains("GC threshold"), "{alone}");
    }

    #[test]
    fn only_nodes_of_the_cluster_are_compacted() {
        let member = |name: &str| Member {
            name: name.to_owned(),
            url: "http://h:1".to_owned(),
        };
        let members = [member("a"), member("b"), member("c")];
        let chosen_of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let chosen = chosen(&members, &names)?;
            Ok(chosen.into_iter().map(|member| member.name).collect())
        };
        let all: Result<Vec<String>, Failure> = chosen_of(&[]);
        assert_eq!(all.unwrap(), ["a", "b", "c"]);
        assert_eq!(chosen_of(&["c", "a"]).unwrap(), ["a", "c"]);
        let unknown = chosen_of(&["b", "d"]).unwrap_err();
        let line = "no node has the name d: the nodes are a, b, c";
        assert_eq!(unknown, Failure::usage(line));
    }

    #[test]
    fn a_node_that_fails_does_not_hide_the_others() {
        let asked = [
            CompactedNode {
                name: "a".to_owned(),
                outcome: Outcome::Done(compaction(json!({"joined": false, "state": "ordered"}))),
            },
            CompactedNode {
                name: "b".to_owned(),
                outcome: Outcome::Failed {
                    problem: "cannot reach it".to_owned(),
                },
            },
        ];
        assert_eq!(lines(&asked, false).len(), 1);
        assert_eq!(problems(&asked).unwrap(), "b: cannot reach it");
        assert_eq!(problems(&asked[..1]), None);
        let json = serde_json::to_value(Answer { nodes: &asked }).unwrap();
        let expected = json!({"nodes": [
            {"name": "a", "joined": false, "state": "ordered"},
            {"name": "b", "problem": "cannot reach it"},
        ]});
        assert_eq!(json, expected);
    }
}
