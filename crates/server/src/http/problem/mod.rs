//! Problems: the answers to requests that are refused or fail, as
//! `application/problem+json` (RFC 9457). All types of them are in `api::problem_type`.
//!
//! - `request`, `trust`, `entity`, `timestamp`, `scan`, `batch`, `operator`: the problems with
//!   their texts, by what they are about.
//! - `failures`: which problem each failure of the node becomes.

mod batch;
mod entity;
mod failures;
mod operator;
mod request;
mod scan;
mod timestamp;
mod trust;

#[cfg(test)]
mod tests;

use crate::http::response::body::ResponseBody;
use crate::http::response::headers::{set_acks, set_common, set_version};
use crate::trust::Unauthenticated;
use crate::trust::audit::EventKind;
use api::problem_type::{self, ProblemType};
use api::{RETRY_AFTER_SECONDS, ReplicaOutcome};
use base::{Timestamp, TraceId};
use bytes::Bytes;
use cluster::Replicas;
use hyper::header::{ALLOW, CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Response, StatusCode};
use node::Receipt;
use std::borrow::Cow;

/// Why a request was refused or has failed.
#[derive(Debug)]
pub(crate) struct Problem {
    problem_type: &'static ProblemType,
    /// What happened, with which values, and what to do.
    detail: Cow<'static, str>,
    parameter: Option<Box<str>>,
    allow: Option<Box<str>>,
    /// Why the node does not know who sent the request.
    unknown: Option<Unauthenticated>,
    /// The trace that the request is part of.
    trace: Option<TraceId>,
    /// The number of a line in a batch.
    line: Option<u64>,
    receipt: Option<Box<Receipt>>,
    /// What is known of a conditional write.
    conditional: Option<Box<Conditional>>,
    /// How many replicas had answered, and of how many.
    acks: Option<(u8, Replicas)>,
}

/// What is known of a conditional write that was not acknowledged.
#[derive(Debug, Default)]
struct Conditional {
    /// Whether it may have taken effect: a word of the API.
    outcome: Option<&'static str>,
    /// The version of the value that the key has, where the condition does not hold.
    version: Option<Timestamp>,
    /// The tag of that value.
    tag: Option<HeaderValue>,
}

impl Problem {
    fn new(problem_type: &'static ProblemType, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            problem_type,
            detail: detail.into(),
            parameter: None,
            allow: None,
            unknown: None,
            trace: None,
            line: None,
            receipt: None,
            conditional: None,
            acks: None,
        }
    }

    /// The problem of a request that is part of a trace.
    pub(crate) fn in_trace(mut self, trace: Option<TraceId>) -> Self {
        self.trace = trace;
        self
    }

    /// What the audit log says of a problem from before authorization. `authorize` itself
    /// notes a missing right.
    pub(crate) fn event(&self) -> Option<EventKind> {
        let known = [
            (&problem_type::OTHER_HOST, EventKind::OtherHost),
            (&problem_type::OTHER_ORIGIN, EventKind::OtherOrigin),
            (&problem_type::NO_TOKEN, EventKind::NoToken),
            (&problem_type::PEER_CERTIFICATE, EventKind::NoPeer),
        ];
        let event = known
            .into_iter()
            .find(|(known, _)| *known == self.problem_type);
        event.map(|(_, event)| event)
    }

    /// The problem as an answer.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::full(Bytes::from(self.document())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        // Names of methods and commas are always a valid value.
        if let Some(Ok(allow)) = self.allow.as_deref().map(HeaderValue::from_str) {
            headers.insert(ALLOW, allow);
        }
        if let Some(unknown) = self.unknown {
            headers.insert(WWW_AUTHENTICATE, challenge(unknown));
        }
        if let Some(version) = self.version() {
            set_version(headers, version);
        }
        if let Some(known) = self.conditional.as_ref()
            && let Some(tag) = &known.tag
        {
            headers.insert(ETAG, tag.clone());
        }
        if let Some((acks, replicas)) = self.acks {
            set_acks(headers, acks, replicas);
        }
        if self.status() == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        response
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        // All of them are statuses.
        StatusCode::from_u16(self.problem_type.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The version of the value that the key has, where a condition does not hold.
    pub(crate) fn version(&self) -> Option<Timestamp> {
        self.conditional.as_ref()?.version
    }

    /// The problem as the bytes of a whole answer, for a connection that ends with it
    /// before hyper has parsed a request.
    pub(crate) fn into_last_bytes(self) -> Vec<u8> {
        let document = self.document();
        let mut response = self.into_response();
        set_common(&Method::GET, response.status(), response.headers_mut());
        let mut bytes = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
        for (name, value) in response.headers() {
            bytes.extend_from_slice(name.as_ref());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        let rest = format!(
            "content-length: {}\r\nconnection: close\r\n\r\n",
            document.len()
        );
        bytes.extend_from_slice(rest.as_bytes());
        bytes.extend_from_slice(&document);
        bytes
    }

    /// The problem as JSON.
    pub(crate) fn document(&self) -> Vec<u8> {
        let mut document = api::Problem::new(self.problem_type, &self.detail);
        document.parameter = self.parameter.as_deref().map(str::to_owned);
        document.allow = self.allow.as_deref().map(str::to_owned);
        document.trace = self.trace.map(|trace| trace.to_string());
        document.line = self.line;
        let outcome = self.conditional.as_ref().and_then(|known| known.outcome);
        document.outcome = outcome.map(str::to_owned);
        if let Some(receipt) = &self.receipt {
            let replicas = receipt.replicas.iter().map(|line| ReplicaOutcome {
                url: line.url.clone(),
                outcome: line.outcome.word().to_owned(),
            });
            document.timestamp = receipt.timestamp.map(|timestamp| timestamp.to_string());
            document.replicas = replicas.collect();
        }
        document.to_json()
    }
}

/// What tells a client that it needs a token (RFC 6750).
fn challenge(unknown: Unauthenticated) -> HeaderValue {
    HeaderValue::from_static(match unknown {
        Unauthenticated::NoToken => "Bearer realm=\"kvorum\"",
        Unauthenticated::NotInForce => "Bearer realm=\"kvorum\", error=\"invalid_token\"",
    })
}
