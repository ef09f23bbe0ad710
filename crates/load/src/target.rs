//! The targets of requests.

use crate::Error;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a target may take to accept the first connection, which shows that
/// it is reachable.
pub(crate) const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A node that gets requests.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// `HOST:PORT`, as in the header `Host`.
    pub(crate) authority: String,
    /// The address that accepted the first connection.
    pub(crate) address: SocketAddr,
}

impl Target {
    /// Resolves `url` and connects to it once, so that a wrong one is reported
    /// before the load.
    ///
    /// # Errors
    /// [`Error::Plan`] if `url` is not the URL of a node,
    /// [`Error::Unreachable`].
    pub(crate) fn reach(url: &str) -> Result<Self, Error> {
        let authority = authority(url)?;
        let unreachable = |source| Error::Unreachable {
            target: url.to_owned(),
            source,
        };
        let addresses = authority.to_socket_addrs().map_err(unreachable)?;
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, FIRST_CONNECT_TIMEOUT) {
                Ok(_) => {
                    return Ok(Self {
                        authority: authority.to_owned(),
                        address,
                    });
                }
                Err(error) => refused = error,
            }
        }
        Err(unreachable(refused))
    }
}

/// The `HOST:PORT` of a URL `http://HOST:PORT` with an optional slash at its
/// end.
///
/// # Errors
/// [`Error::Plan`] for everything else.
pub(crate) fn authority(url: &str) -> Result<&str, Error> {
    let wrong = || {
        Error::plan(format!(
            "{url} is not a target: write the URL of a node, http://HOST:PORT"
        ))
    };
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
    let is_host = !host.is_empty()
        && !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c));
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_host && is_port {
        Ok(authority)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for (url, expected) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://node-1:80/", "node-1:80"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(authority(url).unwrap(), expected);
        }
        for url in [
            "",
            "127.0.0.1:8080",
            "https://127.0.0.1:8080",
            "http://",
            "http://host",
            "http://:80",
            "http://host:0",
            "http://host:+80",
            "http://host:65536",
            "http://host:80/path",
            "http://ho st:80",
            "http://ho\r\nst:80",
        ] {
            assert!(matches!(authority(url), Err(Error::Plan(_))), "{url}");
        }
    }
}
