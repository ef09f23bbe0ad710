//! The caller of a request that may outlive its token: a batch, or a scan. Such a request has its
//! right checked again while it runs.

use crate::http::exchange::HttpExchange;
use crate::http::problem::Problem;
use crate::trust::audit::{Event, EventKind};
use crate::trust::{Caller, Trust};
use base::TraceId;
use hyper::Method;
use std::net::SocketAddr;
use tokens::{Need, RequestedKeys};

/// Who sent a request that may outlive its token.
pub(crate) struct LastingCaller {
    caller: Caller,
    /// What the audit log may ask for, if there is one.
    audited: Option<Audited>,
    /// The trace that the request is part of.
    pub(crate) trace: Option<TraceId>,
}

/// What the audit log says of the request.
struct Audited {
    /// The other side of the connection.
    client: Option<SocketAddr>,
    method: Method,
    path: String,
}

impl LastingCaller {
    /// Who sent this request.
    pub(crate) fn of(exchange: &HttpExchange<'_>) -> Self {
        let audit = exchange.listener.trust().audit();
        Self {
            caller: exchange.caller.clone(),
            audited: audit.map(|_| Audited {
                client: exchange.channel.client(),
                method: exchange.head.method.clone(),
                path: exchange.head.uri.path().to_owned(),
            }),
            trace: exchange.trace,
        }
    }

    /// Checks a right by the tokens that are in force now. That it is missing is an event of
    /// the audit log.
    ///
    /// # Errors
    /// The problem to answer.
    pub(crate) fn authorize(
        &mut self,
        trust: &Trust,
        need: Need,
        asked: RequestedKeys<'_>,
    ) -> Result<(), Problem> {
        trust.refresh(&mut self.caller);
        if self.caller.may(need, asked) {
            return Ok(());
        }
        let problem = Problem::no_right(need, &self.caller);
        if let (Some(audit), Some(audited)) = (trust.audit(), &self.audited) {
            let key = match asked {
                RequestedKeys::NoKey | RequestedKeys::SomeKeys => None,
                RequestedKeys::Key(key) | RequestedKeys::Range(key, _) => Some(key),
            };
            let event = Event {
                client: audited.client,
                method: Some(audited.method.as_str()),
                path: Some(&audited.path),
                status: Some(problem.status().as_u16()),
                token: self.caller.token_name(),
                key: key.and_then(|key| trust.shown(key)),
                trace: self.trace.map(|trace| trace.to_string()),
            };
            audit.note(EventKind::NoRight, &event);
        }
        Err(problem)
    }
}
