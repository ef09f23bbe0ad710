//! What the entities of a scan amount to, which a node computes.

use super::{COUNTING_MAX, ScanRequest, Scope};
use crate::client::{Client, Repeat};
use crate::connection::Answer;
use crate::error::Error;
use crate::query::Target;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

/// The longest answer, in bytes: as many groups as a node holds, with escapes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// What is computed of each group: a sum, or a least or greatest value, of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operand {
    /// The sum of numbers.
    Sum(String),
    /// The least number, time or text.
    Min(String),
    /// The greatest number, time or text.
    Max(String),
}

/// What the entities of a scan amount to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Aggregates {
    /// The number of entities that were looked at.
    pub keys: u64,
    /// The number of those that match the condition.
    pub matched: u64,
    /// How many replicas had to answer, for a scan of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack: Option<u8>,
    /// How many replicas each key has, for a scan of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u8>,
    /// The groups.
    pub groups: Vec<AggregatedGroup>,
}

/// Entities that have the same values.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AggregatedGroup {
    /// What makes the group: a value for each expression.
    pub by: Vec<serde_json::Value>,
    /// The number of its entities.
    pub count: u64,
    /// A result for each operand.
    pub aggregates: Vec<Aggregate>,
}

/// The result of an operand.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Aggregate {
    /// `sum`, `min` or `max`.
    pub operation: String,
    /// The result; null if nothing fitted, or if the sum is too great for a number.
    pub value: serde_json::Value,
    /// The number of entities whose value fitted.
    pub counted: u64,
}

/// The body of the request.
#[derive(Serialize)]
struct Question<'a> {
    start_base64: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#where: Option<&'a str>,
    by: &'a [String],
    aggregates: &'a [Operand],
}

impl Client {
    /// Has a node compute what the entities of a scan amount to, in groups of those for which the
    /// expressions `by` have the same values. The limit and the delimiter of the scan do not count.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn aggregate(
        &self,
        scan: &ScanRequest,
        by: &[String],
        operands: &[Operand],
    ) -> Result<Aggregates, Error> {
        let is_cluster = scan.scope == Scope::Cluster;
        let question = Question {
            start_base64: BASE64.encode(&scan.start),
            end_base64: scan.end.as_ref().map(|end| BASE64.encode(end)),
            scope: is_cluster.then_some("cluster"),
            ack: scan.replicas.ack.filter(|_| is_cluster),
            from: scan.replicas.from.filter(|_| is_cluster),
            r#where: scan.condition.as_deref(),
            by,
            aggregates: operands,
        };
        let mut message = self.message(Method::POST, Target::new("/v0/aggregate"));
        message.headers = vec![(CONTENT_TYPE.as_str(), "application/json".into())];
        // Texts and numbers always have a JSON form.
        message.body = serde_json::to_vec(&question).unwrap_or_default().into();
        let limits = self.limits_of_scans(COUNTING_MAX);
        let nodes = scan.scope.nodes_of(self);
        self.ask_among(nodes, Repeat::Always, async |node| {
            self.fetch(limits, node, &message, ANSWER_BYTES_MAX, Answer::json)
                .await
        })
        .await
    }
}
