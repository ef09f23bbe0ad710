//! The header fields that several resources set.

use crate::http::response::json_line;
use base::{Expiry, Timestamp};
use cluster::Replicas;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{HeaderMap, Method, StatusCode};

/// The timestamp of the winning version.
const VERSION: HeaderName = HeaderName::from_static("kvorum-version");

/// When the version expires.
const EXPIRES: HeaderName = HeaderName::from_static("kvorum-expires");

/// How many replicas had answered when the reply was sent, and of how many.
const ACKS: HeaderName = HeaderName::from_static("kvorum-acks");

/// The `Content-Security-Policy` of values: a browser that shows one runs nothing of
/// it, and treats it as an origin of its own.
pub(crate) const SANDBOX: &str = "sandbox";

/// For how many fields at most a list that was emptied keeps its memory. Hyper hands the
/// list of an answer on to the next request, so a connection has one until it ends.
const FIELDS_KEPT_MAX: usize = 12;

/// Empties a list of fields, and keeps its memory unless it is long.
pub(crate) fn clear(fields: &mut HeaderMap) {
    if fields.capacity() <= FIELDS_KEPT_MAX {
        fields.clear();
    } else {
        *fields = HeaderMap::new();
    }
}

/// Sets the fields of every answer: no browser may guess its type, and caches must
/// validate it before each use or may not keep it.
pub(crate) fn set_common(method: &Method, status: StatusCode, headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let may_be_kept = is_read && matches!(status, StatusCode::OK | StatusCode::NOT_MODIFIED);
    let control = if may_be_kept { "no-cache" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(control));
}

/// Sets the version that a read found or a write made.
pub(crate) fn set_version(headers: &mut HeaderMap, timestamp: Timestamp) {
    headers.insert(VERSION, HeaderValue::from(timestamp.as_u64()));
}

/// Sets when a version expires, if it does.
pub(crate) fn set_expires(headers: &mut HeaderMap, expiry: Expiry) {
    // Digits and signs are always a valid value.
    let time = json_line::time_of(expiry).and_then(|time| HeaderValue::try_from(time).ok());
    if let Some(time) = time {
        headers.insert(EXPIRES, time);
    }
}

/// Sets how many of the replicas have answered.
pub(crate) fn set_acks(headers: &mut HeaderMap, acks: u8, replicas: Replicas) {
    let value = match (acks, replicas.from) {
        (1, 1) => HeaderValue::from_static("1/1"),
        // Digits and a slash are always a valid value.
        (acks, from) => HeaderValue::try_from(format!("{acks}/{from}"))
            .unwrap_or_else(|_| HeaderValue::from_static("")),
    };
    headers.insert(ACKS, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_list_of_fields_keeps_its_memory() {
        for (count, is_kept) in [(1, true), (FIELDS_KEPT_MAX, true), (100, false)] {
            let mut fields = HeaderMap::new();
            for number in 0..count {
                let name = HeaderName::try_from(format!("field-{number}")).unwrap();
                fields.insert(name, HeaderValue::from(number));
            }
            clear(&mut fields);
            assert!(fields.is_empty());
            assert_eq!(fields.capacity() > 0, is_kept, "{count}");
        }
    }
}
