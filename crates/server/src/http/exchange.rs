//! A request as its handler gets it, with the checks that handlers share.

use crate::door::channel::Channel;
use crate::door::slow_clients::Progress;
use crate::door::{Admission, Door, Permit};
use crate::http::problem::Problem;
use crate::http::query::replicas::ReplicaRules;
use crate::http::request_body::RequestBody;
use crate::http::response_body::ResponseBody;
use crate::http::verb::Verb;
use crate::trust::Caller;
use base::Refused;
use hyper::Response;
use hyper::http::request::Parts;
use std::rc::Rc;
use std::time::Duration;
use tokens::{Asked, Need};

/// What a handler returns.
pub(crate) type Answer = Result<Response<ResponseBody>, Problem>;

/// A request that its resource answers, and the door through which it came. Its path
/// and its method are checked.
pub(crate) struct Exchange<'a> {
    /// The door, with the worker that answers for the store.
    pub(crate) door: &'a Rc<Door>,
    /// The connection.
    pub(crate) channel: &'a Rc<Channel>,
    /// The head of the request.
    pub(crate) head: &'a mut Parts,
    /// The body of the request, which a handler need not read.
    pub(crate) body: &'a mut RequestBody,
    /// The method.
    pub(crate) verb: Verb,
    /// What the method of this resource needs.
    pub(crate) need: Need,
    /// Who sent the request.
    pub(crate) caller: Caller,
    /// When the head was complete, on the monotonic clock.
    pub(crate) began: Duration,
}

impl Exchange<'_> {
    /// The raw query of the request.
    pub(crate) fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    /// The progress of the connection.
    pub(crate) fn progress(&self) -> &Progress {
        &self.channel.progress
    }

    /// What `ack` and `from` may be.
    pub(crate) fn replica_rules(&self) -> ReplicaRules {
        let config = self.door.shared().config();
        ReplicaRules {
            nodes: config.node.members.count(),
            default: config.replicas_default,
        }
    }

    /// Refuses a caller without the right for these keys.
    ///
    /// # Errors
    /// The problem to answer.
    pub(crate) fn authorize(&self, asked: Asked<'_>) -> Result<(), Problem> {
        match self.caller.may(self.need, asked) {
            true => Ok(()),
            false => Err(Problem::no_right(self.need, &self.caller)),
        }
    }

    /// Refuses a body that is announced to be longer than a value may be.
    ///
    /// # Errors
    /// The problem to answer.
    pub(crate) fn check_body_limit(&self) -> Result<(), Problem> {
        let value_bytes_max = self.door.value_bytes_max();
        if self.body.is_announced_longer_than(value_bytes_max) {
            return Err(Problem::value_too_long(value_bytes_max));
        }
        Ok(())
    }

    /// The deadline of a request whose time began with its head.
    pub(crate) fn deadline(&self) -> Duration {
        self.door.deadline_after(self.began)
    }

    /// Waits for a permit to run, until `deadline` at most.
    ///
    /// # Errors
    /// [`Refused`] at once when the gate is full, and later when the deadline has
    /// passed.
    pub(crate) async fn admit(&self, deadline: Duration) -> Result<Permit, Refused> {
        match self.door.gate.admit(deadline)? {
            Admission::Granted(permit) => Ok(permit),
            Admission::Queued(queued) => queued.await,
        }
    }

    /// Renders a page outside admission, within the time that pages may take.
    ///
    /// # Errors
    /// The problem to answer when too many requests wait for pages.
    pub(crate) async fn render(&self, page: impl FnOnce() -> Response<ResponseBody>) -> Answer {
        let limiter = &self.door.page_limiter;
        Ok(limiter.render(self.door.clock(), page).await?)
    }
}
