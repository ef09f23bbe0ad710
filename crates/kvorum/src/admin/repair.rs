//! `kvorum admin repair`.

use super::target::{ANSWER_BYTES_MAX, Target};
use super::waiting::show_repair;
use crate::failure::Failure;
use crate::node_client::{NodeRequest, refusal};
use crate::stdout::{print_json, print_lines};
use clap::Args;
use serde::Deserialize;
use std::time::Duration;
use units::counted;

/// The options of `admin repair`.
#[derive(Args, Clone, Debug)]
pub(super) struct RepairOptions {
    /// Compare everything and verify every stored block, not only what has changed
    #[arg(long)]
    full: bool,
    /// Wait for the end, and print the result; exit code 1 if the nodes are not equal
    #[arg(long)]
    wait: bool,
    /// Print JSON for programs instead of a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// How long a repair is waited for. A full repair reads all data once.
const REPAIR_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a node may take to begin one.
const BEGIN_MAX: Duration = Duration::from_secs(30);

/// What a node answers.
#[derive(Debug, Deserialize)]
struct Repair {
    kind: String,
    joined: bool,
    #[serde(default)]
    equal: Option<bool>,
    #[serde(default)]
    ranges: u64,
    #[serde(default)]
    ranges_differing: u64,
    #[serde(default)]
    pairs: u64,
    #[serde(default)]
    pairs_equal: u64,
    held_back: Option<HeldBack>,
}

/// Why the GC threshold has not risen.
#[derive(Debug, Deserialize)]
struct HeldBack {
    text: String,
}

/// Has a node coordinate a repair.
///
/// # Errors
/// The node cannot be reached, or refuses; or the repair did not find all nodes equal.
pub(super) fn run(options: &RepairOptions) -> Result<(), Failure> {
    let (node, access) = options.target.choose()?;
    let (full, wait) = (options.full, options.wait);
    let request = NodeRequest {
        node: &node,
        access: &access,
        is_named: true,
        method: "POST",
        target: &format!("/v0/admin/repair?full={full}&wait={wait}"),
        headers: &[("Content-Type", "application/json")],
        time_max: if wait { REPAIR_MAX } else { BEGIN_MAX },
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let answer = if wait {
        request.send_beside(show_repair(&node, &access, full))?
    } else {
        request.send()?
    };
    if !matches!(answer.status, 200 | 202) {
        return Err(refusal(&node, answer.status, &answer.body));
    }
    let other_server =
        |error| Failure::failed(format!("{node} does not answer as a Kvorum node: {error}"));
    let json: serde_json::Value = serde_json::from_slice(&answer.body).map_err(other_server)?;
    let repair = Repair::deserialize(&json).map_err(other_server)?;
    if options.json {
        print_json(&json)?;
    }
    let line = describe(&repair);
    if repair.equal == Some(false) {
        return Err(Failure::failed(line));
    }
    if wait && repair.equal.is_none() {
        return Err(Failure::failed(format!(
            "{node} stopped before the repair ended: see 'kvorum admin status'"
        )));
    }
    if options.json {
        return Ok(());
    }
    print_lines([line])
}

/// A repair of a kind, with its article.
pub(super) fn repair_of_kind(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind} repair")
}

/// What a node has answered, as one line.
fn describe(repair: &Repair) -> String {
    let kind = repair_of_kind(&repair.kind);
    let Some(are_equal) = repair.equal else {
        let begun = if repair.joined {
            format!("{kind} was already running")
        } else {
            format!("{kind} has started")
        };
        return format!("{begun}: 'kvorum admin status' shows its progress");
    };
    let ranges = counted(repair.ranges, "range");
    let differing = match repair.ranges_differing {
        0 => "no two nodes differed".to_owned(),
        differing => format!("two nodes differed {}", counted(differing, "time")),
    };
    let found = format!("{kind} has compared {ranges}, in which {differing}");
    if are_equal {
        match &repair.held_back {
            None => format!("{found}; all nodes are equal"),
            Some(why) => format!(
                "{found}; all nodes are equal. The GC threshold has not risen: {}",
                why.text
            ),
        }
    } else {
        format!(
            "{found}; only {} of {} pairs of nodes are equal: see 'kvorum admin status', and \
             repair again once all nodes are up",
            repair.pairs_equal, repair.pairs
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(json: &str) -> String {
        describe(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_report_says_whether_the_nodes_are_equal() {
        let begun = described(r#"{"kind":"full","joined":false,"state":"ordered"}"#);
        assert!(begun.starts_with("a full repair has started"), "{begun}");
        let joined = described(r#"{"kind":"full","joined":true,"state":"running"}"#);
        assert!(joined.contains("already running"), "{joined}");
        let equal = described(
            r#"{"kind":"incremental","joined":false,"state":"ended","equal":true,"ranges":7,
                "ranges_differing":0,"pairs":3,"pairs_equal":3}"#,
        );
        assert!(equal.contains("7 ranges, in which no two nodes differed"));
        assert!(equal.ends_with("all nodes are equal"), "{equal}");
        let held_back = described(
            r#"{"kind":"full","joined":false,"state":"ended","equal":true,"ranges":7,
                "ranges_differing":0,"pairs":3,"pairs_equal":3,
                "held_back":{"nodes":["c"],"text":"c has a wrong clock"}}"#,
        );
        assert!(
            held_back.ends_with("has not risen: c has a wrong clock"),
            "{held_back}"
        );
        let unequal = described(
            r#"{"kind":"incremental","joined":false,"state":"ended","equal":false,"ranges":7,
                "ranges_differing":2,"pairs":3,"pairs_equal":1}"#,
        );
        assert!(unequal.contains("two nodes differed 2 times"), "{unequal}");
        assert!(unequal.contains("only 1 of 3 pairs"), "{unequal}");
    }
}
