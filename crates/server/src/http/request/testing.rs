//! Helpers that several unit tests share.

use hyper::HeaderMap;
use hyper::header::HeaderValue;

/// A header with a field for each of `values`.
pub(crate) fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name, HeaderValue::from_static(value));
    }
    headers
}
