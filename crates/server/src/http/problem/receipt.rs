//! Receipts as JSON: what became of a request at each replica.

use node::Receipt;
use serde::Serialize;

/// A receipt as a part of a problem. The number of acks stands in the header only.
#[derive(Serialize)]
pub(super) struct ReceiptDocument<'a> {
    /// A decimal number as a string, because many JSON readers round long numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    replicas: Vec<ReplicaDocument<'a>>,
}

#[derive(Serialize)]
struct ReplicaDocument<'a> {
    url: &'a str,
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
