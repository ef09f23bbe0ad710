//! HTTP: from a request to its answer.
//!
//! `connection` drives hyper over a connection and calls [`answer`] for each request.
//! The checks come in a fixed order, so that a status also says which checks the
//! request has passed: whether a web page of another site sent it (`421`, `403`), what
//! HTTP demands of any head (`400`, `414`, `431`, `501`), path (`400`), token (`401`),
//! method (`405`), type of the body (`415`), parameters (`400`), right (`403`), conditions
//! (`400`, `501`, `505`), body limit (`413`), admission (`503`). The body is read after all of them.
//! Status, history, health, metrics, the replicas of a key, the console, the description of the API,
//! profiles, repairs and compactions are outside admission.
//!
//! # What is where
//! - `resources`: a file or a folder for each resource, and the one table of them
//!   ([`Resource`]): its path, its methods and what they need, and its name in the metrics.
//! - `exchange`: what a handler gets, and the checks that handlers share; `lasting_caller`: who
//!   sent a request that may outlive its token.
//! - `request`: what a request says: head, method, conditions, body; `query`: its parameters.
//! - `response`: the bytes of an answer: header fields, bodies, lines of JSON.
//! - `cors`: what pages of other origins may see and ask.
//! - `problem`: refusals and failures, and which status each has.
//!
//! # To add a resource
//! 1. Write `resources/NAME.rs` (or a folder, if it has parameters or a stream of its
//!    own) with `pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer`. It reads
//!    its parameters with `query`, then calls [`HttpExchange::authorize`], then
//!    [`HttpExchange::check_body_limit`], then [`HttpExchange::admit`].
//! 2. Add a row to the table in `resources/table.rs`: its path, its methods and what they need,
//!    its parameters and its name in the metrics; and its handler to `resources/mod.rs`. A new
//!    method also needs a `Verb`, in `request/verb.rs`.
//! 3. Add a variant to `Route` in `metrics/requests.rs`, with rows in `ROUTES` and
//!    `EXPECTED` there.
//! 4. Describe it in `crates/api/openapi.json`; tests compare that with the table of resources,
//!    with the types of the answers and with all answers that tests get.
//! 5. Describe it in `docs/reference/api.md`. A new problem needs a row in
//!    `api::problem_type`, its text in the file of `problem` that is about such problems, and
//!    a row in the table of problems of `docs/reference/api.md`.

pub(crate) mod connection;
mod cors;
mod exchange;
mod lasting_caller;
mod problem;
mod query;
mod request;
mod resources;
mod response;

pub(crate) use resources::{fuzz_batch, fuzz_operation};

use crate::logs::slow_requests::{Answered, Timeline};
use crate::metrics::Route;
use crate::net::Listener;
use crate::net::channel::Channel;
use crate::net::connection_slots::ConnectionScope;
use crate::traces::{SampledRequest, TraceParent, TracedAnswer};
use crate::trust::Caller;
use crate::trust::audit::{Event, EventKind};
use base::TraceId;
use exchange::{Answer, HttpExchange};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use problem::Problem;
use request::body::RequestBody;
use request::verb::Verb;
use request::{head, negotiation};
use resources::Resource;
use response::body::ResponseBody;
use response::headers;
use std::rc::Rc;
use std::time::Duration;
use tokens::{Need, RequestedKeys};

/// How much of a method and of a path stands in a line of the audit log, in bytes. Whoever is
/// refused chooses both, and must not fill a disk with them.
const AUDITED_METHOD_BYTES_MAX: usize = 32;
const AUDITED_PATH_BYTES_MAX: usize = 256;

