//! `/v0/entities`: a range of this node's keys.

use crate::door::Door;
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::conditional::{RangeFormat, range_format, wants_trailers};
use crate::http::entity::SANDBOX;
use crate::http::parameters;
use crate::http::problem::Problem;
use crate::http::range_stream::{NextBatch, RangePlan, RangeStream};
use crate::http::route::Verb;
use crate::http::{admit, check_body_limit};
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, TRAILER, VARY};
use hyper::http::request::Parts;
use hyper::{Response, Version};
use std::rc::Rc;
use std::time::Duration;

/// `GET` and `HEAD`. The first batch is read before the answer begins, so that
/// a store that cannot be read is an error with a status.
pub(crate) async fn get(
    door: &Door,
    head: &Parts,
    body: &RequestBody,
    verb: Verb,
    began: Duration,
) -> Result<Response<ResponseBody>, Problem> {
    let parameters = parameters::range(head.uri.query())?;
    if head.version < Version::HTTP_11 {
        return Err(Problem::range_needs_chunks());
    }
    check_body_limit(door, body)?;
    let deadline = door.deadline_after(began);
    let permit = admit(door, deadline).await?;
    let stream_share = door.scans().take(1)?;
    let plan = RangePlan {
        format: range_format(&head.headers),
        limit: parameters.limit.unwrap_or(u64::MAX),
        now_unix_ms: door.clock().unix_ms(),
        trailers: wants_trailers(&head.headers),
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
    if verb == Verb::Head {
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
    // From here on the range counts as a range, not as a request in flight: a
    // slow reader must not keep others out.
    drop(permit);
    let (coordinator, clock) = (Rc::clone(door.worker.coordinator()), door.clock_handle());
    let stall_timeout = door.stall_timeout();
    let ask = move |scan| -> NextBatch {
        let deadline = clock.monotonic().saturating_add(stall_timeout);
        let coordinator = Rc::clone(&coordinator);
        Box::pin(async move { coordinator.next_batch(scan, deadline).await })
    };
    let stream = RangeStream::new(plan, Box::new(ask), first, stream_share);
    Ok(response.map(|_| ResponseBody::range(stream)))
}
