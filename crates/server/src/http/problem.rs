//! PausedConnections and failures: what the client is told, as `application/problem+json`
//! (RFC 9457), and the one table from what went wrong to a status.

use crate::door::paused_connections::RETRY_AFTER_SECONDS;
use crate::door::web_pages::Foreign;
use crate::http::body::ResponseBody;
use crate::http::entity::set_acks;
use crate::http::parameters::ParameterError;
use crate::http::set_common;
use bytes::Bytes;
use cluster::Replicas;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Response, StatusCode};
use node::{BatchFailure, Failure, NoStamp, Receipt};
use profile::RecordingError;
use serde::Serialize;
use std::borrow::Cow;

/// How much of a foreign `Host` is shown.
const HOST_SHOWN_BYTES: usize = 256;

/// Why a request is not answered as it wished.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// The last part of `type`.
    kind: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    parameter: Option<Box<str>>,
    allow: Option<&'static str>,
    receipt: Option<Box<Receipt>>,
    /// The answers in hand, of how many replicas.
    acks: Option<(u8, Replicas)>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow: Option<&'a str>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    receipt: Option<ReceiptDocument<'a>>,
}

/// A receipt as its reader gets it; the header of the reply has its acks.
#[derive(Serialize)]
struct ReceiptDocument<'a> {
    /// A decimal number in a string: JSON's numbers do not hold all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    replicas: Vec<ReplicaDocument<'a>>,
}

#[derive(Serialize)]
struct ReplicaDocument<'a> {
    url: &'a str,
    outcome: &'static str,
}

impl<'a> From<&'a Receipt> for ReceiptDocument<'a> {
    fn from(receipt: &'a Receipt) -> Self {
        let replicas = receipt.replicas.iter().map(|line| ReplicaDocument {
            url: &line.url,
            outcome: line.outcome.word(),
        });
        Self {
            timestamp: receipt.timestamp.map(|timestamp| timestamp.to_string()),
            replicas: replicas.collect(),
        }
    }
}