/// Answers a request.
pub(crate) async fn answer(
    listener: &Rc<Listener>,
    channel: &Rc<Channel>,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let began = listener.clock().monotonic();
    let read_ns = channel.steps.take_read();
    let progress = &channel.progress;
    progress.request_begins();
    let (mut head, incoming) = request.into_parts();
    let resource = Resource::of(listener, &head);
    let mut body = RequestBody::new(incoming, &head.headers);
    let granted_origin = cors::granted_origin(listener, &head.headers);
    let records_steps = profile::records_spans();
    let (mut trace, mut sampled, mut timeline) = (None, None, None);
    let answered = match head::check(&head, &listener.own_hosts, body.is_chunked()) {
        Ok(checked) => match channel.cover_head(checked.bytes) {
            Ok(()) => {
                trace = checked.trace.map(|parent| parent.trace);
                sampled = sample(listener, resource, checked.trace);
                if let Some(sampled) = sampled {
                    trace = Some(sampled.trace);
                }
                let is_timed =
                    records_steps || sampled.is_some() || listener.shared().slow_requests.is_some();
                timeline = is_timed.then(Timeline::default);
                let arrived = Arrived {
                    resource,
                    trace,
                    timeline: timeline.as_ref(),
                    began,
                };
                dispatch(listener, channel, &mut head, &mut body, arrived).await
            }
            Err(refused) => Err(refused.into()),
        },
        Err(problem) => {
            // A client that errs in the head may also err about where the body ends.
            body.distrust();
            Err(problem)
        }
    };
    let mut response = answered.unwrap_or_else(|problem| {
        audit_refusal(listener, channel, &head, &problem, trace);
        problem.in_trace(trace).into_response()
    });
    let is_no_upgrade = progress.scope() == ConnectionScope::PeerOrProbe && !progress.is_upgraded();
    if is_no_upgrade || (!body.is_ended() && !body.discard(progress).await) {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        progress.linger();
    } else if channel.is_head_reservation_wanted()
        || (listener.is_stopping() && !progress.is_upgraded())
    {
        // Only the end of the connection frees what hyper holds for a long head. And the
        // client of a node that stops learns that it has to send its next request elsewhere.
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    headers::set_common(&head.method, response.status(), response.headers_mut());
    cors::set_fields(listener, granted_origin, response.headers_mut());
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        listener.paused_connections.pause(channel);
    }
    let ended = listener.clock().monotonic();
    count(
        listener,
        resource,
        &head.method,
        response.status(),
        ended.saturating_sub(began),
    );
    if let (Some(slow_requests), Some(timeline)) = (&listener.shared().slow_requests, &timeline)
        && resource
            .and_then(|resource| resource.route)
            .is_some_and(Route::has_latency)
    {
        let answered = Answered {
            method: head.method.as_str(),
            path: head.uri.path(),
            status: response.status().as_u16(),
            trace: trace.map(|trace| trace.to_string()),
            began,
            ended,
        };
        let layout = || listener.worker.layout();
        slow_requests.note(layout, timeline, &answered);
    }
    if let (Some(traces), Some(request), Some(timeline)) =
        (&listener.shared().traces, sampled, &timeline)
    {
        let answer = TracedAnswer {
            request,
            method: head.method.as_str(),
            route: resource.map_or("", Resource::path),
            status: response.status().as_u16(),
            began,
            ended,
        };
        traces.end(&answer, timeline, || listener.worker.layout());
    }
    if let Some(timeline) = timeline.filter(|_| records_steps) {
        let port = channel.client().map_or(0, |client| client.port());
        channel
            .steps
            .answered(port, read_ns, began, &timeline, listener.clock());
    }
    response.body_mut().report_to(Rc::clone(progress));
    response
}

/// Whether a request of a client is to have spans, and the IDs of its own if so.
fn sample(
    listener: &Listener,
    resource: Option<&'static Resource>,
    parent: Option<TraceParent>,
) -> Option<SampledRequest> {
    let traces = listener.shared().traces.as_ref()?;
    resource?.route?;
    traces.sample(parent)
}

/// Counts an answer. Those to peers' upgrades count apart from those to clients.
fn count(
    listener: &Listener,
    resource: Option<&'static Resource>,
    method: &Method,
    status: StatusCode,
    took: Duration,
) {
    let requests = &listener.metrics.requests;
    let route = match resource.map(|resource| resource.route) {
        Some(None) => return requests.answered_peer(status),
        Some(Some(route)) => route,
        None => Route::Other,
    };
    requests.answered(route, method, status, took);
}

