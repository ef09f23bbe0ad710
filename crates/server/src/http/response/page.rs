//! Pages: answers that are whole texts.

use crate::http::response::body::ResponseBody;
use base::Reservation;
use bytes::Bytes;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Serialize;

/// A page of JSON. It ends with a line feed, so that a shell's prompt begins a line.
pub(crate) fn json(content: &impl Serialize) -> Response<ResponseBody> {
    text("application/json", json_text(content))
}

/// A page of JSON that keeps `reservation` until it is written.
pub(crate) fn json_counted(
    content: &impl Serialize,
    reservation: Option<Reservation>,
) -> Response<ResponseBody> {
    let body = ResponseBody::counted(json_text(content), reservation);
    of("application/json", body)
}

fn json_text(content: &impl Serialize) -> Bytes {
    // Strings and numbers always have a JSON form.
    let mut json = serde_json::to_vec(content).unwrap_or_default();
    json.push(b'\n');
    Bytes::from(json)
}

/// A page of this type.
pub(crate) fn text(content_type: &'static str, body: Bytes) -> Response<ResponseBody> {
    of(content_type, ResponseBody::full(body))
}

fn of(content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Quota;

    #[test]
    fn a_counted_page_keeps_its_reservation() {
        let quota = Quota::new(100);
        let page = json_counted(&"groups", Some(quota.try_reserve(70).unwrap()));
        assert_eq!(quota.used(), 70);
        drop(page);
        assert_eq!(quota.used(), 0);
    }
}
