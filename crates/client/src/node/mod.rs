//! How a client names and reaches nodes; `token`: the client's identity.

mod token;

pub use token::{Token, TokenError};
use token::{TokenFile, TokenSource};

use crate::error::Error;
use dial::Resolver;
use hyper::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long the look-up of a host may take. A resolver asks the next of its servers after 5
/// seconds.
const LOOKUP_MAX: Duration = Duration::from_secs(15);

/// A node of the store, and what a client shows it and believes of it.
#[derive(Clone, Debug)]
pub struct Node {
    url: String,
    host: String,
    port: u16,
    tls: Option<NodeTls>,
    token: Option<TokenSource>,
    /// Shared by all copies, so that what was found once stays in use.
    resolver: Arc<Resolver>,
}

/// How TLS is spoken with a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeTls {
    /// What the client trusts and shows, with the sessions that can be resumed.
    pub(crate) config: Arc<ClientConfig>,
    /// The name that the node's certificate must have.
    pub(crate) name: ServerName<'static>,
}

/// A text that is not the URL of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the URL of a node: write http://HOST:PORT, and give a node that speaks TLS its \
     configuration with `with_tls`"
)]
pub struct UrlError(String);

/// A host that no certificate can name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no certificate can be for the host `{0}`: use a name or an IP address")]
pub struct HostError(String);

impl FromStr for Node {
    type Err = UrlError;

    /// The node at `http://HOST:PORT`, without a path; port 80 if none is named.
    fn from_str(url: &str) -> Result<Self, UrlError> {
        let wrong = || UrlError(url.to_owned());
        let parts: Uri = url.parse().map_err(|_| wrong())?;
        let authority = parts.authority().ok_or_else(wrong)?;
        let is_bare = parts.path() == "/" && parts.query().is_none();
        let has_user = authority.as_str().contains('@');
        if parts.scheme_str() != Some("http") || !is_bare || has_user {
            return Err(wrong());
        }
        let host = authority.host();
        let port = match authority.as_str()[host.len()..].strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| wrong())?,
            None => 80,
        };
        // An IPv6 address stands in brackets.
        let inner = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        Ok(Self::new(inner.unwrap_or(host), port))
    }
}

impl Node {
    /// The node at a host, which may be an IP address, and a port, by `http`. An IPv6 address
    /// stands without brackets.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            url: format!("http://{}", authority_of(host, port)),
            host: host.to_owned(),
            port,
            tls: None,
            token: None,
            resolver: Arc::default(),
        }
    }

    /// The same by `https`. Nodes with one `config` share the sessions that it resumes.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn with_tls(self, config: Arc<ClientConfig>) -> Result<Self, HostError> {
        let name =
            ServerName::try_from(self.host.clone()).map_err(|_| HostError(self.host.clone()))?;
        Ok(Self {
            url: format!("https://{}", self.authority()),
            tls: Some(NodeTls { config, name }),
            ..self
        })
    }

    /// The same, with a token in each request.
    #[must_use]
    pub fn with_token(self, token: Token) -> Self {
        Self {
            token: Some(TokenSource::Given(token)),
            ..self
        }
    }

    /// The same, with the token that a file holds in its first line. It is read again when its
    /// modification time changes. Copies of the node share what was read.
    #[must_use]
    pub fn with_token_file(self, path: impl Into<PathBuf>) -> Self {
        Self {
            token: Some(TokenSource::File(Arc::new(TokenFile::new(path.into())))),
            ..self
        }
    }

    /// Its URL, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The addresses of its host, with its port.
    ///
    /// # Errors
    /// The host is not found, or not in time.
    pub(crate) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let found = self.resolver.addresses(&self.host, self.port);
        let found = tokio::time::timeout(LOOKUP_MAX, found).await;
        found.unwrap_or_else(|_| {
            let what = format!("no resolver has found its host within {LOOKUP_MAX:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }

    /// Its URL without the scheme, for the field `Host`.
    pub(crate) fn authority(&self) -> String {
        authority_of(&self.host, self.port)
    }

    /// How TLS is spoken with it; none if it is not.
    pub(crate) fn tls(&self) -> Option<&NodeTls> {
        self.tls.as_ref()
    }

    /// The token that it is shown.
    ///
    /// # Errors
    /// [`Error::NoToken`].
    pub(crate) fn token(&self) -> Result<Option<Token>, Error> {
        match &self.token {
            None => Ok(None),
            Some(TokenSource::Given(token)) => Ok(Some(token.clone())),
            Some(TokenSource::File(file)) => file.token().map(Some),
        }
    }

    /// Whether a connection to another node leads to this one, with the same trust.
    pub(crate) fn is_reached_as(&self, other: &Self) -> bool {
        let is_same_trust = match (&self.tls, &other.tls) {
            (Some(tls), Some(other)) => Arc::ptr_eq(&tls.config, &other.config),
            (None, None) => true,
            _ => false,
        };
        self.url == other.url && is_same_trust
    }
}

fn authority_of(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tls;

    #[test]
    fn an_ipv6_address_gets_brackets_in_the_url() {
        assert_eq!(Node::new("::1", 80).url(), "http://[::1]:80");
        assert_eq!(Node::new("h", 8080).authority(), "h:8080");
        let node = Node::new("::1", 80)
            .with_tls(tls::trusting_nobody())
            .unwrap();
        assert_eq!(
            (node.url(), &*node.authority()),
            ("https://[::1]:80", "[::1]:80")
        );
    }

    #[test]
    fn a_node_is_named_by_its_url() {
        for (url, wanted) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://node.example:1/", "http://node.example:1"),
            ("http://node.example", "http://node.example:80"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(url.parse::<Node>().unwrap().url(), wanted);
        }
        for wrong in [
            "",
            "127.0.0.1:8080",
            "https://127.0.0.1:8080",
            "http://h:99999",
            "http://h:",
            "http://h:1/path",
            "http://h:1?a=b",
            "http://user@h:1",
        ] {
            let error = wrong.parse::<Node>().unwrap_err();
            assert!(error.to_string().contains("http://HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn a_host_that_no_certificate_can_name_is_refused() {
        let node = Node::new("a..b", 80).with_tls(tls::trusting_nobody());
        assert!(node.unwrap_err().to_string().contains("`a..b`"));
    }

    #[test]
    fn no_output_shows_the_token_of_a_node() {
        let node = Node::new("h", 1).with_token(Token::parse("hidden").unwrap());
        assert!(!format!("{node:?}").contains("hidden"));
    }
}
