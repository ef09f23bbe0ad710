//! `kvorum profile`: asks a running node for a profile and saves it.

use crate::failure::{Failure, report_line};
use crate::values::url;
use clap::{Args, ValueEnum};
use cluster::NodeUrl;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long connecting to the node may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the node may take to turn its recording into a profile.
const FINISH_MAX: Duration = Duration::from_secs(60);

/// The longest response that is read, in bytes: far above any profile.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The name that stands for stdout.
const STDOUT: &str = "-";

/// The options of `profile`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProfileOptions {
    /// The node, which must run with --debug-endpoints
    #[arg(long, value_parser = url, value_name = "URL")]
    pub(crate) url: NodeUrl,
    /// cpu: where CPU time is spent; alloc: where memory is allocated; lock: waits for locks, in queues, for disks and for peers
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProfileKind::Cpu)]
    pub(crate) kind: ProfileKind,
    /// How many seconds to record, up to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = seconds)]
    pub(crate) seconds: u64,
    /// svg: a flame graph for a browser; folded: one line per stack, for other
    /// tools
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ProfileFormat::Svg)]
    pub(crate) format: ProfileFormat,
    /// The file for the profile; - for stdout [default: profile-KIND.FORMAT]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The kinds of profiles, with the names that a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileKind {
    Cpu,
    Alloc,
    Lock,
}

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileFormat {
    Svg,
    Folded,
}

/// Parses the length of a recording.
fn seconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(seconds @ 1..=60) => Ok(seconds),
        _ => Err("write a whole number from 1 to 60".to_owned()),
    }
}

/// Records a profile and saves it.
///
/// # Errors
/// An output that cannot be written, a node that cannot be reached or serves no
/// profiles, a profile that cannot be recorded.
pub(crate) fn run(options: &ProfileOptions) -> Result<(), Failure> {
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| default_output(options));
    check_output(&output)?;
    let profile = fetch(options)?;
    if output == Path::new(STDOUT) {
        let mut stdout = io::stdout().lock();
        return stdout
            .write_all(&profile)
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::failed(format!("cannot write to stdout: {error}")));
    }
    write(&output, &profile)?;
    report_line(&format!("the profile is in {}", output.display()));
    Ok(())
}

fn default_output(options: &ProfileOptions) -> PathBuf {
    let extension = match options.format {
        ProfileFormat::Svg => "svg",
        ProfileFormat::Folded => "folded",
    };
    format!("profile-{}.{extension}", word(&options.kind)).into()
}

fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses an output that cannot be written before a minute is spent on the
/// recording.
fn check_output(output: &Path) -> Result<(), Failure> {
    let folder = output
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let refuse = |problem: &str| {
        let output = output.display();
        Err(Failure::usage(format!("--output: {output} {problem}")))
    };
    if output.is_dir() {
        return refuse("is a folder: name a file");
    }
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return refuse("is in a folder that does not exist: create it first");
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a profile is no part of a store")]
fn write(output: &Path, profile: &[u8]) -> Result<(), Failure> {
    std::fs::write(output, profile)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", output.display())))
}

/// Requests the profile from the node and waits for it.
fn fetch(options: &ProfileOptions) -> Result<Vec<u8>, Failure> {
    let url = &options.url;
    let accept = match options.format {
        ProfileFormat::Svg => "image/svg+xml",
        ProfileFormat::Folded => "text/plain",
    };
    let request = format!(
        "GET /debug/profile?kind={kind}&seconds={seconds} HTTP/1.1\r\n\
         Host: {authority}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n",
        kind = word(&options.kind),
        seconds = options.seconds,
        authority = authority(url),
    );
    let patience = Duration::from_secs(options.seconds) + FINISH_MAX;
    let answer = connect(url)
        .and_then(|stream| exchange(stream, &request, patience))
        .map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Failure::failed(format!(
                "{url} refuses connections: start the node, or name another one with --url"
            )),
            _ => Failure::failed(format!("cannot reach {url}: {error}")),
        })?;
    let incomplete = || {
        Failure::failed(format!(
            "{url} closed the connection before its response was complete: see the node's log"
        ))
    };
    let answer = HttpResponse::parse(&answer).map_err(|error| match error {
        ResponseError::Incomplete => incomplete(),
        ResponseError::OtherProtocol => {
            Failure::failed(format!("the server at {url} does not speak HTTP/1.1"))
        }
    })?;
    match answer.status {
        200 => Ok(answer.body.to_vec()),
        status => Err(Failure::failed(refusal(url, status, answer.body))),
    }
}

fn connect(url: &NodeUrl) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (url.host(), url.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn exchange(mut stream: TcpStream, request: &str, patience: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(CONNECT_MAX))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The URL without its scheme, for the header `Host`.
fn authority(url: &NodeUrl) -> String {
    let text = url.to_string();
    text.strip_prefix("http://").unwrap_or(&text).to_owned()
}

/// The failure line for an unsuccessful response.
fn refusal(url: &NodeUrl, status: u16, body: &[u8]) -> String {
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let member = |name: &str| problem.get(name).and_then(serde_json::Value::as_str);
    match (member("type"), member("detail")) {
        (Some("urn:kvorum:problem:unknown-path"), _) => {
            format!("{url} serves no profiles: start the node with --debug-endpoints")
        }
        (_, Some(detail)) => format!("{url} refuses: {detail}"),
        _ => format!("{url} answers {status}: it may not be a Kvorum node"),
    }
}

/// A response whose body has the length that its head states.
#[derive(Debug, PartialEq, Eq)]
struct HttpResponse<'a> {
    status: u16,
    body: &'a [u8],
}

/// Why there is no response.
#[derive(Debug, PartialEq, Eq)]
enum ResponseError {
    Incomplete,
    OtherProtocol,
}

impl<'a> HttpResponse<'a> {
    /// Parses all bytes that came until the connection was closed.
    fn parse(bytes: &'a [u8]) -> Result<Self, ResponseError> {
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
            // Each response of a node to a profile request has a length.
            None => Err(ResponseError::OtherProtocol),
            Some(length) if body.len() < length => Err(ResponseError::Incomplete),
            Some(length) => Ok(Self {
                status,
                body: &body[..length],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_response_is_accepted() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        let answer = HttpResponse::parse(whole).unwrap();
        assert_eq!((answer.status, answer.body), (200, &b"abc"[..]));
        for cut in 9..whole.len() {
            assert_eq!(
                HttpResponse::parse(&whole[..cut]),
                Err(ResponseError::Incomplete),
                "{cut}"
            );
        }
        assert_eq!(HttpResponse::parse(b""), Err(ResponseError::Incomplete));
        for other in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            b"HTTP/1.1 abc\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nabc",
        ] {
            assert_eq!(
                HttpResponse::parse(other),
                Err(ResponseError::OtherProtocol)
            );
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let url: NodeUrl = "http://localhost:8080".parse().unwrap();
        let unknown = br#"{"type":"urn:kvorum:problem:unknown-path","detail":"d"}"#;
        assert!(refusal(&url, 400, unknown).contains("--debug-endpoints"));
        let busy = br#"{"type":"urn:kvorum:problem:profile-running","detail":"try again"}"#;
        assert!(refusal(&url, 409, busy).ends_with("refuses: try again"));
        assert!(refusal(&url, 404, b"<html>").contains("404"));
    }
}
