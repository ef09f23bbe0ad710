//! Single requests to a node: pages, profiles, a scan. Loads are sent by the
//! generator.

use crate::Error;
use std::io::Read;
use std::time::Duration;

/// The longest page that is read from a node. Metrics and flame graphs are far
/// below it.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// A response of a node.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Keeps connections open between requests, for those who ask often.
pub(crate) struct Client {
    agent: ureq::Agent,
}

impl Client {
    /// A client whose requests take at most `timeout`.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            agent: agent(timeout),
        }
    }

    /// Requests a page.
    ///
    /// # Errors
    /// No response in time, or one that is not HTTP or not text.
    pub(crate) fn get(&self, url: &str) -> Result<Answer, Error> {
        let called = self.agent.get(url).call();
        answer_of(url, called.map_err(|error| Error::http(url, &error))?)
    }
}

/// Sends a request without a body that changes something.
///
/// # Errors
/// No response in time, or one that is not HTTP or not text.
pub(crate) fn post(url: &str, timeout: Duration) -> Result<Answer, Error> {
    let request = agent(timeout).post(url);
    let called = request
        .header("Content-Type", "application/json")
        .send_empty();
    answer_of(url, called.map_err(|error| Error::http(url, &error))?)
}

/// Requests a page and waits at most `timeout` for it. `accept` chooses a
/// format if there are several.
///
/// # Errors
/// No response in time, or one that is not HTTP or not text.
pub(crate) fn get(url: &str, accept: Option<&str>, timeout: Duration) -> Result<Answer, Error> {
    answer_of(url, call(url, accept, timeout)?)
}

fn answer_of(url: &str, mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, Error> {
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(PAGE_BYTES_MAX);
    let body = body
        .read_to_string()
        .map_err(|error| Error::http(url, &error))?;
    Ok(Answer { status, body })
}

/// Requests a page; any other status than `200` is an error.
///
/// # Errors
/// As for [`get`], or another status.
pub(crate) fn get_page(url: &str, timeout: Duration) -> Result<String, Error> {
    let answer = get(url, None, timeout)?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(Error::http(url, &format!("it answered {status}"))),
    }
}

/// Requests a stream of any length, which may take `timeout` in total.
///
/// # Errors
/// No response in time, or another status than `200`.
pub(crate) fn stream(url: &str, timeout: Duration) -> Result<impl Read, Error> {
    let response = call(url, None, timeout)?;
    match response.status().as_u16() {
        200 => Ok(response.into_body().into_reader()),
        status => Err(Error::http(url, &format!("it answered {status}"))),
    }
}

fn call(
    url: &str,
    accept: Option<&str>,
    timeout: Duration,
) -> Result<ureq::http::Response<ureq::Body>, Error> {
    let mut request = agent(timeout).get(url);
    if let Some(accept) = accept {
        request = request.header("Accept", accept);
    }
    request.call().map_err(|error| Error::http(url, &error))
}

fn agent(timeout: Duration) -> ureq::Agent {
    // The nodes are on this machine, so no proxy is used.
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(timeout))
        .proxy(None)
        .build();
    ureq::Agent::new_with_config(config)
}
