//! What the console itself answers.

use super::body::ConsoleBody;
use bytes::Bytes;
use console::{Asset, POLICY};
use hyper::Response;
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use serde_json::{Value, json};

/// An answer to a browser.
pub(super) type Answer = Response<ConsoleBody>;

/// A file of the console of so many nodes.
pub(super) fn file(asset: Asset, nodes: usize) -> Answer {
    let body = match asset {
        Asset::Page => console::supervisor_page(nodes).into(),
        other => other.body().into(),
    };
    answer(StatusCode::OK, asset.media_type(), body)
}

/// A page of JSON.
pub(super) fn json(content: &Value) -> Answer {
    let body = content.to_string().into_bytes();
    answer(StatusCode::OK, "application/json", body.into())
}

/// A problem, with what to do.
pub(super) fn problem(status: StatusCode, detail: &str) -> Answer {
    let content = json!({"status": status.as_u16(), "detail": detail}).to_string();
    answer(status, "application/problem+json", content.into())
}

/// There is nothing at a path.
pub(super) fn nothing() -> Answer {
    problem(StatusCode::NOT_FOUND, "there is nothing at this path")
}

fn answer(status: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(ConsoleBody::Whole(body));
    *answer.status_mut() = status;
    let fields = answer.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    fields.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    fields.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
