//! The types of problems that requests themselves cause, in the order of the checks.

use super::Problem;
use hyper::StatusCode;

/// How much of a foreign `Host` the detail shows.
const HOST_SHOWN_BYTES: usize = 256;

impl Problem {
    /// A `Host` that is not a name of this node: a web page of that name may have sent
    /// the request.
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

    /// A browser sent the request for a web page of another origin.
    pub(crate) fn other_origin() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "other-origin",
            "Other Origin",
            "a browser sent this request for a page of another origin (see its Origin and \
             Sec-Fetch-Site fields): pages of other sites may not use this node",
        )
    }

    /// No `Host`, or several.
    pub(crate) fn bad_host() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-host",
            "Bad Host",
            "an HTTP/1.1 request must have exactly one Host field: send one",
        )
    }

    /// The target is longer than any valid one.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        Self::new(
            StatusCode::URI_TOO_LONG,
            "target-too-long",
            "Target Too Long",
            format!("the request's target is longer than {bytes_max} bytes: use shorter keys"),
        )
    }

    /// The header fields are longer than the node allows.
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

    /// A transfer coding other than chunked.
    pub(crate) fn unknown_transfer_coding() -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "unknown-transfer-coding",
            "Unknown Transfer Coding",
            "this node knows no transfer coding but chunked: send the bytes of the value \
             without another coding",
        )
    }

    /// A `Transfer-Encoding` that contradicts itself.
    pub(crate) fn bad_transfer_coding() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "bad-transfer-coding",
            "Bad Transfer Coding",
            "Transfer-Encoding must be `chunked`, once",
        )
    }

    /// No resource has the path; `paths` are those that clients may use.
    pub(crate) fn unknown_path(paths: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "unknown-path",
            "Unknown Path",
            format!("there is nothing at this path: use one of {paths}"),
        )
    }

    /// The resource does not have the method; `allow` names those that it has.
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        let mut problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "Method Not Allowed",
            format!("this resource has only these methods: {allow}"),
        );
        problem.allow = Some(allow.into());
        problem
    }

    /// A request that only peers send.
    pub(crate) fn upgrade_required() -> Self {
        Self::new(
            StatusCode::UPGRADE_REQUIRED,
            "upgrade-required",
            "Upgrade Required",
            "only the nodes of a cluster use this path: clients use /v0/entity",
        )
    }

    /// A `PUT` of a part of a value.
    pub(crate) fn partial_put() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "partial-put",
            "Partial Put",
            "a PUT with Content-Range would replace a value by a part of it: send the whole value",
        )
    }

    /// A condition on a write. Ignoring it could lose data.
    pub(crate) fn conditional_write() -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "conditional-write",
            "Conditional Writes Not Implemented",
            "If-Match and If-None-Match are not implemented for PUT and DELETE: leave them out",
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

    /// The body is longer than a value may be.
    pub(crate) fn value_too_long(value_bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "value-too-long",
            "Value Too Long",
            format!("the body is longer than {value_bytes_max} bytes: send a shorter value"),
        )
    }

    /// The node has taken on as much as it may.
    pub(crate) fn overloaded() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "Overloaded",
            "the node has taken on as many requests, or as much of their data, as it may: \
             try again later, or ask another node",
        )
    }

    /// The body ended early or is malformed.
    pub(crate) fn broken_body() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "broken-body",
            "Broken Body",
            "the body ended early or its chunks are malformed: send the request again",
        )
    }

    /// The body is slower than the least rate.
    pub(crate) fn late_body() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "late-body",
            "Late Body",
            "the body arrived too slowly: send the request again, at a steady pace",
        )
    }

    /// The key has no live value.
    pub(crate) fn absent() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no-such-entity",
            "No Such Entity",
            "the key has no value",
        )
    }

    /// An `If-Match` that does not name the version that the read found.
    pub(crate) fn other_version() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "other-version",
            "Other Version",
            "the entity's ETag is not one of those in If-Match: read it without If-Match",
        )
    }

    /// The client left while its profile was recorded.
    pub(crate) fn client_left() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "client-left",
            "Client Left",
            "the client closed its side, which ends a profile: keep the connection open",
        )
    }

    /// A thread that worked on a profile ended in a panic.
    pub(crate) fn profile_failed() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "profile-failed",
            "Profile Failed",
            "the profile was lost: the node's log says why",
        )
    }
}
