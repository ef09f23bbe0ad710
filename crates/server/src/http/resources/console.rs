//! The console's files: `/` for browsers, and what its page loads from `/console/`.
//!
//! They are the same for everyone and need no token, because everything that they show comes from
//! other resources. They cost other requests nothing.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::response::body::ResponseBody;
use crate::http::response::page;
use bytes::Bytes;
use console::{Asset, POLICY};
use hyper::header::{CONTENT_SECURITY_POLICY, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use hyper::{HeaderMap, Response, StatusCode};

/// `GET` and `HEAD`.
pub(super) fn answer(exchange: &HttpExchange<'_>, asset: Asset) -> Answer {
    exchange.check_body_limit()?;
    let tag = asset.tag();
    let named = exchange.head.headers.get_all(IF_NONE_MATCH).iter();
    let mut named = named.filter_map(|value| value.to_str().ok());
    let mut response = if named.any(|named| tag.is_named_by(named)) {
        let mut unchanged = Response::new(ResponseBody::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else {
        page::text(
            asset.media_type(),
            Bytes::from_static(asset.body().as_bytes()),
        )
    };
    set_fields(response.headers_mut(), asset);
    Ok(response)
}

/// Sets the fields that an answer has with its body and without.
fn set_fields(headers: &mut HeaderMap, asset: Asset) {
    // Quotes and hexadecimal digits are always a valid value.
    if let Ok(tag) = HeaderValue::try_from(asset.tag().to_string()) {
        headers.insert(ETAG, tag);
    }
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    if asset == Asset::Page {
        headers.insert(VARY, HeaderValue::from_static("accept"));
    }
}
