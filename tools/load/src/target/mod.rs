//! The targets of requests.

mod credentials;
pub(crate) mod socket;

pub use credentials::Credentials;

use crate::Error;
use socket::{Socket, TargetTls};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tls::HandshakeFailure;

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
    /// How TLS is spoken with it; none by `http://`.
    pub(crate) tls: Option<TargetTls>,
}

impl Target {
    /// Resolves `url` and connects to it once, so that a wrong one is reported
    /// before the load.
    ///
    /// # Errors
    /// [`Error::Plan`] if `url` is not the URL of a node, [`Error::Unreachable`],
    /// [`Error::Distrusted`].
    pub(crate) fn reach(url: &str, access: &Credentials) -> Result<Self, Error> {
        let (scheme, authority) = parse(url)?;
        let tls = match (scheme, &access.tls) {
            (Scheme::Http, _) => None,
            (Scheme::Https, Some(config)) => {
                let (host, _) = authority.rsplit_once(':').unwrap_or((authority, ""));
                Some(TargetTls::new(Arc::clone(config), host)?)
            }
            (Scheme::Https, None) => {
                return Err(Error::plan(format!(
                    "{url}: there is no authority to trust"
                )));
            }
        };
        let unreachable = |source: io::Error| {
            let target = url.to_owned();
            if source
                .get_ref()
                .is_some_and(|inner| inner.is::<rustls::Error>())
            {
                Error::Distrusted {
                    target,
                    failure: HandshakeFailure::of(&source),
                    problem: tls::explain(&source),
                }
            } else {
                Error::Unreachable { target, source }
            }
        };
        let addresses = authority.to_socket_addrs().map_err(unreachable)?;
        let addresses: Vec<_> = addresses.collect();
        let reached = || {
            let stream = dial::connect_within(&addresses, FIRST_CONNECT_TIMEOUT)?;
            let target = Self {
                authority: authority.to_owned(),
                address: stream.peer_addr()?,
                tls,
            };
            target.shake_hands(stream)?;
            Ok(target)
        };
        reached().map_err(unreachable)
    }

    /// Opens a connection on which reads and writes block, for a few seconds each.
    ///
    /// # Errors
    /// It is not reached in time, or the handshake fails.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        self.shake_hands(TcpStream::connect_timeout(
            &self.address,
            FIRST_CONNECT_TIMEOUT,
        )?)
    }

    fn shake_hands(&self, stream: TcpStream) -> io::Result<Socket> {
        stream.set_read_timeout(Some(FIRST_CONNECT_TIMEOUT))?;
        stream.set_write_timeout(Some(FIRST_CONNECT_TIMEOUT))?;
        let mut socket = Socket::new(stream, self.tls.as_ref())?;
        if socket.shake_hands()? {
            Ok(socket)
        } else {
            // The time is over.
            Err(io::ErrorKind::TimedOut.into())
        }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        let scheme = match self.tls {
            None => "http",
            Some(_) => "https",
        };
        format!("{scheme}://{}", self.authority)
    }
}

/// How a URL begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// The scheme and the `HOST:PORT` of a URL `http://HOST:PORT` or `https://HOST:PORT` with an
/// optional slash at its end.
///
/// # Errors
/// [`Error::Plan`] for everything else.
pub(crate) fn parse(url: &str) -> Result<(Scheme, &str), Error> {
    let wrong = || {
        Error::plan(format!(
            "{url} is not a target: write the URL of a node, http://HOST:PORT or \
             https://HOST:PORT"
        ))
    };
    let (scheme, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (Scheme::Http, rest),
        (None, Some(rest)) => (Scheme::Https, rest),
        (None, None) => return Err(wrong()),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
    let is_host = !host.is_empty()
        && !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c));
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_host && is_port {
        Ok((scheme, authority))
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
            ("http://127.0.0.1:8080", (Scheme::Http, "127.0.0.1:8080")),
            ("http://node-1:80/", (Scheme::Http, "node-1:80")),
            ("http://[::1]:8080", (Scheme::Http, "[::1]:8080")),
            ("https://node-1:80/", (Scheme::Https, "node-1:80")),
        ] {
            assert_eq!(parse(url).unwrap(), expected);
        }
        for url in [
            "",
            "127.0.0.1:8080",
            "http://",
            "https://",
            "httpss://host:1",
            "http://host",
            "http://:80",
            "http://host:0",
            "http://host:+80",
            "http://host:65536",
            "http://host:80/path",
            "http://ho st:80",
            "http://ho\r\nst:80",
        ] {
            assert!(matches!(parse(url), Err(Error::Plan(_))), "{url}");
        }
    }
}
