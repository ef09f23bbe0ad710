//! Nodes, as a client names them.

/// A node of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    url: String,
    host: String,
    port: u16,
}

impl Node {
    /// The node at a host, which may be an IP address, and a port. An IPv6 address stands
    /// without brackets.
    pub fn new(host: &str, port: u16) -> Self {
        let url = match host.contains(':') {
            true => format!("http://[{host}]:{port}"),
            false => format!("http://{host}:{port}"),
        };
        Self {
            url,
            host: host.to_owned(),
            port,
        }
    }

    /// Its URL, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its host and port.
    pub(crate) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// Its URL without the scheme, for the field `Host`.
    pub(crate) fn authority(&self) -> &str {
        self.url.strip_prefix("http://").unwrap_or(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_address_gets_brackets_in_the_url() {
        assert_eq!(Node::new("::1", 80).url(), "http://[::1]:80");
        assert_eq!(Node::new("h", 8080).authority(), "h:8080");
    }
}