impl Problem {
    fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status,
            kind,
            title,
            detail: detail.into(),
            parameter: None,
            allow: None,
            receipt: None,
            acks: None,
        }
    }

    /// The path is none of ours.
    pub(crate) fn unknown_path() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "unknown-path",
            "Unknown Path",
            "there is nothing at this path: use /v0/entity, /v0/entities, /v0/status, /v0/ring or \
             /metrics",
        )
    }

    /// The resource does not have the method.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let mut problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method Not Allowed",
            format!("this resource knows {allow} only"),
        );
        problem.allow = Some(allow);
        problem
    }

    /// The target is longer than any that could be right.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::URI_TOO_LONG,
            "target-too-long",
            "Target Too Long",
            format!("the request's target is longer than {bytes_max} bytes: use shorter keys"),
        )
    }

    /// The header fields are longer than any node needs.
    pub(crate) fn fields_too_long(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "header-too-long",
            "Header Too Long",
            format!(
                "the header fields are longer than {bytes_max} bytes: send fewer or shorter ones"
            ),
        )
    }

    /// A `Host` that is none of this node's: it may be a page's own site.
    pub(crate) fn other_host(host: &[u8]) -> Self {
        let shown = host[..host.len().min(HOST_SHOWN_BYTES)].escape_ascii();
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "other-host",
            "Other Host",
            format!(
                "this node is not known as `{shown}`: use an IP address, localhost or a host of \
                 --cluster, or start the node with --host and that name"
            ),
        )
    }

    /// A browser sent the request for a page that is not this node's.
    pub(crate) fn other_origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "other-origin",
            "Other Origin",
            "a browser sent this for a page of another origin (Origin, Sec-Fetch-Site): pages of \
             other sites may not use this node",
        )
    }

    /// No `Host`, or several.
    pub(crate) fn bad_host() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-host",
            "Bad Host",
            "HTTP/1.1 asks for exactly one Host field in each request: send one",
        )
    }

    /// A body in another transfer coding than chunks.
    pub(crate) fn unknown_transfer_coding() -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "unknown-transfer-coding",
            "Unknown Transfer Coding",
            "chunked is the only transfer coding here: send the value as it is to be stored",
        )
    }

    /// A `Transfer-Encoding` that makes no sense.
    pub(crate) fn bad_transfer_coding() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-transfer-coding",
            "Bad Transfer Coding",
            "Transfer-Encoding is to be `chunked`, once",
        )
    }

    /// A `PUT` of a part.
    pub(crate) fn partial_put() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "partial-put",
            "Partial Put",
            "a PUT with Content-Range would replace a value by a part of it: send the whole value",
        )
    }

    /// A precondition on a write: not to heed it could lose data.
    pub(crate) fn conditional_write() -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "conditional-write",
            "Conditional Writes Not Implemented",
            "If-Match and If-None-Match are not implemented for PUT and DELETE: leave them out",
        )
    }

    /// An `If-Match` that does not name the version which a read found.
    pub(crate) fn other_version() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "other-version",
            "Other Version",
            "the entity's ETag is not one of those in If-Match: read it without",
        )
    }

    /// The body is longer than a value may be.
    pub(crate) fn value_too_long(value_bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "value-too-long",
            "Value Too Long",
            format!("the body is longer than {value_bytes_max} bytes: send a shorter value"),
        )
    }

    /// The body did not come as it should.
    pub(crate) fn broken_body() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "broken-body",
            "Broken Body",
            "the body ended early or its chunks are malformed: send the request again",
        )
    }

    /// The body comes too slowly.
    pub(crate) fn late_body() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "late-body",
            "Late Body",
            "the body comes too slowly: send the request again, at a steady pace",
        )
    }

    /// The node has taken on as much as it may.
    pub(crate) fn overloaded() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "Overloaded",
            "the node has as many requests, or as much of their data, as it can serve: \
             try again later, or another node",
        )
    }

    /// The node gives writes no stamp.
    pub(crate) fn no_stamp(why: NoStamp) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "clock",
            "Clock Out Of Bounds",
            why.to_string(),
        )
    }

    /// A request to where only peers go.
    pub(crate) fn upgrade_required() -> Self {
        Self::new(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade-required",
            "Upgrade Required",
            "this is where the nodes of a cluster meet: clients use /v0/entity",
        )
    }

    /// A profile that cannot be recorded.
    pub(crate) fn of_recording(error: &RecordingError) -> Self {
        let (status, kind, title) = match error {
            RecordingError::Busy => (StatusCode::CONFLICT, "profile-running", "Profile Running"),
            RecordingError::NoAllocator => (
                StatusCode::NOT_IMPLEMENTED,
                "profile-unavailable",
                "Profile Unavailable",
            ),
            RecordingError::System(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "profile-failed",
                "Profile Failed",
            ),
        };
        Self::new(status, kind, title, error.to_string())
    }

    /// A profile that came to nothing.
    pub(crate) fn profile_failed() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "profile-failed",
            "Profile Failed",
            "the profile was lost: the node's log tells why",
        )
    }

    /// Who asked for a profile does not wait for it.
    pub(crate) fn client_left() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "client-left",
            "Client Left",
            "the client closed its side, which ends a profile: keep the connection open",
        )
    }

    /// A range over HTTP/1.0.
    pub(crate) fn range_needs_chunks() -> Self {
        Self::new(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "range-needs-http-1.1",
            "Ranges Need HTTP/1.1",
            "without chunks a stream that was cut short would look whole: use HTTP/1.1",
        )
    }

    /// There is no such entity.
    pub(crate) fn absent() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no-such-entity",
            "No Such Entity",
            "the key has no value",
        )
    }

    /// What an entity request came to, as a status: the only such table.
    pub(crate) fn of_failure(failure: Failure, replicas: Replicas) -> Self {
        match failure {
            Failure::Overloaded => Self::overloaded(),
            Failure::NoStamp(why) => Self::no_stamp(why),
            Failure::DiskFull(receipt) => Self {
                acks: Some((receipt.acks, replicas)),
                receipt: Some(Box::new(receipt)),
                ..Self::new(
                    StatusCode::INSUFFICIENT_STORAGE,
                    "disk-full",
                    "Disk Full",
                    "the node's disk is full: delete entities or give it room; reads go on",
                )
            },
            Failure::NotEnoughReplicas(receipt) => {
                let detail = match receipt.timestamp {
                    Some(_) => {
                        "too few replicas answered as asked; the write counts as still running, and \
                         may appear later. To repeat it is a new write, newer than whatever was \
                         acknowledged meanwhile"
                    }
                    None => "too few replicas answered as asked: try again, or with a smaller ack",
                };
                Self {
                    acks: Some((receipt.acks, replicas)),
                    receipt: Some(Box::new(receipt)),
                    ..Self::new(
                        StatusCode::GATEWAY_TIMEOUT,
                        "not-enough-replicas",
                        "Not Enough Replicas",
                        detail,
                    )
                }
            }
        }
    }

    /// The answer that tells of it.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::full(Bytes::from(self.document())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some((acks, replicas)) = self.acks {
            set_acks(headers, acks, replicas);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        response
    }

    /// The whole answer in bytes, for a connection that ends with it and whose
    /// request never became one.
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

    fn document(&self) -> Vec<u8> {
        let document = Document {
            r#type: format!("urn:kvorum:problem:{}", self.kind),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            parameter: self.parameter.as_deref(),
            allow: self.allow,
            receipt: self.receipt.as_deref().map(ReceiptDocument::from),
        };
        // Strings and numbers always have a JSON form.
        serde_json::to_vec(&document).unwrap_or_default()
    }
}

