//! Receipts as JSON: what became of a request at each replica.

use node::Receipt;
use schemars::JsonSchema;
use serde::Serialize;

/// A receipt as a part of a problem. The number of acks stands in the header only.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReceiptDocument<'a> {
    /// The version that the write was given: a decimal number as a string, because many JSON
    /// readers round long numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]{1,20}$"))]
    timestamp: Option<String>,
    /// What became of the request at each replica of the key, in their order.
    replicas: Vec<ReplicaDocument<'a>>,
}

/// What became of a request at a replica.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReplicaOutcome")]
struct ReplicaDocument<'a> {
    url: &'a str,
    #[schemars(extend("enum" = [
        "stored", "value", "absent", "answered", "unanswered", "timeout", "suspected", "refused",
        "unsupported", "overloaded", "full", "failed", "learner", "obsolete",
    ]))]
    outcome: &'static str,
}

impl<'a> From<&'a Receipt> for ReceiptDocument<'a> {
    fn from(receipt: &'a Receipt) -> Self {
        let replicas = receipt.replicas.iter().map(|line| ReplicaDocument {
            url: &line.url,
            outcome: line.outcome.word(),
        });
        Self {
            timestamp: receipt.timestamp.map(|timestamp| timestamp.to_string()),
            replicas: replicas.collect(),
        }
    }
}
