//! `/v0/peer`: where connections of other nodes leave HTTP. If nodes verify each other, only a
//! connection with a node's certificate is upgraded. A node that waits to join is at a host that the
//! list of members does not have: its connection is for lists only.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::response::body::ResponseBody;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::{Response, StatusCode, Version};
use peer::{FOR_LISTS, PEER_PROTOCOL};

/// `GET` with `Upgrade`.
pub(super) fn answer(exchange: &HttpExchange<'_>) -> Answer {
    let head = &exchange.head;
    let asks_for_upgrade = head.headers.get_all(UPGRADE).iter().any(|value| {
        value
            .as_bytes()
            .eq_ignore_ascii_case(PEER_PROTOCOL.as_bytes())
    });
    if !asks_for_upgrade || head.version != Version::HTTP_11 {
        return Err(Problem::upgrade_required());
    }
    let is_for_lists = head
        .headers
        .get(FOR_LISTS.0)
        .is_some_and(|value| value == FOR_LISTS.1);
    if let Some(tls) = &exchange.listener.shared().tls {
        let wire = exchange.channel.wire.borrow();
        if !tls.may_be_peer(&wire, is_for_lists) {
            tls.log_refused_peer(&wire, exchange.listener.now.get());
            return Err(Problem::peer_certificate());
        }
    }
    exchange.progress().upgrade(is_for_lists);
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(PEER_PROTOCOL));
    Ok(response)
}
