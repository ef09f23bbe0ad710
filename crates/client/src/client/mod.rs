//! A client of several nodes: decides which node to ask, what to retry, and how often.
//!
//! Any node serves any request, so a client tries the next node when one fails. Whether it may
//! retry depends on what the failed attempt may have done:
//!
//! | attempt | a read | a write |
//! |---|---|---|
//! | no connection, no trust, or `503`: nothing was done | next node | next node |
//! | silence, a cut connection, `500`, `504`: the outcome is unknown | next node | only if the caller asks for it |
//! | `504` that says `not-applied`: nothing was done | | next node |
//! | every other answer | final | final |
//!
//! Retrying a write whose outcome is unknown makes a new write, newer than everything acknowledged
//! meanwhile, so only the caller can decide it. A conditional write is never repeated then.

pub(crate) mod pool;

use crate::connection::{Answer, Limits, RequestBody};
use crate::error::{Error, Outcome};
use crate::node::Node;
use crate::query::Target;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request};
use pool::{Exchange, Pool};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The wait after the first round in which all nodes failed. It doubles with each round.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);

/// The longest wait between two rounds, also if nodes ask for a longer one.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// How a client deals with nodes that do not serve it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long it waits for a connection, and for the next byte.
    pub limits: Limits,
    /// How long a scan may be silent. `None`: as long as a node may be that works on one.
    pub scan_silence_max: Option<Duration>,
    /// How many more times it asks all nodes, once each has failed.
    pub retries: u32,
    /// Whether it repeats a write whose outcome is unknown.
    pub repeats_writes: bool,
    /// How many requests run at a time, each over a connection of its own. More wait, for as long as a
    /// node may be silent. Those of an import do not count.
    pub connections: usize,
}

impl Default for Settings {
    /// A second for a connection, five without a byte of an answer, four rounds over all nodes, 64
    /// connections, and no write is repeated whose outcome is unknown.
    fn default() -> Self {
        Self {
            limits: Limits {
                connect_max: Duration::from_secs(1),
                silence_max: Duration::from_secs(5),
            },
            scan_silence_max: None,
            retries: 3,
            repeats_writes: false,
            connections: 64,
        }
    }
}

/// Gives the field `traceparent` of an operation, or none.
type Traceparent = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// A request may be repeated after an attempt whose outcome is unknown, or may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or nothing more when it is done twice.
    Always,
    /// Only after an attempt that did nothing.
    IfNotDone,
}

impl Repeat {
    /// Whether another node may be asked after this error.
    pub(crate) fn continues_after(self, error: &Error) -> bool {
        match error.outcome() {
            Outcome::NotDone => true,
            Outcome::Unknown => self == Self::Always,
            Outcome::Final => false,
        }
    }
}

/// A client of the nodes of a cluster.
pub struct Client {
    nodes: Vec<Node>,
    settings: Settings,
    pool: Pool,
    traceparent: Option<Traceparent>,
    /// The node that served the last request.
    preferred: AtomicUsize,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("nodes", &self.nodes)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of these nodes, which asks the first one first. `None` without a node.
    pub fn new(nodes: Vec<Node>, settings: Settings) -> Option<Self> {
        (!nodes.is_empty()).then(|| Self {
            nodes,
            settings,
            pool: Pool::new(settings.connections),
            traceparent: None,
            preferred: AtomicUsize::new(0),
        })
    }

