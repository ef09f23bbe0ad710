//! HTTP: from a request to its answer.
//!
//! The checks come in a fixed order, so that a client knows what a status
//! says of the rest: whether a web page sent it (`421`, `403`), what HTTP asks
//! of any head (`400`, `414`, `431`, `501`),
//! path (`400`), method (`405`), parameters (`400`), conditions (`400`, `501`,
//! `505`), body limit (`413`), admission (`503`). A body is read after all of
//! them. Status, metrics and profiles are outside admission.

mod body;
mod chunk;
mod conditional;
pub(crate) mod connection;
mod entities;
mod entity;
mod head;
mod json_line;
mod node_pages;
mod parameters;
mod peer_entrance;
mod problem;
mod profile_page;
mod range_stream;
mod route;

use crate::door::Door;
use crate::door::channel::Channel;
use crate::door::progress::{ConnectionScope, Progress};
use crate::door::{Admission, Permit};
use crate::metrics::Route;
use base::Refused;
use body::{RequestBody, ResponseBody};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONNECTION, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use parameters::ReplicaRules;
use problem::Problem;
use route::{Resource, Verb};
use std::rc::Rc;
use std::time::Duration;

/// Answers a request.
pub(crate) async fn answer(
    door: &Rc<Door>,
    progress: &Rc<Progress>,
    channel: &Rc<Channel>,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let began = door.clock().monotonic();
    progress.request_begins();
    let (mut head, incoming) = request.into_parts();
    let mut body = RequestBody::new(incoming, &head.headers);
    let answered = match head::check(&head, &door.own_hosts, body.is_chunked()) {
        Ok(bytes) => match channel.cover_head(bytes) {
            Ok(()) => dispatch(door, channel, &mut head, &mut body, began).await,
            Err(refused) => Err(refused.into()),
        },
        Err(problem) => {
            // Whoever is wrong about the head may be so about the body's end.
            body.distrust();
            Err(problem)
        }
    };
    let mut response = answered.unwrap_or_else(Problem::into_response);
    let shows_out = progress.scope() == ConnectionScope::PeerUpgrade && !progress.is_upgraded();
    if shows_out || (!body.is_ended() && !body.discard(progress).await) {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        progress.linger();
    } else if channel.is_head_room_wanted() {
        // What hyper has for a long head goes with the connection only.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    set_common(&head.method, response.status(), response.headers_mut());
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        door.paused_connections.pause(channel);
    }
    count(door, &head, response.status(), began);
    response.map(|body| body.followed_by(Rc::clone(progress)))
}

/// Counts an answer, that to a peer's upgrade apart from those to clients.
fn count(door: &Door, head: &Parts, status: StatusCode, began: Duration) {
    let route = match resource_at(door, head) {
        Some(Resource::Peer) => return door.metrics.requests.answered_peer(status),
        Some(Resource::Entity) => Route::Entity,
        Some(Resource::Entities) => Route::Range,
        Some(Resource::Status) => Route::Status,
        Some(Resource::Metrics) => Route::Metrics,
        Some(Resource::Ring) => Route::Ring,
        Some(Resource::Profile) => Route::Profile,
        None => Route::Other,
    };
    let took = door.clock().monotonic().saturating_sub(began);
    let requests = &door.metrics.requests;
    requests.answered(route, &head.method, status, took);
}

/// What a request is for, if it is for anything that this node serves.
fn resource_at(door: &Door, head: &Parts) -> Option<Resource> {
    Resource::at(head.uri.path())
        .filter(|resource| *resource != Resource::Profile || door.has_debug_endpoints())
}

/// Sets what every answer has: nobody is to guess a type, and what a cache
/// keeps it must ask for again.
fn set_common(method: &Method, status: StatusCode, headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let may_be_kept = is_read && matches!(status, StatusCode::OK | StatusCode::NOT_MODIFIED);
    let control = if may_be_kept { "no-cache" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(control));
}

async fn dispatch(
    door: &Rc<Door>,
    channel: &Channel,
    head: &mut Parts,
    body: &mut RequestBody,
    began: Duration,
) -> Result<Response<ResponseBody>, Problem> {
    let progress = &*channel.progress;
    let resource = resource_at(door, head).ok_or_else(Problem::unknown_path)?;
    if progress.scope() == ConnectionScope::PeerUpgrade && resource != Resource::Peer {
        return Err(Problem::overloaded());
    }
    let verb = resource
        .verb(&head.method)
        .ok_or_else(|| Problem::method_not_allowed(resource.allow()))?;
    match (resource, verb) {
        (Resource::Entity, Verb::Get | Verb::Head) => {
            entity::get(door, head, body, verb, began).await
        }
        (Resource::Entity, Verb::Put) => entity::put(door, progress, head, body).await,
        (Resource::Entity, Verb::Delete) => entity::delete(door, head, body, began).await,
        (Resource::Entities, _) => entities::get(door, head, body, verb, began).await,
        (Resource::Status, _) => {
            let page = || node_pages::status(door, head, body);
            door.page_limiter.render(door.clock(), page).await?
        }
        (Resource::Metrics, _) => {
            let page = || node_pages::metrics(door, head, body);
            door.page_limiter.render(door.clock(), page).await?
        }
        (Resource::Ring, _) => node_pages::ring(door, head, body),
        (Resource::Peer, _) => peer_entrance::upgrade(progress, head),
        (Resource::Profile, _) => profile_page::get(door, channel, head, body, verb).await,
    }
}

/// Refuses a body that says it is longer than a value may be.
fn check_body_limit(door: &Door, body: &RequestBody) -> Result<(), Problem> {
    let value_bytes_max = door.value_bytes_max();
    if body.is_announced_longer_than(value_bytes_max) {
        return Err(Problem::value_too_long(value_bytes_max));
    }
    Ok(())
}

/// What `ack` and `from` may be.
fn replica_rules(door: &Door) -> ReplicaRules {
    let config = door.shared().config();
    ReplicaRules {
        nodes: config.node.members.count(),
        default: config.replicas_default,
    }
}

/// Waits for a permit to run, if the gate does not refuse the request at once.
async fn admit(door: &Door, deadline: Duration) -> Result<Permit, Refused> {
    match door.gate.admit(deadline)? {
        Admission::Granted(permit) => Ok(permit),
        Admission::Queued(queued) => queued.await,
    }
}
