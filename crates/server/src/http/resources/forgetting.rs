//! What the status says of forgetting.

use crate::door::Door;
use base::Timestamp;
use cluster::NodeNumber;
use node::HeldBack;
use serde::Serialize;

/// Below which bound the node drops what is dead.
#[derive(Serialize)]
pub(super) struct Forgetting {
    grace_seconds: u64,
    /// The forget bound as a version, in a string; missing before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten_unix_ms: Option<u64>,
    /// How old it is by this node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence_unix_ms: Option<u64>,
    /// Why the last full sweep that this node led has not raised the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_back: Option<HeldBackBy>,
}

/// Who kept the bound from rising.
#[derive(Serialize)]
struct HeldBackBy {
    /// The names of the nodes; none where it was no node's fault.
    nodes: Vec<String>,
    /// The same for people.
    text: String,
}

impl HeldBackBy {
    fn of(why: &HeldBack, name: impl Fn(NodeNumber) -> String) -> Self {
        match why {
            HeldBack::By(nodes) => {
                let nodes: Vec<String> = nodes.iter().map(|node| name(*node)).collect();
                Self {
                    text: format!(
                        "these nodes were away, had no trusted clock or run an older release: {}",
                        nodes.join(", ")
                    ),
                    nodes,
                }
            }
            HeldBack::Unequal(pairs) => {
                let texts = pairs
                    .iter()
                    .map(|(one, other)| format!("{} and {}", name(*one), name(*other)));
                let texts: Vec<String> = texts.collect();
                let mut nodes: Vec<NodeNumber> = pairs
                    .iter()
                    .flat_map(|(one, other)| [*one, *other])
                    .collect();
                nodes.sort_unstable();
                nodes.dedup();
                Self {
                    nodes: nodes.into_iter().map(name).collect(),
                    text: format!("these nodes could not be made equal: {}", texts.join(", ")),
                }
            }
            HeldBack::Inconclusive => Self {
                nodes: Vec::new(),
                text: "the last full sweep was interrupted, or found versions where they do not \
                       belong"
                    .to_owned(),
            },
        }
    }
}

pub(super) fn forgetting(door: &Door) -> Forgetting {
    let config = &door.shared().config().node;
    let status = door.worker.node().forgetting_status();
    let given = |timestamp: Timestamp| (timestamp > Timestamp::ZERO).then_some(timestamp);
    let forgotten = given(status.forgotten);
    let forgotten_unix_ms = forgotten.map(Timestamp::unix_ms);
    let now_unix_ms = door.clock().unix_ms();
    let name = |node: NodeNumber| config.members.name(node).to_owned();
    Forgetting {
        grace_seconds: config.grace.as_secs(),
        forgotten: forgotten.map(|forgotten| forgotten.to_string()),
        forgotten_unix_ms,
        age_seconds: forgotten_unix_ms.map(|bound| now_unix_ms.saturating_sub(bound) / 1000),
        fence_unix_ms: given(status.fence).map(Timestamp::unix_ms),
        held_back: status.held_back.map(|why| HeldBackBy::of(&why, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_held_the_bound_back_are_named_once() {
        let node = NodeNumber::new;
        let name = |node: NodeNumber| format!("n{}", node.index());
        let of = |why| HeldBackBy::of(&why, name);
        let away = of(HeldBack::By(vec![node(2)]));
        assert_eq!(away.nodes, ["n2"]);
        assert!(away.text.ends_with("older release: n2"), "{}", away.text);
        let pairs = vec![(node(0), node(2)), (node(1), node(2))];
        let unequal = of(HeldBack::Unequal(pairs));
        assert_eq!(unequal.nodes, ["n0", "n1", "n2"]);
        assert!(
            unequal.text.ends_with("n0 and n2, n1 and n2"),
            "{}",
            unequal.text
        );
        assert!(of(HeldBack::Inconclusive).nodes.is_empty());
    }
}
