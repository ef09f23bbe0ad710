//! What the status says of forgetting.

use crate::door::Door;
use cluster::NodeNumber;
use node::HeldBack;
use serde::Serialize;

/// Below which bound the node drops what is dead.
#[derive(Serialize)]
pub(super) struct Forgetting {
    grace_seconds: u64,
    /// The forget bound; missing before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten_unix_ms: Option<u64>,
    /// How old it is by this node's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence_unix_ms: Option<u64>,
    /// Why the last full sweep that this node led has not raised the bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_back: Option<String>,
}

pub(super) fn forgetting(door: &Door) -> Forgetting {
    let config = &door.shared().config().node;
    let status = door.worker.node().forgetting_status();
    let unix_ms = |timestamp: base::Timestamp| {
        (timestamp > base::Timestamp::ZERO).then(|| timestamp.unix_ms())
    };
    let forgotten_unix_ms = unix_ms(status.forgotten);
    let now_unix_ms = door.clock().unix_ms();
    let name = |node: &NodeNumber| config.members.name(*node).to_owned();
    Forgetting {
        grace_seconds: config.grace.as_secs(),
        forgotten_unix_ms,
        age_seconds: forgotten_unix_ms.map(|bound| now_unix_ms.saturating_sub(bound) / 1000),
        fence_unix_ms: unix_ms(status.fence),
        held_back: status.held_back.map(|why| match why {
            HeldBack::By(nodes) => {
                let names: Vec<String> = nodes.iter().map(name).collect();
                format!(
                    "these nodes were away, had no trusted clock or run an older release: {}",
                    names.join(", ")
                )
            }
            HeldBack::Unequal(pairs) => {
                let pair = |(one, other): &(NodeNumber, NodeNumber)| {
                    format!("{} and {}", name(one), name(other))
                };
                let names: Vec<String> = pairs.iter().map(pair).collect();
                format!("these nodes could not be made equal: {}", names.join(", "))
            }
            HeldBack::Inconclusive => "the last full sweep was interrupted, or found versions \
                                       where they do not belong"
                .to_owned(),
        }),
    }
}
