//! `/debug/profile`: records how the serving process spends its time and memory. Outside admission,
//! so that an operator can profile an overloaded node.
//!
//! The request lasts as long as the recording. The recording ends early when the client leaves,
//! because nobody would receive the profile, and when the node stops, because a stop waits for
//! requests; the profile then covers the time until the stop.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::{ParameterError, number_of, pairs, set, unknown};
use crate::http::request::negotiation::{ProfileFormat, profile_format};
use crate::http::request::verb::Verb;
use crate::http::response::body::ResponseBody;
use crate::net::Listener;
use crate::net::channel::Channel;
use bytes::Bytes;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue, VARY};
use profile::{ProfileKind, Recording, RecordingError, SpanRecording};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::task::Poll;
use std::time::Duration;
use tokens::RequestedKeys;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How often a recording checks whether the client has left or the node stops.
const CHECK_PERIOD: Duration = Duration::from_millis(100);

/// For how many seconds a profile may be recorded.
const SECONDS: RangeInclusive<u64> = 1..=60;

/// For how many seconds a profile is recorded if the request does not say.
const SECONDS_DEFAULT: u64 = 10;

/// The parameters of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProfileParameters {
    /// What to record.
    kind: Kind,
    /// For how long.
    seconds: u64,
}

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Sums by stack.
    Profile(ProfileKind),
    /// Each wait and each request by itself.
    Spans,
}

impl Kind {
    /// The name of [`Kind::Spans`] in requests.
    const SPANS: &str = "spans";

    fn of_word(word: &str) -> Option<Self> {
        match word {
            Self::SPANS => Some(Self::Spans),
            word => ProfileKind::of_word(word).map(Self::Profile),
        }
    }
}

/// A recording that runs.
enum Running {
    Profile(Recording),
    Spans(SpanRecording),
}

impl Running {
    fn start(kind: Kind) -> Result<Self, RecordingError> {
        match kind {
            Kind::Profile(kind) => Recording::start(kind).map(Self::Profile),
            Kind::Spans => SpanRecording::start().map(Self::Spans),
        }
    }

    fn finish(self, format: ProfileFormat) -> String {
        match (self, format) {
            (Self::Spans(spans), _) => spans.finish(),
            (Self::Profile(recording), ProfileFormat::FlameGraph) => {
                recording.finish().flame_graph()
            }
            (Self::Profile(recording), ProfileFormat::Folded) => recording.finish().folded(),
        }
    }
}

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid.
fn parameters(query: Option<&str>) -> Result<ProfileParameters, ParameterError> {
    let (mut kind, mut seconds) = (None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"kind" => set(&mut kind, "kind", kind_of(&value)?)?,
            b"seconds" => set(&mut seconds, "seconds", seconds_of(&value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(ProfileParameters {
        kind: kind.ok_or_else(|| {
            ParameterError::new("kind", "is missing: give kind=cpu, alloc, lock or spans")
        })?,
        seconds: seconds.unwrap_or(SECONDS_DEFAULT),
    })
}

fn kind_of(value: &[u8]) -> Result<Kind, ParameterError> {
    std::str::from_utf8(value)
        .ok()
        .and_then(Kind::of_word)
        .ok_or_else(|| ParameterError::new("kind", "is unknown: give cpu, alloc, lock or spans"))
}

fn seconds_of(value: &[u8]) -> Result<u64, ParameterError> {
    let seconds = number_of("seconds", value)?;
    if SECONDS.contains(&seconds) {
        return Ok(seconds);
    }
    let (least, most) = (SECONDS.start(), SECONDS.end());
    Err(ParameterError::new(
        "seconds",
        format_args!("is out of range: give {least} to {most}"),
    ))
}

/// `GET` and `HEAD`; `HEAD` records nothing.
pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let parameters = parameters(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let format = match parameters.kind {
        Kind::Profile(_) => profile_format(&exchange.head.headers),
        Kind::Spans => ProfileFormat::Folded,
    };
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
    if exchange.verb == Verb::Head {
        return Ok(response);
    }
    let recording = on_blocking_thread(move || Running::start(parameters.kind))
        .await?
        .map_err(|error| Problem::of_recording(&error))?;
    let time = Duration::from_secs(parameters.seconds);
    wait(exchange.listener, exchange.channel, time).await?;
    let page = on_blocking_thread(move || recording.finish(format)).await?;
    Ok(response.map(|_| ResponseBody::full(Bytes::from(page))))
}

/// Waits for `time`, or until the node stops.
///
/// # Errors
/// The problem to answer when the client has left.
async fn wait(listener: &Listener, channel: &Channel, time: Duration) -> Result<(), Problem> {
    let end = Instant::now() + time;
    while !listener.is_stopping() && Instant::now() < end {
        tokio::time::sleep_until(end.min(Instant::now() + CHECK_PERIOD)).await;
        if poll_fn(|cx| Poll::Ready(channel.has_client_left(cx))).await {
            return Err(Problem::client_left());
        }
    }
    Ok(())
}

/// Runs long work on a thread that no other request waits for.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let (sender, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name("profile".to_owned());
    let started = thread.spawn(move || {
        // The client may have left.
        let _awaited = sender.send(work()).is_ok();
    });
    if let Err(error) = started {
        let detail = format!("cannot start a thread for the profile: {error}");
        return Err(Problem::profile_failed(detail));
    }
    done.await
        .map_err(|_| Problem::profile_failed("the profile was lost: the node's log says why"))
}
