//! A request as its handler gets it, with the checks that handlers share.

use crate::http::problem::Problem;
use crate::http::query::replicas::ReplicaRules;
use crate::http::request::body::RequestBody;
use crate::http::request::verb::Verb;
use crate::http::response::body::ResponseBody;
use crate::http::response::headers;
use crate::logs::slow_requests::Timeline;
use crate::net::Listener;
use crate::net::channel::Channel;
use crate::net::slow_clients::ConnectionProgress;
use crate::trust::Caller;
use crate::trust::audit::{Event, EventKind};
use base::{Admitted, Permit, Refused, TraceId};
use cluster::Replicas;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use node::Terms;
use std::rc::Rc;
use std::time::Duration;
use tokens::{Need, RequestedKeys};

/// How many fields an answer usually has; hyper adds some that are not in its list.
const FIELDS_USUAL: usize = 8;

/// What a handler returns.
pub(crate) type Answer = Result<Response<ResponseBody>, Problem>;

/// A request that its resource answers, and the listener through which it came. Its path
/// and its method are checked.
pub(crate) struct HttpExchange<'a> {
    /// The listener, with the worker that answers for the store.
    pub(crate) listener: &'a Rc<Listener>,
    /// The connection.
    pub(crate) channel: &'a Rc<Channel>,
    /// The head of the request.
    pub(crate) head: &'a mut Parts,
    /// The body of the request, which a handler need not read.
    pub(crate) body: &'a mut RequestBody,
    /// The method.
    pub(crate) verb: Verb,
    /// The right that the method of this resource needs.
    pub(crate) need: Need,
    /// Who sent the request.
    pub(crate) caller: Caller,
    /// The trace that the request is part of.
    pub(crate) trace: Option<TraceId>,
    /// Where its time goes, if anyone asks for it.
    pub(crate) timeline: Option<&'a Timeline>,
    /// When the head was complete, on the monotonic clock.
    pub(crate) began: Duration,
}

impl HttpExchange<'_> {
    /// The raw query of the request.
    pub(crate) fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    /// The progress of the connection.
    pub(crate) fn progress(&self) -> &ConnectionProgress {
        &self.channel.progress
    }

    /// What `ack` and `from` may be.
    pub(crate) fn replica_rules(&self) -> ReplicaRules {
        let worker = &self.listener.worker;
        let configured = self.listener.shared().config().replicas_default;
        ReplicaRules {
            nodes: worker.nodes(),
            default: worker.default_pair().or(configured),
        }
    }

    /// Refuses a caller without the right for these keys.
    ///
    /// # Errors
    /// The problem to answer.
    pub(crate) fn authorize(&self, asked: RequestedKeys<'_>) -> Result<(), Problem> {
        let key = match asked {
            RequestedKeys::NoKey | RequestedKeys::SomeKeys => None,
            RequestedKeys::Key(key) | RequestedKeys::Range(key, _) => Some(key),
        };
        if let (Some(timeline), Some(key)) = (self.timeline, key) {
            timeline.asks_for(key);
        }
        if self.caller.may(self.need, asked) {
            return Ok(());
        }
        let problem = Problem::no_right(self.need, &self.caller);
        if let Some(audit) = self.listener.trust().audit() {
            let event = Event {
                client: self.channel.client(),
                method: Some(self.head.method.as_str()),
                path: Some(self.head.uri.path()),
                status: Some(problem.status().as_u16()),
                token: self.caller.token_name(),
                key: key.and_then(|key| self.listener.trust().shown(key)),
                trace: self.trace.map(|trace| trace.to_string()),
            };
            audit.note(EventKind::NoRight, &event);
        }
        Err(problem)
    }

    /// Refuses a body that is announced to be longer than a value may be.
    ///
    /// # Errors
    /// The problem to answer.
    pub(crate) fn check_body_limit(&self) -> Result<(), Problem> {
        let value_bytes_max = self.listener.value_bytes_max();
        if self.body.is_announced_longer_than(value_bytes_max) {
            return Err(Problem::value_too_long(value_bytes_max));
        }
        Ok(())
    }

    /// Drops the fields of the request, which nobody needs any more.
    pub(crate) fn drop_fields(&mut self) {
        headers::clear(&mut self.head.headers);
    }

    /// An answer. Its fields lie where those of the request did, and those of the next
    /// request on the connection will lie there, too: so none of them allocates a list.
    pub(crate) fn response(
        &mut self,
        status: StatusCode,
        body: ResponseBody,
    ) -> Response<ResponseBody> {
        self.drop_fields();
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = std::mem::take(&mut self.head.headers);
        response.headers_mut().reserve(FIELDS_USUAL);
        response
    }

    /// The terms on which replicas are asked until `deadline`.
    pub(crate) fn terms(&self, replicas: Replicas, deadline: Duration) -> Terms {
        if let Some(timeline) = self.timeline {
            timeline.asks(replicas);
        }
        Terms {
            replicas,
            deadline,
            trace: self.trace,
            watch: self.timeline.map(|timeline| Rc::clone(&timeline.replicas)),
        }
    }

    /// The deadline of a request whose time began with its head.
    pub(crate) fn deadline(&self) -> Duration {
        self.listener.deadline_after(self.began)
    }

    /// Waits for a permit to run, until `deadline` at most.
    ///
    /// # Errors
    /// [`Refused`] at once when too many wait, and later when the deadline has passed.
    pub(crate) async fn admit(&self, deadline: Duration) -> Result<Permit, Refused> {
        let permit = match self.listener.permits.admit(deadline)? {
            Admitted::Granted(permit) => permit,
            Admitted::Queued(queued) => queued.await?,
        };
        if let Some(timeline) = self.timeline {
            timeline.admitted(self.listener.clock().monotonic());
        }
        Ok(permit)
    }

    /// Renders a page outside admission, within the time that pages may take.
    ///
    /// # Errors
    /// The problem to answer when too many requests wait for pages.
    pub(crate) async fn render(&self, page: impl FnOnce() -> Response<ResponseBody>) -> Answer {
        let limiter = &self.listener.page_limiter;
        Ok(limiter.render(self.listener.clock(), page).await?)
    }
}