/// The first bytes of a text, up to a whole character.
fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut ends = (0..=bytes_max.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Tells the audit log of a request that was refused before anything of it was done.
fn audit_refusal(
    listener: &Listener,
    channel: &Channel,
    head: &Parts,
    problem: &Problem,
    trace: Option<TraceId>,
) {
    if let (Some(audit), Some(kind)) = (listener.trust().audit(), problem.event()) {
        let event = Event {
            client: channel.client(),
            method: Some(beginning(head.method.as_str(), AUDITED_METHOD_BYTES_MAX)),
            path: Some(beginning(head.uri.path(), AUDITED_PATH_BYTES_MAX)),
            status: Some(problem.status().as_u16()),
            trace: trace.map(|trace| trace.to_string()),
            ..Event::default()
        };
        audit.note(kind, &event);
    }
}

/// Tells the audit log of something that an operator had the node do.
fn audit_admin(listener: &Listener, channel: &Channel, told: &AdminRequest, answer: &Answer) {
    let status = match answer {
        Ok(response) => response.status(),
        Err(problem) => problem.status(),
    };
    // A right that was lost meanwhile is an event of its own.
    if let Some(audit) = listener
        .trust()
        .audit()
        .filter(|_| status != StatusCode::FORBIDDEN)
    {
        let event = Event {
            client: channel.client(),
            method: Some(told.method.as_str()),
            path: Some(&told.path),
            status: Some(status.as_u16()),
            token: told.caller.token_name(),
            trace: told.trace.map(|trace| trace.to_string()),
            ..Event::default()
        };
        audit.note(EventKind::Admin, &event);
    }
}

/// What the audit log says of a request that only operators may send.
struct AdminRequest {
    method: Method,
    path: String,
    caller: Caller,
    trace: Option<TraceId>,
}

/// A request whose head was checked.
struct Arrived<'a> {
    resource: Option<&'static Resource>,
    trace: Option<TraceId>,
    timeline: Option<&'a Timeline>,
    began: Duration,
}

/// Checks path, token and method, and lets the resource answer.
async fn dispatch(
    listener: &Rc<Listener>,
    channel: &Rc<Channel>,
    head: &mut Parts,
    body: &mut RequestBody,
    arrived: Arrived<'_>,
) -> Answer {
    let resource = arrived
        .resource
        .ok_or_else(|| Problem::unknown_path(&Resource::paths_for_clients(listener)))?;
    if channel.progress.scope() == ConnectionScope::PeerOrProbe && !resource.is_always_reached() {
        return Err(Problem::overloaded());
    }
    if head.method == Method::OPTIONS && resource.has_options(listener) {
        return Ok(cors::preflight(listener, resource, &head.headers));
    }
    let caller = if resource.is_public() {
        Caller::Anyone
    } else {
        listener.trust().caller(&head.headers)?
    };
    let verb = resource
        .verb(&head.method)
        .ok_or_else(|| Problem::method_not_allowed(&cors::allow(listener, resource)))?;
    if verb == Verb::Post && !negotiation::needs_preflight(&head.headers) {
        return Err(Problem::not_json());
    }
    let named = query::check_names(head.uri.query(), resource.parameters);
    let need = resource.need(verb);
    // A caller without the right orders nothing, whatever the answer is.
    let is_told = need == Need::Admin
        && listener.trust().audit().is_some()
        && caller.may(Need::Admin, RequestedKeys::NoKey);
    let told = is_told.then(|| AdminRequest {
        method: head.method.clone(),
        path: head.uri.path().to_owned(),
        caller: caller.clone(),
        trace: arrived.trace,
    });
    let exchange = HttpExchange {
        listener,
        channel,
        head,
        body,
        verb,
        need,
        caller,
        trace: arrived.trace,
        timeline: arrived.timeline,
        began: arrived.began,
    };
    let answer = match named {
        Ok(()) => resource.answer(exchange).await,
        Err(error) => Err(error.into()),
    };
    if let Some(told) = told {
        audit_admin(listener, channel, &told, &answer);
    }
    answer
}
