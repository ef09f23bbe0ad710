//! `/v0/entity`: one key.

use crate::door::Door;
use crate::door::progress::Progress;
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::conditional::{EntityTag, value_hash};
use crate::http::parameters;
use crate::http::problem::Problem;
use crate::http::route::Verb;
use crate::http::{admit, check_body_limit, replica_rules};
use base::{Entry, Expiry, Kind, Share, Timestamp};
use bytes::Bytes;
use cluster::Replicas;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, IF_MATCH, IF_NONE_MATCH,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};
use node::Change;
use std::time::Duration;

/// The timestamp of the winning version.
const VERSION: HeaderName = HeaderName::from_static("kvorum-version");
/// What a browser that shows a value lets it do: nothing, in an origin of its own.
pub(crate) const SANDBOX: &str = "sandbox";
/// The answers in hand at the reply, and of how many replicas.
const ACKS: HeaderName = HeaderName::from_static("kvorum-acks");

/// `GET` and `HEAD`.
pub(crate) async fn get(
    door: &Door,
    head: &Parts,
    body: &RequestBody,
    verb: Verb,
    began: Duration,
) -> Result<Response<ResponseBody>, Problem> {
    let parameters = parameters::entity(head.uri.query(), false, replica_rules(door))?;
    check_body_limit(door, body)?;
    let deadline = door.deadline_after(began);
    let permit = admit(door, deadline).await?;
    let found = door
        .worker
        .coordinator()
        .read(&parameters.key, parameters.replicas, deadline)
        .await
        .map_err(|failure| Problem::of_failure(failure, parameters.replicas))?;
    drop(permit);
    let Some(entry) = found.entry else {
        let mut response = Problem::absent().into_response();
        set_acks(response.headers_mut(), found.acks, parameters.replicas);
        return Ok(response);
    };
    let mut response = if is_live(door, &entry) {
        let tag = EntityTag::of(entry.timestamp(), entry.value_bytes());
        let mut response = if !tag.is_wanted_by(&head.headers) {
            Problem::other_version().into_response()
        } else if tag.is_named_by(&head.headers) {
            not_modified()
        } else {
            value_response(&entry, verb, found.share)
        };
        response.headers_mut().insert(ETAG, tag.header());
        response
    } else {
        Problem::absent().into_response()
    };
    set_version(response.headers_mut(), entry.timestamp());
    set_acks(response.headers_mut(), found.acks, parameters.replicas);
    Ok(response)
}

/// `PUT`: the body is the value.
pub(crate) async fn put(
    door: &Door,
    progress: &Progress,
    head: &mut Parts,
    body: &mut RequestBody,
) -> Result<Response<ResponseBody>, Problem> {
    let parameters = parameters::entity(head.uri.query(), true, replica_rules(door))?;
    if head.headers.contains_key(CONTENT_RANGE) {
        return Err(Problem::partial_put());
    }
    check_unconditional(&head.headers)?;
    check_body_limit(door, body)?;
    // A body on its way counts by its bytes, not as a request in flight: slow
    // uploads must not keep all others out. That there is hope for a place is
    // checked before, so that a refused body is not read in vain.
    if door.gate.is_full() {
        return Err(Problem::overloaded());
    }
    // Nobody looks at the fields any more, and the body may take its time.
    drop(std::mem::take(&mut head.headers));
    let upload = body
        .read(door.value_bytes_max(), door.uploads(), progress)
        .await?;
    let deadline = door.deadline_after(door.clock().monotonic());
    let _permit = admit(door, deadline).await?;
    let hash = value_hash(&upload.bytes);
    let change = Change::Put {
        value: upload.bytes,
        ttl_seconds: parameters.ttl_seconds,
    };
    let written = door
        .worker
        .coordinator()
        .write(
            &parameters.key,
            change,
            upload.share,
            parameters.replicas,
            deadline,
        )
        .await
        .map_err(|failure| Problem::of_failure(failure, parameters.replicas))?;
    let mut response = with_status(StatusCode::CREATED);
    let headers = response.headers_mut();
    let tag = EntityTag::with_hash(written.timestamp, hash);
    headers.insert(ETAG, tag.header());
    set_version(headers, written.timestamp);
    set_acks(headers, written.acks, parameters.replicas);
    Ok(response)
}

/// `DELETE`.
pub(crate) async fn delete(
    door: &Door,
    head: &Parts,
    body: &RequestBody,
    began: Duration,
) -> Result<Response<ResponseBody>, Problem> {
    let parameters = parameters::entity(head.uri.query(), false, replica_rules(door))?;
    check_unconditional(&head.headers)?;
    check_body_limit(door, body)?;
    let deadline = door.deadline_after(began);
    let _permit = admit(door, deadline).await?;
    let written = door
        .worker
        .coordinator()
        .write(
            &parameters.key,
            Change::Delete,
            None,
            parameters.replicas,
            deadline,
        )
        .await
        .map_err(|failure| Problem::of_failure(failure, parameters.replicas))?;
    let mut response = with_status(StatusCode::ACCEPTED);
    let headers = response.headers_mut();
    headers.insert(ETAG, EntityTag::of(written.timestamp, &[]).header());
    set_version(headers, written.timestamp);
    set_acks(headers, written.acks, parameters.replicas);
    Ok(response)
}

/// Whether the node that answers sees a value. The clock is asked only for
/// versions that can expire.
fn is_live(door: &Door, entry: &Entry) -> bool {
    match entry.expiry() {
        Expiry::NEVER => entry.kind() == Kind::Value,
        _ => entry.is_live(door.clock().unix_ms()),
    }
}

fn value_response(entry: &Entry, verb: Verb, share: Option<Share>) -> Response<ResponseBody> {
    let value: Bytes = entry.value_handle();
    let bytes = value.len();
    let share = share.filter(|_| verb == Verb::Get);
    let mut response = Response::new(ResponseBody::counted(value, share));
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    if verb == Verb::Head && bytes == 0 {
        // Hyper leaves it out of an answer that has no body either way.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    *response.headers_mut() = headers;
    response
}

fn not_modified() -> Response<ResponseBody> {
    with_status(StatusCode::NOT_MODIFIED)
}

fn with_status(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}

fn check_unconditional(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(IF_MATCH) || headers.contains_key(IF_NONE_MATCH) {
        return Err(Problem::conditional_write());
    }
    Ok(())
}

fn set_version(headers: &mut HeaderMap, timestamp: Timestamp) {
    headers.insert(VERSION, HeaderValue::from(timestamp.as_u64()));
}

/// Sets the header that tells how many of the replicas have answered.
pub(crate) fn set_acks(headers: &mut HeaderMap, acks: u8, replicas: Replicas) {
    let value = match (acks, replicas.from) {
        (1, 1) => HeaderValue::from_static("1/1"),
        // Digits and a slash: always a valid value.
        (acks, from) => HeaderValue::try_from(format!("{acks}/{from}"))
            .unwrap_or_else(|_| HeaderValue::from_static("")),
    };
    headers.insert(ACKS, value);
}
