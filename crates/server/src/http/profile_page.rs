//! `/debug/profile`: what the process does with its time and its memory, while
//! it serves. Outside admission, so that an overloaded node can be looked into.
//!
//! The request lasts as long as the recording. It ends the recording early when
//! the client leaves (nobody would get it), and when the node stops (which
//! waits for requests); then the profile is of the time until then.

use crate::door::Door;
use crate::door::channel::Channel;
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::check_body_limit;
use crate::http::conditional::{ProfileFormat, profile_format};
use crate::http::parameters;
use crate::http::problem::Problem;
use crate::http::route::Verb;
use bytes::Bytes;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue, VARY};
use hyper::http::request::Parts;
use profile::Recording;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// How often to look whether the client or the node has had enough.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// `GET` and `HEAD`; the latter records nothing.
pub(crate) async fn get(
    door: &Door,
    channel: &Channel,
    head: &Parts,
    body: &RequestBody,
    verb: Verb,
) -> Result<Response<ResponseBody>, Problem> {
    let parameters = parameters::profile(head.uri.query())?;
    check_body_limit(door, body)?;
    let format = profile_format(&head.headers);
    let mut response = Response::new(ResponseBody::empty());
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static(match format {
            ProfileFormat::FlameGraph => "image/svg+xml",
            ProfileFormat::Folded => "text/plain; charset=utf-8",
        }),
    );
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("accept"));
    if verb == Verb::Head {
        return Ok(response);
    }
    let recording = aside(move || Recording::start(parameters.kind))
        .await?
        .map_err(|error| Problem::of_recording(&error))?;
    last(door, channel, Duration::from_secs(parameters.seconds)).await?;
    let page = aside(move || {
        let profile = recording.finish();
        match format {
            ProfileFormat::FlameGraph => profile.flame_graph(),
            ProfileFormat::Folded => profile.folded(),
        }
    })
    .await?;
    Ok(response.map(|_| ResponseBody::full(Bytes::from(page))))
}

/// Waits for `time`, or until the node stops.
///
/// # Errors
/// The client has left.
async fn last(door: &Door, channel: &Channel, time: Duration) -> Result<(), Problem> {
    let end = Instant::now() + time;
    while !door.is_stopping() && Instant::now() < end {
        tokio::time::sleep_until(end.min(Instant::now() + LOOK_PERIOD)).await;
        if poll_fn(|cx| Poll::Ready(channel.has_client_left(cx))).await {
            return Err(Problem::client_left());
        }
    }
    Ok(())
}

/// Does what takes long where it holds up no other request.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Problem::profile_failed())
}
