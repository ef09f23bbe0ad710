//! `/v0/entities`: a range of this node's keys.

mod parameters;
mod range_stream;

use crate::http::exchange::{Answer, Exchange};
use crate::http::headers::SANDBOX;
use crate::http::negotiation::{RangeFormat, range_format, wants_trailers};
use crate::http::problem::Problem;
use crate::http::response_body::ResponseBody;
use crate::http::verb::Verb;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, TRAILER, VARY};
use hyper::{Response, Version};
use range_stream::{NextBatch, RangePlan, RangeStream};
use std::rc::Rc;

/// `GET` and `HEAD`. Reads the first batch before the answer begins, so that a store
/// that cannot be read is an error with a status.
pub(super) async fn answer(exchange: Exchange<'_>) -> Answer {
    let parameters = parameters::read(exchange.query())?;
    if exchange.head.version < Version::HTTP_11 {
        return Err(Problem::range_needs_chunks());
    }
    exchange.check_body_limit()?;
    let deadline = exchange.deadline();
    let permit = exchange.admit(deadline).await?;
    let door = exchange.door;
    let stream_share = door.scans().take(1)?;
    let headers = &exchange.head.headers;
    let plan = RangePlan {
        format: range_format(headers),
        limit: parameters.limit.unwrap_or(u64::MAX),
        now_unix_ms: door.clock().unix_ms(),
        trailers: wants_trailers(headers),
    };
    let mut response = Response::new(ResponseBody::empty());
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(match plan.format {
            RangeFormat::Plain => "application/octet-stream",
            RangeFormat::JsonLines => "application/x-ndjson",
        }),
    );
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if plan.trailers {
        headers.insert(
            TRAILER,
            HeaderValue::from_static("kvorum-count, kvorum-digest"),
        );
    }
    if exchange.verb == Verb::Head {
        return Ok(response);
    }
    let is_empty = parameters
        .end
        .as_ref()
        .is_some_and(|end| parameters.start >= *end);
    let first = if is_empty {
        None
    } else {
        let coordinator = door.worker.coordinator();
        let scan = coordinator.scan(&parameters.start, parameters.end.as_deref());
        Some(coordinator.next_batch(scan, deadline).await?)
    };
    // From now on the stream counts as a range and holds no permit, because a slow
    // reader must not keep other requests out.
    drop(permit);
    let (coordinator, clock) = (Rc::clone(door.worker.coordinator()), door.clock_handle());
    let stall_timeout = door.stall_timeout();
    let ask = move |scan| -> NextBatch {
        let deadline = clock.monotonic().saturating_add(stall_timeout);
        let coordinator = Rc::clone(&coordinator);
        Box::pin(async move { coordinator.next_batch(scan, deadline).await })
    };
    let stream = RangeStream::new(plan, Box::new(ask), first, stream_share);
    Ok(response.map(|_| ResponseBody::stream(Box::new(stream))))
}