    /// The same, with the header `traceparent` of W3C Trace Context in its requests. The function is
    /// called once for each operation, an import excepted; what is no header is left out.
    #[must_use]
    pub fn with_traceparent(
        self,
        traceparent: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            traceparent: Some(Arc::new(traceparent)),
            ..self
        }
    }

    /// A request without a body, which names the trace of a new operation.
    pub(crate) fn message(&self, method: Method, target: Target) -> Message {
        let mut message = Message::new(method, target);
        message.trace = self.trace();
        message
    }

    /// The trace of a new operation.
    pub(crate) fn trace(&self) -> Option<HeaderValue> {
        let traceparent = self.traceparent.as_ref()?();
        HeaderValue::try_from(traceparent?).ok()
    }

    /// The nodes.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How it deals with nodes that do not serve it.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// How a write may be repeated.
    pub(crate) fn repeat_of_writes(&self) -> Repeat {
        if self.settings.repeats_writes {
            Repeat::Always
        } else {
            Repeat::IfNotDone
        }
    }

    /// Asks one node after the other until one serves the request, beginning with the one
    /// that served the last.
    ///
    /// # Errors
    /// The first error after which the request may not be repeated; with one node the last
    /// error, with several [`Error::AllFailed`].
    pub(crate) async fn ask<T>(
        &self,
        repeat: Repeat,
        attempt: impl AsyncFn(&Node) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.ask_among(&self.nodes, repeat, attempt).await
    }

    /// As [`Self::ask`], but only the first of its nodes that are given.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) async fn ask_among<T>(
        &self,
        nodes: &[Node],
        repeat: Repeat,
        attempt: impl AsyncFn(&Node) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut round = 0;
        loop {
            let mut errors = Vec::with_capacity(nodes.len());
            let first = self.preferred.load(Ordering::Relaxed);
            for place in 0..nodes.len() {
                let index = (first + place) % nodes.len();
                match attempt(&nodes[index]).await {
                    Ok(done) => {
                        self.preferred.store(index, Ordering::Relaxed);
                        return Ok(done);
                    }
                    Err(error) if repeat.continues_after(&error) => errors.push(error),
                    Err(error) => return Err(error),
                }
            }
            if round == self.settings.retries || errors.iter().all(Error::is_lasting) {
                return Err(all_failed(errors));
            }
            tokio::time::sleep(pause(round, &errors)).await;
            round += 1;
        }
    }

    /// Sends a request to a node. Returns its answer, which has the status of success.
    ///
    /// # Errors
    /// Those of the connection, and [`Error::Refused`] for any other status.
    pub(crate) async fn send(
        &self,
        limits: Limits,
        node: &Node,
        message: &Message,
    ) -> Result<Exchange<'_>, Error> {
        let status = message.success_status();
        self.send_request(limits, node, message.request(node)?, status)
            .await
    }

    /// As [`Self::send`], a request that is written already, and has this status of success.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_request(
        &self,
        limits: Limits,
        node: &Node,
        request: Request<RequestBody>,
        status: u16,
    ) -> Result<Exchange<'_>, Error> {
        let mut exchange = self.pool.send(node, request, limits).await?;
        match exchange.answer.check(status).await {
            Ok(()) => Ok(exchange),
            Err(error) => {
                exchange.finish();
                Err(error)
            }
        }
    }

    /// As [`Self::send`], with the whole body of the answer, from which `read` takes what is wanted.
    ///
    /// # Errors
    /// As [`Self::send`], and those of `read`.
    pub(crate) async fn fetch<T>(
        &self,
        limits: Limits,
        node: &Node,
        message: &Message,
        bytes_max: u64,
        read: impl FnOnce(&Answer, Vec<u8>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut exchange = self.send(limits, node, message).await?;
        let body = exchange.answer.read_all(bytes_max).await?;
        let done = read(&exchange.answer, body);
        exchange.finish();
        done
    }
}

/// The failure of all nodes as one.
pub(crate) fn all_failed(mut errors: Vec<Error>) -> Error {
    match errors.pop() {
        Some(only) if errors.is_empty() => only,
        last => {
            errors.extend(last);
            Error::AllFailed(errors)
        }
    }
}

/// How long to wait after a round in which all nodes failed: longer with each round, and
/// as long as a node asks for, within a bound.
pub(crate) fn pause(round: u32, errors: &[Error]) -> Duration {
    let backoff = BACKOFF_FIRST.saturating_mul(1 << round.min(10));
    let asked_for = errors
        .iter()
        .filter_map(|error| error.refusal()?.retry_after);
    backoff
        .max(asked_for.max().unwrap_or_default())
        .min(BACKOFF_MAX)
}

/// A request that can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) headers: Vec<(&'static str, Cow<'static, str>)>,
    pub(crate) body: bytes::Bytes,
    /// Whether the body is sent in chunks, so that the node answers while it reads.
    pub(crate) is_chunked: bool,
    /// The trace of the operation.
    pub(crate) trace: Option<HeaderValue>,
}

impl Message {
    /// A request without a body.
    pub(crate) fn new(method: Method, target: Target) -> Self {
        Self {
            method,
            target,
            headers: Vec::new(),
            body: bytes::Bytes::new(),
            is_chunked: false,
            trace: None,
        }
    }

    /// The status of success.
    pub(crate) fn success_status(&self) -> u16 {
        match self.method {
            Method::PUT => 201,
            Method::DELETE => 202,
            _ => 200,
        }
    }

    /// The request for a node.
    ///
    /// # Errors
    /// [`Error::NoToken`], and a target that is no part of a URL, which no key makes.
    pub(crate) fn request(&self, node: &Node) -> Result<Request<RequestBody>, Error> {
        let body = if self.is_chunked {
            RequestBody::chunked(self.body.clone())
        } else {
            RequestBody::of_known_length(self.body.clone())
        };
        self.request_with(node, body)
    }

    /// The request for a node, with this body.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(crate) fn request_with(
        &self,
        node: &Node,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.target.as_str())
            .header(HOST, node.authority());
        if let Some(token) = node.token()? {
            request = request.header(AUTHORIZATION, token.field());
        }
        if let Some(trace) = &self.trace {
            request = request.header("traceparent", trace);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, &**value);
        }
        let request = request.body(body);
        request.map_err(|error| Error::other_server(node.url(), error.to_string()))
    }
}

#[cfg(test)]
mod tests;
