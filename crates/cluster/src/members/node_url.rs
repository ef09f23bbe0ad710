//! The URL of a node, as clients and peers write it.
//!
//! The parser is written by hand, because the crate `url` does not fit: it drops
//! the port of `http://h:80`, so that a missing port looks the same; it accepts
//! what only browsers accept (`http:h:80`, `http://0x7f.1:80`); and it brings
//! Unicode tables for hosts that no node can have.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The longest host in the domain name system, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// The URL of a node, `http://host:port` or `https://host:port`, in one canonical
/// spelling. Two texts that mean the same are equal and print alike: the host is in lower
/// case, an IP address has its canonical form, and there is no slash at the end.
///
/// Names are not resolved, so `localhost` and `127.0.0.1` are two hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeUrl {
    host: String,
    port: u16,
    scheme: Scheme,
}

/// How a node is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// What a URL begins with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }
}

/// Why a text is not the URL of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {problem}: write it as http://host:port or https://host:port")]
pub struct NodeUrlError {
    text: String,
    problem: &'static str,
}

impl NodeUrl {
    /// The host, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 0 if it is not known yet.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the node is reached over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Host and port, as they stand in a URL and in the header `Host`.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    /// The same host with another port.
    #[must_use]
    pub fn with_port(&self, port: u16) -> Self {
        Self {
            host: self.host.clone(),
            port,
            scheme: self.scheme,
        }
    }

    /// Whether the host is this machine itself, where no other machine can reach
    /// it: `localhost`, 127.0.0.0/8 or ::1.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }
}

impl FromStr for NodeUrl {
    type Err = NodeUrlError;

    /// Reads `http://host:port` or `https://host:port`, with or without a trailing slash.
    fn from_str(text: &str) -> Result<Self, NodeUrlError> {
        let wrong = |problem| NodeUrlError {
            text: text.to_owned(),
            problem,
        };
        let after = |scheme: Scheme| {
            let (prefix, rest) = text.split_at_checked(scheme.prefix().len())?;
            let is_it = prefix.eq_ignore_ascii_case(scheme.prefix());
            is_it.then_some((scheme, rest))
        };
        let (scheme, rest) = after(Scheme::Http)
            .or_else(|| after(Scheme::Https))
            .ok_or_else(|| wrong("does not begin with http:// or https://"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(wrong("has more than a host and a port"));
        }
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| wrong("has no port"))?;
        let host = host_of(host).ok_or_else(|| wrong("has no valid host"))?;
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("has a port that is not a number"));
        }
        let port = port.parse().map_err(|_| wrong("has a port above 65535"))?;
        Ok(Self { host, port, scheme })
    }
}

impl From<SocketAddr> for NodeUrl {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
            scheme: Scheme::Http,
        }
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.scheme.prefix(), self.authority())
    }
}

/// The canonical spelling of a host; `None` if the text is not a host.
fn host_of(text: &str) -> Option<String> {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bracketed {
        return Some(address.parse::<Ipv6Addr>().ok()?.to_string());
    }
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_plain || !(1..=HOST_BYTES_MAX).contains(&text.len()) {
        return None;
    }
    match text.parse::<Ipv4Addr>() {
        Ok(address) => Some(address.to_string()),
        Err(_) => Some(text.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_have_one_spelling() {
        for (text, host, port, shown) in [
            ("http://localhost:8080", "localhost", 8080, ""),
            (
                "http://localhost:8080/",
                "localhost",
                8080,
                "http://localhost:8080",
            ),
            (
                "HTTP://LocalHost:08080",
                "localhost",
                8080,
                "http://localhost:8080",
            ),
            ("http://[::1]:0", "::1", 0, ""),
            ("http://[0:0::0:1]:7", "::1", 7, "http://[::1]:7"),
            (
                "http://[2001:DB8::A]:7",
                "2001:db8::a",
                7,
                "http://[2001:db8::a]:7",
            ),
            ("http://node-1.example:65535", "node-1.example", 65535, ""),
            ("http://10.0.0.5:80", "10.0.0.5", 80, ""),
            ("https://10.0.0.5:80", "10.0.0.5", 80, ""),
            ("HTTPS://[::1]:443/", "::1", 443, "https://[::1]:443"),
        ] {
            let url: NodeUrl = text.parse().unwrap();
            assert_eq!((url.host(), url.port()), (host, port), "{text}");
            let shown = if shown.is_empty() { text } else { shown };
            assert_eq!(url.to_string(), shown, "{text}");
            assert_eq!(url.is_https(), shown.starts_with("https"), "{text}");
            assert_eq!(shown.parse(), Ok(url), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_is_wrong_with_a_url_and_how_to_write_it() {
        let long = format!("http://{}:80", "a".repeat(HOST_BYTES_MAX + 1));
        for (text, problem) in [
            ("", "http://"),
            ("localhost:8080", "begin with http://"),
            ("httpss://localhost:8080", "begin with http://"),
            ("https:/localhost:8080", "or https://"),
            ("https://localhost", "no port"),
            ("http:/ü", "begin with http://"),
            ("http://localhost", "no port"),
            ("http://", "no port"),
            ("http://:80", "host"),
            ("http://::1:80", "host"),
            ("http://[localhost]:80", "host"),
            ("http://[::1:80", "host"),
            ("http://user@localhost:80", "host"),
            ("http://a=b:80", "host"),
            (&long, "host"),
            ("http://localhost:", "not a number"),
            ("http://localhost:65536", "65535"),
            ("http://localhost:+80", "not a number"),
            ("http://localhost:80/path", "more than a host"),
            ("http://localhost:80?a=b", "more than a host"),
            ("http://localhost/path", "more than a host"),
            ("http://localhost:80//", "more than a host"),
        ] {
            let error = text.parse::<NodeUrl>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(error.contains("http://host:port"), "{text}: {error}");
        }
    }

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        for (text, is_loopback) in [
            ("http://localhost:1", true),
            ("http://LOCALHOST:1", true),
            ("http://127.0.0.1:1", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:1", true),
            ("http://10.0.0.1:1", false),
            ("http://0.0.0.0:1", false),
            ("http://[::]:1", false),
            ("http://localhost.example:1", false),
            ("http://127.0.0.1.example:1", false),
        ] {
            let url: NodeUrl = text.parse().unwrap();
            assert_eq!(url.is_loopback(), is_loopback, "{text}");
        }
    }

    #[test]
    fn a_socket_address_makes_a_url() {
        for (address, shown) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
        ] {
            let url = NodeUrl::from(address.parse::<SocketAddr>().unwrap());
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse(), Ok(url));
        }
    }
}
