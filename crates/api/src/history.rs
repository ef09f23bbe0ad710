//! What a node did lately, in samples: `/v0/history`, and what it tells the others of itself.

#![expect(
    missing_docs,
    reason = "a field whose name says it all needs no text in the OpenAPI document"
)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a node did in the last hour.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct History {
    /// How long a sample lasts, about.
    pub period_seconds: u64,
    /// The upper bounds of the buckets of `reads` and `writes`. The last bucket, which they
    /// may have beyond, has none.
    pub bounds_us: Vec<u64>,
    /// The samples, the oldest first.
    pub samples: Vec<HistorySample>,
    /// What has happened since the last sample.
    pub running: HistorySample,
}

/// What a node did in a span of time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct HistorySample {
    /// When the span ended.
    pub unix_ms: u64,
    pub span_ms: u64,
    /// How many `GET`s and `HEAD`s of keys took how long, by bucket, up to the last bucket
    /// that has any.
    pub reads: Vec<u32>,
    /// The same of `PUT`s and `DELETE`s.
    pub writes: Vec<u32>,
    /// Operations of batches.
    pub batch_operations: u32,
    /// Requests for keys, scans and batches, and operations of batches, that were answered
    /// `503`.
    pub refused: u32,
    /// Those that were answered `500`, `504` or `507`.
    pub failed: u32,
}
