//! `/v0/entity`: one key. `conditional` are writes with a condition.

mod conditional;
mod parameters;

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::request::entity_tag::{EntityTag, value_hash};
use crate::http::request::verb::Verb;
use crate::http::response::body::ResponseBody;
use crate::http::response::headers::{SANDBOX, set_acks, set_expires, set_version};
use base::{Entry, Reservation};
use bytes::Bytes;
use cluster::Replicas;
use hyper::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue,
};
use hyper::{Response, StatusCode};
use node::{Change, ConditionalChange, Expires, Written};
use parameters::EntityParameters;
use tokens::RequestedKeys;

pub(super) use parameters::TTL_SECONDS_MAX;

/// Reads, writes or deletes an entity.
pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let is_put = exchange.verb == Verb::Put;
    let parameters = parameters::read(exchange.query(), is_put, exchange.replica_rules())?;
    exchange.authorize(RequestedKeys::Key(&parameters.key))?;
    match exchange.verb {
        Verb::Get | Verb::Head => get(exchange, parameters).await,
        Verb::Put => put(exchange, parameters).await,
        Verb::Delete => delete(exchange, parameters).await,
        // The table of resources does not let it through.
        Verb::Post => Err(Problem::method_not_allowed("GET, HEAD, PUT, DELETE")),
    }
}

/// `GET` and `HEAD`.
async fn get(mut exchange: HttpExchange<'_>, parameters: EntityParameters) -> Answer {
    exchange.check_body_limit()?;
    let deadline = exchange.deadline();
    let permit = exchange.admit(deadline).await?;
    let found = exchange
        .listener
        .worker
        .coordinator()
        .read(
            &parameters.key,
            exchange.terms(parameters.replicas, deadline),
        )
        .await
        .map_err(|failure| Problem::of_failure(failure, parameters.replicas))?;
    drop(permit);
    let Some(entry) = found.entry else {
        let mut response = Problem::absent().in_trace(exchange.trace).into_response();
        set_acks(response.headers_mut(), found.acks, parameters.replicas);
        return Ok(response);
    };
    let headers = &exchange.head.headers;
    let mut response = if exchange.listener.is_live(&entry) {
        let tag = EntityTag::of(entry.timestamp(), entry.value_bytes());
        let mut response = if !tag.satisfies_if_match(headers) {
            Problem::other_version()
                .in_trace(exchange.trace)
                .into_response()
        } else if tag.is_named_by_if_none_match(headers) {
            exchange.response(StatusCode::NOT_MODIFIED, ResponseBody::empty())
        } else {
            value_response(&mut exchange, &entry, found.reservation)
        };
        response.headers_mut().insert(ETAG, tag.header());
        set_expires(response.headers_mut(), entry.expiry());
        response
    } else {
        Problem::absent().in_trace(exchange.trace).into_response()
    };
    set_version(response.headers_mut(), entry.timestamp());
    set_acks(response.headers_mut(), found.acks, parameters.replicas);
    Ok(response)
}

/// `PUT`: the body is the value.
async fn put(mut exchange: HttpExchange<'_>, parameters: EntityParameters) -> Answer {
    if exchange.head.headers.contains_key(CONTENT_RANGE) {
        return Err(Problem::partial_put());
    }
    let condition = conditional::condition(&exchange, &parameters)?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    // A body that is being received counts by its bytes and holds no permit, because
    // slow uploads must not keep other requests out. Without a permit or a place in
    // the queue the request is refused
    // before the body, so that the client need not send it.
    if listener.permits.is_full() {
        return Err(Problem::overloaded());
    }
    // The fields are not needed any more, and the body may take long.
    exchange.drop_fields();
    let upload = exchange
        .body
        .read(
            listener.value_bytes_max(),
            listener.uploads(),
            &exchange.channel.progress,
        )
        .await?;
    let now = listener.clock().monotonic();
    if let Some(timeline) = exchange.timeline {
        timeline.body_ended(now);
    }
    let deadline = listener.deadline_after(now);
    let _permit = exchange.admit(deadline).await?;
    let expires = parameters
        .ttl_seconds
        .map_or(Expires::Never, Expires::AfterSeconds);
    let terms = exchange.terms(parameters.replicas, deadline);
    if parameters.is_touch {
        let touched = conditional::touch(
            &mut exchange,
            &parameters,
            condition,
            &upload,
            expires,
            terms,
        );
        return touched.await;
    }
    let hash = value_hash(&upload.bytes);
    let change = Change::Put {
        value: upload.bytes,
        expires,
    };
    let reservation = upload.reservation;
    let written = match condition {
        None => {
            let coordinator = listener.worker.coordinator();
            let written = coordinator.write(&parameters.key, change, reservation, terms);
            let written = written.await;
            written.map_err(|failure| Problem::of_failure(failure, parameters.replicas))?
        }
        Some(condition) => {
            let change = ConditionalChange::Write(change);
            let key = &parameters.key;
            conditional::write(&exchange, key, change, condition, reservation, terms).await?
        }
    };
    if let Some(timeline) = exchange.timeline {
        timeline.wrote(written.timestamp);
    }
    let tag = EntityTag::with_hash(written.timestamp, hash);
    Ok(written_response(
        &mut exchange,
        StatusCode::CREATED,
        Some(&tag),
        &written,
        parameters.replicas,
    ))
}

/// `DELETE`.
async fn delete(mut exchange: HttpExchange<'_>, parameters: EntityParameters) -> Answer {
    let condition = conditional::condition(&exchange, &parameters)?;
    exchange.check_body_limit()?;
    let deadline = exchange.deadline();
    let _permit = exchange.admit(deadline).await?;
    let terms = exchange.terms(parameters.replicas, deadline);
    let written = match condition {
        None => {
            let coordinator = exchange.listener.worker.coordinator();
            let written = coordinator.write(&parameters.key, Change::Delete, None, terms);
            let written = written.await;
            written.map_err(|failure| Problem::of_failure(failure, parameters.replicas))?
        }
        Some(condition) => {
            let change = ConditionalChange::Write(Change::Delete);
            conditional::write(&exchange, &parameters.key, change, condition, None, terms).await?
        }
    };
    let tag = EntityTag::of(written.timestamp, &[]);
    Ok(written_response(
        &mut exchange,
        StatusCode::ACCEPTED,
        Some(&tag),
        &written,
        parameters.replicas,
    ))
}

fn value_response(
    exchange: &mut HttpExchange<'_>,
    entry: &Entry,
    reservation: Option<Reservation>,
) -> Response<ResponseBody> {
    let verb = exchange.verb;
    let value: Bytes = entry.value_handle();
    let bytes = value.len();
    let reservation = reservation.filter(|_| verb == Verb::Get);
    let body = ResponseBody::counted(value, reservation);
    let mut response = exchange.response(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    if verb == Verb::Head && bytes == 0 {
        // Hyper leaves this field out of an answer without a body.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    response
}

/// The answer to a write that was acknowledged.
fn written_response(
    exchange: &mut HttpExchange<'_>,
    status: StatusCode,
    tag: Option<&EntityTag>,
    written: &Written,
    replicas: Replicas,
) -> Response<ResponseBody> {
    let mut response = exchange.response(status, ResponseBody::empty());
    let headers = response.headers_mut();
    if let Some(tag) = tag {
        headers.insert(ETAG, tag.header());
    }
    set_version(headers, written.timestamp);
    set_acks(headers, written.acks, replicas);
    response
}
