//! A request of a command to one node: blocking, over a connection of its own.

use crate::failure::Failure;
use cluster::NodeUrl;
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long connecting to the node may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a connection is silent before the system probes it.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// The time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// A connection has failed after this many probes without an answer.
const PROBES_MAX: u32 = 6;

/// A request to a node, without a body.
pub(crate) struct NodeRequest<'a> {
    pub(crate) node: &'a NodeUrl,
    /// The option that names the node; `None` for a node that the user has not named.
    pub(crate) option: Option<&'a str>,
    pub(crate) method: &'a str,
    /// The path and the query.
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// How long the node may send nothing.
    pub(crate) time_max: Duration,
    /// The longest response that is read, in bytes.
    pub(crate) answer_bytes_max: u64,
}

impl NodeRequest<'_> {
    /// Sends the request and waits for the whole response.
    ///
    /// # Errors
    /// A node that cannot be reached, or does not answer as HTTP asks for.
    pub(crate) fn send(&self) -> Result<NodeResponse, Failure> {
        let (url, option) = (self.node, self.option);
        let answer = connect(url)
            .and_then(|stream| self.exchange(stream))
            .map_err(|error| match error.kind() {
                io::ErrorKind::ConnectionRefused => Failure::failed(match option {
                    Some(option) => format!(
                        "{url} refuses connections: start the node, or name another one with \
                         {option}"
                    ),
                    None => format!("{url} refuses connections"),
                }),
                // A read that has timed out.
                io::ErrorKind::WouldBlock => Failure::failed(format!(
                    "{url} takes connections but has not answered within {} s: it is frozen or \
                     overloaded",
                    self.time_max.as_secs()
                )),
                _ => Failure::failed(format!("cannot reach {url}: {error}")),
            })?;
        NodeResponse::parse(&answer).map_err(|error| {
            Failure::failed(match error {
                ResponseError::Incomplete => format!(
                    "{url} closed the connection before its response was complete: see the \
                     node's log"
                ),
                ResponseError::OtherProtocol => {
                    format!("the server at {url} does not speak HTTP/1.1")
                }
            })
        })
    }

    fn exchange(&self, mut stream: TcpStream) -> io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(self.time_max))?;
        stream.set_write_timeout(Some(CONNECT_MAX))?;
        stream.write_all(self.head().as_bytes())?;
        let mut answer = Vec::new();
        stream
            .take(self.answer_bytes_max)
            .read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn head(&self) -> String {
        let fields = self.headers.iter();
        let fields: String = fields
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{fields}\
             Content-Length: 0\r\nConnection: close\r\n\r\n",
            method = self.method,
            target = self.target,
            authority = authority(self.node),
        )
    }
}

fn connect(url: &NodeUrl) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (url.host(), url.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => {
                notice_a_dead_machine(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Has the system probe a silent connection, so that a wait of days for the end of a sweep
/// ends when the machine of the node dies: about [`PROBE_AFTER`] and [`PROBES_MAX`] times
/// [`PROBE_INTERVAL`] later.
fn notice_a_dead_machine(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES_MAX)?;
    Ok(())
}

/// The URL without its scheme, for the header `Host`.
fn authority(url: &NodeUrl) -> String {
    let text = url.to_string();
    text.strip_prefix("http://").unwrap_or(&text).to_owned()
}

/// The failure line for an unsuccessful response.
pub(crate) fn refusal(url: &NodeUrl, status: u16, body: &[u8]) -> String {
    match problem_member(body, "detail") {
        Some(detail) => format!("{url} refuses: {detail}"),
        None => format!("{url} answers {status}: it may not be a Kvorum node"),
    }
}

/// A text in the problem that a node has answered.
pub(crate) fn problem_member(body: &[u8], name: &str) -> Option<String> {
    let problem: serde_json::Value = serde_json::from_slice(body).ok()?;
    problem.get(name)?.as_str().map(str::to_owned)
}

/// A response whose body has the length that its head states.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, PartialEq, Eq)]
enum ResponseError {
    Incomplete,
    OtherProtocol,
}

impl NodeResponse {
    /// Parses all bytes that came until the connection was closed.
    fn parse(bytes: &[u8]) -> Result<Self, ResponseError> {
        if bytes.is_empty() {
            return Err(ResponseError::Incomplete);
        }
        if !bytes.starts_with(b"HTTP/1.1 ") {
            return Err(ResponseError::OtherProtocol);
        }
        let head_bytes = bytes
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .ok_or(ResponseError::Incomplete)?;
        let head = String::from_utf8_lossy(&bytes[..head_bytes]);
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .ok_or(ResponseError::OtherProtocol)?;
        let mut length = None;
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            }
        }
        let body = &bytes[head_bytes + 4..];
        match length {
            // Each response of a node to these requests has a length.
            None => Err(ResponseError::OtherProtocol),
            Some(length) if body.len() < length => Err(ResponseError::Incomplete),
            Some(length) => Ok(Self {
                status,
                body: body[..length].to_vec(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A listener that accepts nothing, and its URL. The system takes connections for it.
    fn frozen() -> (TcpListener, NodeUrl) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, url.parse().unwrap())
    }

    #[test]
    fn a_node_that_takes_connections_and_does_not_answer_is_told_apart() {
        let (_listener, url) = frozen();
        let asked = NodeRequest {
            node: &url,
            option: None,
            method: "GET",
            target: "/v0/status",
            headers: &[],
            time_max: Duration::from_millis(1),
            answer_bytes_max: 1000,
        };
        let failure = asked.send().unwrap_err();
        let line = failure.line();
        assert!(line.contains("takes connections but has not"), "{line}");
        assert!(line.contains("frozen or overloaded"), "{line}");
    }

    #[test]
    fn the_system_probes_a_silent_connection() {
        let (_listener, url) = frozen();
        let stream = connect(&url).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), PROBE_AFTER);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), PROBE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), PROBES_MAX);
    }

    #[test]
    fn only_a_complete_response_is_accepted() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        let answer = NodeResponse::parse(whole).unwrap();
        assert_eq!((answer.status, &*answer.body), (200, &b"abc"[..]));
        for cut in 9..whole.len() {
            assert_eq!(
                NodeResponse::parse(&whole[..cut]),
                Err(ResponseError::Incomplete),
                "{cut}"
            );
        }
        assert_eq!(NodeResponse::parse(b""), Err(ResponseError::Incomplete));
        for other in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            b"HTTP/1.1 abc\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nabc",
        ] {
            assert_eq!(
                NodeResponse::parse(other),
                Err(ResponseError::OtherProtocol)
            );
        }
    }
}
