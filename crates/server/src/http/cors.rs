//! What web pages of other origins may read and send, if the operator allows them (CORS, the Fetch
//! standard).
//!
//! A browser shows an answer to a page of another origin only if the answer names that origin, and
//! shows only a few header fields and those that the answer names. Before a request that a form
//! could not send, the browser asks the node with `OPTIONS` (a *preflight*), and the answer names
//! what pages may send. A preflight comes without a token and with the parameters of the request
//! that follows, so it needs no token, and its parameters are ignored.

use crate::http::resources::Resource;
use crate::http::response::body::ResponseBody;
use crate::net::Listener;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderName, HeaderValue, ORIGIN,
    VARY,
};
use hyper::{HeaderMap, Response, StatusCode};

/// The fields that a page may send beside those that any page may send.
const REQUEST_FIELDS: &str =
    "authorization, content-type, if-match, if-none-match, traceparent, tracestate";

/// The fields of answers that a page may read beside those that any page may read.
const ANSWER_FIELDS: &str = "allow, etag, kvorum-acks, kvorum-expires, kvorum-version, \
                             retry-after, www-authenticate";

/// For how many seconds a browser may remember the answer to a preflight.
const MAX_AGE_SECONDS: &str = "600";

/// A browser asks whether a page of a public site may use a node of a private network, and
/// the answer.
const REQUEST_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// The origin of the page that a request comes from, if the operator lets it use the node.
pub(crate) fn granted_origin(listener: &Listener, headers: &HeaderMap) -> Option<HeaderValue> {
    let origins = listener.own_hosts.cors_origins();
    if origins.is_empty() {
        return None;
    }
    let origin = headers.get(ORIGIN)?;
    origins.has(origin.as_bytes()).then(|| origin.clone())
}

/// Sets the fields of an answer to a page of `granted`. Where any page of another origin is
/// served, all answers say that the origin decides.
pub(crate) fn set_fields(
    listener: &Listener,
    granted: Option<HeaderValue>,
    headers: &mut HeaderMap,
) {
    if listener.own_hosts.cors_origins().is_empty() {
        return;
    }
    let varies = if headers.contains_key(VARY) {
        "accept, origin"
    } else {
        "origin"
    };
    headers.insert(VARY, HeaderValue::from_static(varies));
    if let Some(origin) = granted {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let fields = HeaderValue::from_static(ANSWER_FIELDS);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, fields);
    }
}

/// The methods of a resource, for `Allow`.
pub(crate) fn allow(listener: &Listener, resource: &Resource) -> String {
    let methods = resource.methods();
    if resource.has_options(listener) {
        format!("{methods}, OPTIONS")
    } else {
        methods
    }
}

/// The answer to `OPTIONS`. Its origin was checked.
pub(crate) fn preflight(
    listener: &Listener,
    resource: &Resource,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let fields = response.headers_mut();
    let mut set = |name, value: &str| {
        // Names and digits are always a valid value.
        if let Ok(value) = HeaderValue::from_str(value) {
            fields.insert(name, value);
        }
    };
    set(ALLOW, &allow(listener, resource));
    if granted_origin(listener, headers).is_some() {
        set(ACCESS_CONTROL_ALLOW_METHODS, &resource.methods());
        set(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_FIELDS);
        set(ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
        if headers.contains_key(REQUEST_PRIVATE_NETWORK) {
            set(ALLOW_PRIVATE_NETWORK, "true");
        }
    }
    response
}
