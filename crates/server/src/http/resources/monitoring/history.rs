//! `/v0/history`: metrics of this node's last hour, for the console and for people without
//! Prometheus. Outside admission, so that an operator can inspect an overloaded node.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::query::{ParameterError, number_of, pairs, set, unknown};
use crate::http::response::page;
use crate::metrics::{BucketCounts, LATENCY_BOUNDS_US, SAMPLE_PERIOD, SAMPLES_MAX, Sample};
use schemars::JsonSchema;
use serde::Serialize;
use tokens::RequestedKeys;

/// What a node did in the last hour.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(in crate::http::resources) struct HistoryAnswer {
    /// How long a sample lasts, about.
    period_seconds: u64,
    /// The upper bounds of the buckets of `reads` and `writes`. The last bucket, which they
    /// may have beyond, has none.
    bounds_us: &'static [u64],
    /// The samples, the oldest first.
    samples: Vec<HistorySample>,
    /// What has happened since the last sample.
    running: HistorySample,
}

/// What a node did in a span of time.
#[derive(Serialize, JsonSchema)]
struct HistorySample {
    /// When the span ended.
    unix_ms: u64,
    span_ms: u64,
    /// How many `GET`s and `HEAD`s of keys took how long, by bucket, up to the last bucket
    /// that has any.
    reads: Vec<u32>,
    /// The same of `PUT`s and `DELETE`s.
    writes: Vec<u32>,
    /// Operations of batches.
    batch_operations: u32,
    /// Requests for keys, ranges and batches, and operations of batches, that were answered
    /// `503`.
    refused: u32,
    /// Those that were answered `500`, `504` or `507`.
    failed: u32,
}

impl HistorySample {
    fn of(sample: &Sample) -> Self {
        Self {
            unix_ms: sample.end_unix_ms,
            span_ms: u64::try_from(sample.span.as_millis()).unwrap_or(u64::MAX),
            reads: trimmed(&sample.reads),
            writes: trimmed(&sample.writes),
            batch_operations: sample.batch_operations,
            refused: sample.refused,
            failed: sample.failed,
        }
    }
}

/// The counts without the empty buckets at their end.
fn trimmed(counts: &BucketCounts) -> Vec<u32> {
    let last = counts.iter().rposition(|count| *count > 0);
    counts[..last.map_or(0, |last| last + 1)].to_vec()
}

/// Reads the query: how many samples to tell.
///
/// # Errors
/// The first parameter that is not valid.
fn limit(query: Option<&str>) -> Result<usize, ParameterError> {
    let mut limit = None;
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"limit" => set(&mut limit, "limit", limit_of(&value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(limit.unwrap_or(SAMPLES_MAX))
}

fn limit_of(value: &[u8]) -> Result<usize, ParameterError> {
    match usize::try_from(number_of("limit", value)?) {
        Ok(number @ 1..=SAMPLES_MAX) => Ok(number),
        _ => Err(ParameterError::new(
            "limit",
            format_args!("is out of range: give 1 to {SAMPLES_MAX}"),
        )),
    }
}

/// `GET` and `HEAD`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let limit = limit(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let render = || {
        let (samples, running) = listener.shared().history.last(limit, listener.clock());
        page::json(&HistoryAnswer {
            period_seconds: SAMPLE_PERIOD.as_secs(),
            bounds_us: &LATENCY_BOUNDS_US,
            samples: samples.iter().map(HistorySample::of).collect(),
            running: HistorySample::of(&running),
        })
    };
    exchange.render(render).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_limited() {
        assert_eq!(limit(None), Ok(SAMPLES_MAX));
        assert_eq!(limit(Some("limit=1")), Ok(1));
        assert_eq!(limit(Some("limit=360")), Ok(360));
        for query in [
            "limit=0",
            "limit=361",
            "limit=",
            "limit=-1",
            "limit=1&limit=1",
            "id=a",
        ] {
            assert!(limit(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn empty_buckets_at_the_end_are_left_out() {
        let mut counts = BucketCounts::default();
        assert_eq!(trimmed(&counts), Vec::<u32>::new());
        counts[2] = 7;
        assert_eq!(trimmed(&counts), [0, 0, 7]);
        counts[counts.len() - 1] = 1;
        assert_eq!(trimmed(&counts).len(), counts.len());
    }
}
