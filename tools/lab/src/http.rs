//! Single requests to a node: pages, profiles, a scan. Each blocks its thread. Loads are sent by
//! the generator.

use crate::Error;
use client::{KeptConnection, Limits, Node, SingleRequest, SingleResponse};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The longest page that is read from a node. Metrics and flame graphs are far
/// below it.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// A response of a node.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Keeps a connection to each node open between requests, for those who ask often.
pub(crate) struct Client {
    timeout: Duration,
    runtime: Runtime,
    connections: RefCell<BTreeMap<String, KeptConnection>>,
}

impl Client {
    /// A client whose requests take at most `timeout`.
    ///
    /// # Errors
    /// The system gives it no runtime.
    pub(crate) fn new(timeout: Duration) -> Result<Self, Error> {
        Ok(Self {
            timeout,
            runtime: runtime()?,
            connections: RefCell::default(),
        })
    }

    /// Requests a page.
    ///
    /// # Errors
    /// No response in time, or one that is not HTTP or not text.
    pub(crate) fn get(&self, url: &str) -> Result<Answer, Error> {
        let (node, target) = parts(url)?;
        let mut connections = self.connections.borrow_mut();
        let connection = connections
            .entry(node.url().to_owned())
            .or_insert_with(|| KeptConnection::new(node));
        let asked = request("GET", target, &[], self.timeout, PAGE_BYTES_MAX);
        let response = connection.fetch(&asked);
        answer_of(url, within(&self.runtime, url, self.timeout, response)?)
    }
}

/// Sends a request without a body that changes something.
///
/// # Errors
/// No response in time, or one that is not HTTP or not text.
pub(crate) fn post(url: &str, timeout: Duration) -> Result<Answer, Error> {
    let headers = [("content-type", "application/json")];
    call(url, "POST", &headers, timeout, PAGE_BYTES_MAX)
}

/// Requests a page and waits at most `timeout` for it. `accept` chooses a
/// format if there are several.
///
/// # Errors
/// No response in time, or one that is not HTTP or not text.
pub(crate) fn get(url: &str, accept: Option<&str>, timeout: Duration) -> Result<Answer, Error> {
    let headers = accept.map(|accept| ("accept", accept));
    call(url, "GET", headers.as_slice(), timeout, PAGE_BYTES_MAX)
}

/// Requests a page; any other status than `200` is an error.
///
/// # Errors
/// As for [`get`], or another status.
pub(crate) fn get_page(url: &str, timeout: Duration) -> Result<String, Error> {
    get_long_page(url, timeout, PAGE_BYTES_MAX)
}

/// As [`get_page`], for a page of at most so many bytes.
///
/// # Errors
/// As for [`get_page`].
pub(crate) fn get_long_page(url: &str, timeout: Duration, bytes_max: u64) -> Result<String, Error> {
    let answer = call(url, "GET", &[], timeout, bytes_max)?;
    match answer.status {
        200 => Ok(answer.body),
        status => Err(Error::http(url, &format!("it answered {status}"))),
    }
}

/// Requests a stream of any length, which may take `timeout` in total, and hands on its pieces
/// until `take` fails.
///
/// # Errors
/// No response in time, another status than `200`, or what `take` gives.
pub(crate) fn stream(
    url: &str,
    timeout: Duration,
    mut take: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (node, target) = parts(url)?;
    let asked = request("GET", target, &[], timeout, u64::MAX);
    let mut taken = Ok(());
    let pieces = client::fetch_pieces(&node, &asked, |piece| {
        taken = take(piece);
        if taken.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    within(&runtime()?, url, timeout, pieces)?;
    taken
}

fn call(
    url: &str,
    method: &str,
    headers: &[(&str, &str)],
    timeout: Duration,
    bytes_max: u64,
) -> Result<Answer, Error> {
    let (node, target) = parts(url)?;
    let asked = request(method, target, headers, timeout, bytes_max);
    let response = client::fetch(&node, &asked);
    answer_of(url, within(&runtime()?, url, timeout, response)?)
}

fn request<'a>(
    method: &'a str,
    target: &'a str,
    headers: &'a [(&'a str, &'a str)],
    timeout: Duration,
    bytes_max: u64,
) -> SingleRequest<'a> {
    SingleRequest {
        method,
        target,
        headers,
        limits: Limits {
            connect_max: timeout,
            silence_max: timeout,
        },
        bytes_max,
    }
}

/// The node of a URL, and what follows it.
fn parts(url: &str) -> Result<(Node, &str), Error> {
    let parts = url.strip_prefix("http://").and_then(|rest| {
        let (authority, _) = rest.split_once('/')?;
        let (host, port) = authority.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let node = Node::new(host, port.parse().ok()?);
        Some((node, &rest[authority.len()..]))
    });
    parts.ok_or_else(|| Error::http(url, &"it is no http URL with a port and a path"))
}

fn runtime() -> Result<Runtime, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::system("start a runtime"))
}

/// Waits at most `timeout` for what a node answers.
fn within<T>(
    runtime: &Runtime,
    url: &str,
    timeout: Duration,
    answer: impl Future<Output = Result<T, client::Error>>,
) -> Result<T, Error> {
    let answer = runtime.block_on(async { tokio::time::timeout(timeout, answer).await });
    match answer {
        Ok(answer) => answer.map_err(|error| Error::http(url, &error)),
        Err(_) => Err(Error::http(
            url,
            &format!("no whole answer within {timeout:?}"),
        )),
    }
}

fn answer_of(url: &str, response: SingleResponse) -> Result<Answer, Error> {
    let body = String::from_utf8(response.body);
    Ok(Answer {
        status: response.status,
        body: body.map_err(|error| Error::http(url, &error))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_split_into_its_node_and_what_is_asked_of_it() {
        for (url, node, target) in [
            (
                "http://127.0.0.1:80/a?b=/c",
                "http://127.0.0.1:80",
                "/a?b=/c",
            ),
            ("http://[::1]:8080/", "http://[::1]:8080", "/"),
        ] {
            let parts = parts(url).unwrap();
            assert_eq!((parts.0.url(), parts.1), (node, target));
        }
        for url in ["127.0.0.1:80/", "http://h:80", "http://h/a", "https://h:1/"] {
            assert!(parts(url).is_err(), "{url}");
        }
    }
}
