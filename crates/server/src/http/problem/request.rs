//! Problems of a request itself: its head, its path, its method, its parameters and how its
//! body arrives.

use super::Problem;
use api::problem_type::{
    BAD_HOST, BAD_PARAMETER, BAD_TRANSFER_CODING, BROKEN_BODY, HEADER_TOO_LONG, LATE_BODY,
    METHOD_NOT_ALLOWED, NOT_JSON, OVERLOADED, TARGET_TOO_LONG, UNKNOWN_PATH,
    UNKNOWN_TRANSFER_CODING,
};

impl Problem {
    /// No `Host`, or several.
    pub(crate) fn bad_host() -> Self {
        Self::new(
            &BAD_HOST,
            "an HTTP/1.1 request must have exactly one Host field: send one",
        )
    }

    /// The target is longer than any valid one.
    pub(crate) fn target_too_long(bytes_max: usize) -> Self {
        Self::new(
            &TARGET_TOO_LONG,
            format!("the request's target is longer than {bytes_max} bytes: use shorter keys"),
        )
    }

    /// The header fields are longer than the node allows.
    pub(crate) fn fields_too_long(bytes_max: usize) -> Self {
        Self::new(
            &HEADER_TOO_LONG,
            format!(
                "the header fields are longer than {bytes_max} bytes, or more than 100: send fewer \
                 or shorter ones"
            ),
        )
    }

    /// A transfer coding other than chunked.
    pub(crate) fn unknown_transfer_coding() -> Self {
        Self::new(
            &UNKNOWN_TRANSFER_CODING,
            "this node accepts no transfer coding but chunked: send the value without any other",
        )
    }

    /// A `Transfer-Encoding` that contradicts itself.
    pub(crate) fn bad_transfer_coding() -> Self {
        Self::new(
            &BAD_TRANSFER_CODING,
            "Transfer-Encoding must be `chunked`, once",
        )
    }

    /// No resource has the path; `paths` are those that clients may use.
    pub(crate) fn unknown_path(paths: &str) -> Self {
        Self::new(
            &UNKNOWN_PATH,
            format!("there is nothing at this path: use one of {paths}"),
        )
    }

    /// The resource does not have the method; `allow` names those that it has.
    pub(crate) fn method_not_allowed(allow: &str) -> Self {
        let mut problem = Self::new(
            &METHOD_NOT_ALLOWED,
            format!("this resource has only these methods: {allow}"),
        );
        problem.allow = Some(allow.into());
        problem
    }

    /// A parameter of the query is missing, unknown or invalid.
    pub(super) fn bad_parameter(parameter: impl Into<Box<str>>, detail: String) -> Self {
        let mut problem = Self::new(&BAD_PARAMETER, detail);
        problem.parameter = Some(parameter.into());
        problem
    }

    /// A `POST` that a web page could send without asking first.
    pub(crate) fn not_json() -> Self {
        Self::new(
            &NOT_JSON,
            "a POST needs Content-Type: application/json, application/x-ndjson or \
             application/octet-stream, even without a body: add the field. Web pages cannot send \
             these types unasked",
        )
    }

    /// The body ended early or is malformed.
    pub(crate) fn broken_body() -> Self {
        Self::new(
            &BROKEN_BODY,
            "the body ended early or its chunks are malformed: send the request again",
        )
    }

    /// The body is slower than the least rate.
    pub(crate) fn late_body() -> Self {
        Self::new(
            &LATE_BODY,
            "the body arrived too slowly: send the request again, at a steady pace",
        )
    }

    /// The node has taken on as much as it may.
    pub(crate) fn overloaded() -> Self {
        Self::new(
            &OVERLOADED,
            "the node has reached its limit of requests, or of memory for them: try again later, \
             or ask another node",
        )
    }
}
