//! Single questions to a node: its pages, its profiles, a range. The load
//! itself is the generator's.

use crate::Error;
use std::io::Read;
use std::time::Duration;

/// The longest page that is taken from a node: metrics and flame graphs are
/// well below it.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// What a node answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Asks for a page, and waits `patience` for it at most. `accept` names the
/// form that is wanted, where there are several.
///
/// # Errors
/// No answer in time, or one that is no HTTP or no text.
pub(crate) fn get(url: &str, accept: Option<&str>, patience: Duration) -> Result<Answer, Error> {
    let mut response = call(url, accept, patience)?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(PAGE_BYTES_MAX);
    let body = body
        .read_to_string()
        .map_err(|error| Error::http(url, &error))?;
    Ok(Answer { status, body })
}

/// The same, where only `200` will do.
///
/// # Errors
/// Those of [`get`], and any other status.
pub(crate) fn get_page(url: &str, patience: Duration) -> Result<String, Error> {
    let answer = get(url, None, patience)?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(Error::http(url, &format!("it answered {status}"))),
    }
}

/// Asks for a stream of any length, which may take `patience` as a whole.
///
/// # Errors
/// No answer in time, or any status but `200`.
pub(crate) fn stream(url: &str, patience: Duration) -> Result<impl Read, Error> {
    let response = call(url, None, patience)?;
    match response.status().as_u16() {
        200 => Ok(response.into_body().into_reader()),
        status => Err(Error::http(url, &format!("it answered {status}"))),
    }
}

fn call(
    url: &str,
    accept: Option<&str>,
    patience: Duration,
) -> Result<ureq::http::Response<ureq::Body>, Error> {
    // A node of an experiment is on this machine: no proxy is between.
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(patience))
        .proxy(None)
        .build();
    let mut request = ureq::Agent::new_with_config(config).get(url);
    if let Some(accept) = accept {
        request = request.header("Accept", accept);
    }
    request.call().map_err(|error| Error::http(url, &error))
}
