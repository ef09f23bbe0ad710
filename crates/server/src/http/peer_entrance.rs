//! `/v0/peer`: where a connection of another node of the cluster leaves HTTP.

use crate::door::progress::Progress;
use crate::http::body::ResponseBody;
use crate::http::parameters;
use crate::http::problem::Problem;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode, Version};
use peer::PEER_PROTOCOL;

/// `GET` with `Upgrade`.
pub(crate) fn upgrade(
    progress: &Progress,
    head: &Parts,
) -> Result<Response<ResponseBody>, Problem> {
    parameters::none(head.uri.query())?;
    let asks = head.headers.get_all(UPGRADE).iter().any(|value| {
        value
            .as_bytes()
            .eq_ignore_ascii_case(PEER_PROTOCOL.as_bytes())
    });
    if !asks || head.version != Version::HTTP_11 {
        return Err(Problem::upgrade_required());
    }
    progress.upgrade();
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(PEER_PROTOCOL));
    Ok(response)
}
