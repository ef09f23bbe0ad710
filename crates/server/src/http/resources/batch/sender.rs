//! Who sent a batch, and which of its operations may run.

use super::operation::Operation;
use crate::door::Door;
use crate::http::exchange::Exchange;
use crate::http::problem::Problem;
use crate::trust::Caller;
use crate::trust::audit::{Event, EventKind};
use base::TraceId;
use std::net::SocketAddr;
use tokens::Asked;

/// Who sent a batch.
pub(super) struct Sender {
    caller: Caller,
    /// The other side of the connection, if the audit log may ask for it.
    client: Option<SocketAddr>,
    /// The trace that the batch is part of.
    pub(super) trace: Option<TraceId>,
}

impl Sender {
    /// The sender of a request.
    pub(super) fn of(exchange: &Exchange<'_>) -> Self {
        let audit = exchange.door.trust().audit();
        Self {
            caller: exchange.caller.clone(),
            client: audit.and_then(|_| exchange.channel.client()),
            trace: exchange.trace,
        }
    }

    /// Checks the right for an operation, by the tokens that are in force now.
    ///
    /// # Errors
    /// The problem to answer.
    pub(super) fn check(&mut self, door: &Door, operation: &Operation) -> Result<(), Problem> {
        let trust = door.trust();
        trust.refresh(&mut self.caller);
        let need = operation.access().into();
        if self.caller.may(need, Asked::Key(&operation.key)) {
            return Ok(());
        }
        let problem = Problem::no_right(need, &self.caller);
        if let Some(audit) = trust.audit() {
            let event = Event {
                client: self.client,
                method: Some("POST"),
                path: Some("/v0/batch"),
                status: Some(problem.status().as_u16()),
                token: self.caller.token_name(),
                key: trust.shown(&operation.key),
                trace: self.trace.map(|trace| trace.to_string()),
            };
            audit.note(EventKind::NoRight, &event);
        }
        Err(problem)
    }
}