impl From<ParameterError> for Problem {
    fn from(error: ParameterError) -> Self {
        let mut problem = Self::new(
            StatusCode::BAD_REQUEST,
            "bad-parameter",
            "Bad Parameter",
            error.detail,
        );
        problem.parameter = Some(error.parameter.into());
        problem
    }
}

impl From<BatchFailure> for Problem {
    /// What became of the first part of a range.
    fn from(failure: BatchFailure) -> Self {
        match failure {
            BatchFailure::Overloaded => Self::overloaded(),
            BatchFailure::TimedOut => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "range-timed-out",
                "Range Timed Out",
                "this node's disk did not answer in time: try again, or another node",
            ),
            BatchFailure::Failed(error) => {
                tracing::error!(%error, "a range could not be read");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "range-failed",
                    "Range Failed",
                    "this node cannot read the range from its disk: see its log, or ask another node",
                )
            }
        }
    }
}

impl From<Foreign<'_>> for Problem {
    fn from(foreign: Foreign<'_>) -> Self {
        match foreign {
            Foreign::Host(host) => Self::other_host(host),
            Foreign::Origin => Self::other_origin(),
        }
    }
}

impl From<base::Refused> for Problem {
    fn from(_: base::Refused) -> Self {
        Self::overloaded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Timestamp;
    use cluster::{Fate, Miss};
    use node::ReplicaLine;

    const REPLICAS: Replicas = Replicas { ack: 1, from: 1 };

    fn receipt() -> Receipt {
        Receipt {
            acks: 0,
            timestamp: Some(Timestamp::from_u64(7)),
            replicas: vec![ReplicaLine {
                url: "http://a:1".to_owned(),
                outcome: Fate::Missed(Miss::Timeout),
            }],
        }
    }

    #[test]
    fn each_failure_has_its_status() {
        for (failure, status) in [
            (Failure::Overloaded, 503),
            (Failure::NoStamp(NoStamp::Far), 503),
            (Failure::DiskFull(receipt()), 507),
            (Failure::NotEnoughReplicas(receipt()), 504),
        ] {
            let response = Problem::of_failure(failure, REPLICAS).into_response();
            let acks = response.headers().get("kvorum-acks");
            let replicas_took_part = matches!(status, 504 | 507);
            assert_eq!(acks.is_some_and(|acks| acks == "0/1"), replicas_took_part);
            assert_eq!(response.status().as_u16(), status);
            let retry = response.headers().contains_key(RETRY_AFTER);
            assert_eq!(retry, status == 503);
        }
    }

    #[test]
    fn a_receipt_says_what_became_of_each_replica() {
        let problem = Problem::of_failure(Failure::NotEnoughReplicas(receipt()), REPLICAS);
        let document: serde_json::Value = serde_json::from_slice(&problem.document()).unwrap();
        assert_eq!(document["title"], "Not Enough Replicas");
        assert_eq!(document["status"], 504);
        assert_eq!(document["timestamp"], "7");
        assert_eq!(
            document["replicas"],
            serde_json::json!([{"url": "http://a:1", "outcome": "timeout"}])
        );
    }

    #[test]
    fn a_read_that_failed_does_not_speak_of_a_write() {
        let detail_of = |receipt| {
            let failure = Failure::NotEnoughReplicas(receipt);
            Problem::of_failure(failure, REPLICAS).detail.into_owned()
        };
        assert!(detail_of(receipt()).contains("a new write, newer than"));
        let of_a_read = Receipt {
            timestamp: None,
            ..receipt()
        };
        assert!(!detail_of(of_a_read).contains("write"));
    }
}
