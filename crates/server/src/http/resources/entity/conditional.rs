//! Writes with a condition, and writes that change only the expiry.

use super::parameters::EntityParameters;
use super::written_response;
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::request::body::Upload;
use crate::http::request::condition::{any_value, condition_of};
use crate::http::request::entity_tag::EntityTag;
use base::{Entry, Reservation, Timestamp};
use cluster::Condition;
use hyper::StatusCode;
use node::{ConditionalChange, ConditionalReply, Expires, Terms, Written};
use tokens::{Need, RequestedKeys};

/// The condition of a write; `None` if it has none. What keeps its value needs one.
///
/// # Errors
/// A condition that cannot be read, or a pair with which none can be kept.
pub(super) fn condition(
    exchange: &HttpExchange<'_>,
    parameters: &EntityParameters,
) -> Result<Option<Condition>, Problem> {
    let given = condition_of(&exchange.head.headers)?;
    let condition = given.or_else(|| parameters.is_touch.then(any_value));
    if condition.is_some() && !parameters.replicas.overlap() {
        return Err(Problem::no_majority(parameters.replicas));
    }
    Ok(condition)
}

/// Writes a key if the condition holds.
///
/// # Errors
/// The problem to answer. Where the condition does not hold it names the value that the key has, and
/// its tag to those who may read the key: a tag tells something of the value.
pub(super) async fn write(
    exchange: &HttpExchange<'_>,
    key: &[u8],
    change: ConditionalChange,
    condition: Condition,
    reservation: Option<Reservation>,
    terms: Terms,
) -> Result<Written, Problem> {
    let coordinator = exchange.listener.worker.coordinator();
    let reply = coordinator.write_if(key, change, condition, reservation, terms.clone());
    written(exchange, key, reply.await, terms).await
}

/// What became of a conditional write.
async fn written(
    exchange: &HttpExchange<'_>,
    key: &[u8],
    reply: ConditionalReply,
    terms: Terms,
) -> Result<Written, Problem> {
    let problem = match Problem::of_conditional(reply, terms.replicas) {
        Ok(written) => return Ok(written),
        Err(problem) => problem,
    };
    let may_read = || exchange.caller.may(Need::Read, RequestedKeys::Key(key));
    let Some(version) = problem.version().filter(|_| may_read()) else {
        return Err(problem);
    };
    Err(match current(exchange, key, version, terms).await {
        Some(entry) => {
            let tag = EntityTag::of(entry.timestamp(), entry.value_bytes());
            problem.with_current(entry.timestamp(), tag.header())
        }
        None => problem,
    })
}

/// `PUT` with `touch=true`: the value stays, and expires at another time.
///
/// # Errors
/// The problem to answer.
pub(super) async fn touch(
    exchange: &mut HttpExchange<'_>,
    parameters: &EntityParameters,
    condition: Option<Condition>,
    upload: &Upload,
    expires: Expires,
    terms: Terms,
) -> Answer {
    if !upload.bytes.is_empty() {
        return Err(Problem::touch_with_value());
    }
    let condition = condition.unwrap_or_else(any_value);
    let change = ConditionalChange::Touch(expires);
    let key = &parameters.key;
    let coordinator = exchange.listener.worker.coordinator();
    let reply = coordinator.write_if(key, change, condition, None, terms.clone());
    let reply = reply.await;
    let tag = match &reply {
        ConditionalReply::Touched(written, entry) => {
            Some(EntityTag::of(written.timestamp, entry.value_bytes()))
        }
        _ => None,
    };
    let written = written(exchange, key, reply, terms).await?;
    Ok(written_response(
        exchange,
        StatusCode::CREATED,
        tag.as_ref(),
        &written,
        parameters.replicas,
    ))
}

/// The value that a key has: that of this version if it is at hand, or else what a read finds in time.
async fn current(
    exchange: &HttpExchange<'_>,
    key: &[u8],
    version: Timestamp,
    terms: Terms,
) -> Option<Entry> {
    let coordinator = exchange.listener.worker.coordinator();
    let entry = match coordinator.own_version(key, version) {
        Some(entry) => Some(entry),
        None => coordinator.read(key, terms).await.ok()?.entry,
    };
    entry.filter(|entry| exchange.listener.is_live(entry))
}
