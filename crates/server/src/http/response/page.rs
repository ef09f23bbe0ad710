//! Pages: answers that are whole texts.

use crate::http::response::body::ResponseBody;
use bytes::Bytes;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;

/// A page of JSON. It ends with a line feed, so that a shell's prompt begins a line.
pub(crate) fn json(content: &impl Serialize) -> Response<ResponseBody> {
    // Strings and numbers always have a JSON form.
    let mut json = serde_json::to_vec(content).unwrap_or_default();
    json.push(b'\n');
    text("application/json", Bytes::from(json))
}

/// A page of this type.
pub(crate) fn text(content_type: &'static str, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
