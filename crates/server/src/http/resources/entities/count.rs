//! `count=only`: counts the entities of a scan.
//!
//! The answer begins when the count is known, so a count that fails is an error with a status. The
//! count holds one batch at a time, and ends when its client leaves.

use super::parameters::ScanParameters;
use super::{Filter, Reader, Source, begin};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::request::verb::Verb;
use crate::http::response::body::ResponseBody;
use crate::http::response::page;
use base::Entry;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

/// How many entities a scan has.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Count")]
pub(crate) struct CountPage {
    /// The number of entities.
    count: u64,
}

/// Counts the entities of the scan; `HEAD` counts nothing.
pub(super) async fn answer(
    exchange: &HttpExchange<'_>,
    parameters: ScanParameters,
    source: Source,
    now_unix_ms: u64,
    first_deadline: Duration,
) -> Answer {
    if exchange.verb == Verb::Head {
        let mut response = Response::new(ResponseBody::empty());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        return Ok(response);
    }
    let count = count(exchange, parameters, source, now_unix_ms, first_deadline).await?;
    Ok(page::json(&CountPage { count }))
}

async fn count(
    exchange: &HttpExchange<'_>,
    mut parameters: ScanParameters,
    source: Source,
    now_unix_ms: u64,
    first_deadline: Duration,
) -> Result<u64, Problem> {
    let limit = parameters.limit.unwrap_or(u64::MAX);
    let mut counted = 0;
    let condition = parameters.condition.take();
    let filter = condition.map(|condition| Filter::new(condition, now_unix_ms));
    each_batch(
        exchange,
        parameters,
        source,
        first_deadline,
        async |entries| {
            let entries = match &filter {
                Some(filter) => {
                    let is_awaited = async || check_is_awaited(exchange).await;
                    filter.select_while(entries, is_awaited).await?
                }
                None => entries,
            };
            let live = entries.iter().filter(|entry| entry.is_live(now_unix_ms));
            counted = (counted + live.count() as u64).min(limit);
            Ok(if counted < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        },
    )
    .await?;
    Ok(counted)
}

/// Hands over all entries of a scan batch by batch, until `take` wants no more. It ends when the
/// client leaves, or the node stops.
pub(super) async fn each_batch(
    exchange: &HttpExchange<'_>,
    parameters: ScanParameters,
    source: Source,
    first_deadline: Duration,
    mut take: impl AsyncFnMut(Vec<Entry>) -> Result<ControlFlow<()>, Problem>,
) -> Result<(), Problem> {
    let listener = exchange.listener;
    let mut next = begin(listener, &parameters, source, first_deadline);
    let mut reader = Reader::new(exchange, parameters);
    let mut deadline = first_deadline;
    while let Some(scan) = next {
        let coordinator = listener.worker.coordinator();
        let batch = coordinator.next_batch(scan, deadline).await?;
        if take(batch.entries).await?.is_break() {
            return Ok(());
        }
        check_is_awaited(exchange).await?;
        reader.go_on(listener.trust())?;
        next = batch.rest;
        deadline = listener
            .clock()
            .monotonic()
            .saturating_add(listener.stall_timeout());
    }
    Ok(())
}

/// Checks that someone still waits for the answer.
///
/// # Errors
/// The client has left, or the node stops.
pub(super) async fn check_is_awaited(exchange: &HttpExchange<'_>) -> Result<(), Problem> {
    if exchange.listener.is_stopping() {
        return Err(Problem::overloaded());
    }
    if poll_fn(|cx| Poll::Ready(exchange.channel.has_client_left(cx))).await {
        return Err(Problem::client_left());
    }
    Ok(())
}
