//! Requests of web pages of other sites, which a browser on the node's machine or
//! network sends.
//!
//! A node may be reachable only from its own machine or network, but a browser there
//! sends requests for every page that it shows. A page has two ways to attack the node:
//!
//! - *Rebinding*: the name of the page's own site resolves to the node's address when
//!   the browser resolves it again. The browser then takes the node for that site, so
//!   the page may read, put and delete. But `Host` still has the site's name, which is
//!   not a name of this node.
//! - *Blind requests*: images, forms, and calls whose answers the page cannot read. The
//!   browser says in `Origin`, or else in `Sec-Fetch-Site`, which page sends them.
//!
//! An operator may let pages of some origins use the node (`cors_origins`). A page cannot
//! forge these fields, and clients other than browsers do not send
//! `Origin` and `Sec-Fetch-Site`. Every IP address is allowed in `Host`, because it is
//! not the name of a site. It need not be this node's, because a proxy or a tunnel may lie
//! between. A node with a tokens file is known by any name: a page has no token of it, and
//! its browser sends none by itself.

use super::cors_origins::CorsOrigins;
use crate::config::ServerConfig;
use cluster::Members;
use hyper::Uri;
use hyper::header::HeaderValue;
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The fields of a head that say where it comes from and which host it is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Provenance<'a> {
    /// `Host`.
    pub(crate) host: Option<&'a HeaderValue>,
    /// `Origin`. If there are several, which no browser sends, the last one.
    pub(crate) origin: Option<&'a HeaderValue>,
    /// `Sec-Fetch-Site`. If there are several, the last one.
    pub(crate) fetch_site: Option<&'a HeaderValue>,
}

/// Why a page of another site may have sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign<'a> {
    /// The request is for this host, which is not a name of this node.
    Host(&'a [u8]),
    /// The request comes from a page of another origin.
    Origin,
}

/// The longest authority that is remembered. Longer ones are rare.
const REMEMBERED_BYTES_MAX: usize = 300;

/// The names by which clients may address the node. Each runtime has its own copy.
#[derive(Debug)]
pub(crate) struct OwnHosts {
    /// Host and port of the node's own URL, which most clients send.
    authority: Box<str>,
    /// The authority of the last request that was for this node. Most clients of a
    /// node send the same, and comparing takes a tenth of the time of parsing.
    last: RefCell<Vec<u8>>,
    /// All names, in lower case, sorted, each once.
    names: RefCell<Vec<Box<str>>>,
    /// Those that no layout changes.
    given: Vec<String>,
    /// The other origins whose pages are served.
    cors_origins: CorsOrigins,
    /// Whether any host will do: a page that rebound its name has no token.
    is_any_host: bool,
}

impl OwnHosts {
    /// The hosts of the cluster's URLs, the names that the operator configured, and
    /// `localhost`.
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let authority = config.node.url().authority();
        let own_hosts = Self {
            last: RefCell::new(authority.clone().into_bytes()),
            authority: authority.into_boxed_str(),
            names: RefCell::default(),
            given: config.hosts.clone(),
            cors_origins: CorsOrigins::new(config),
            is_any_host: config.trust.tokens_file.is_some(),
        };
        own_hosts.follow(&config.node.members);
        own_hosts
    }

    /// Knows the hosts of these nodes from now on.
    pub(crate) fn follow(&self, members: &Members) {
        let of_members = members.iter().map(|(_, node)| node.url().host());
        let given = self.given.iter().map(String::as_str);
        let mut names: Vec<Box<str>> = of_members
            .chain(given)
            .chain(["localhost"])
            .map(|name| name.to_ascii_lowercase().into_boxed_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        *self.names.borrow_mut() = names;
        self.last.borrow_mut().clear();
        self.last
            .borrow_mut()
            .extend_from_slice(self.authority.as_bytes());
    }

    /// The other origins whose pages are served.
    pub(crate) fn cors_origins(&self) -> &CorsOrigins {
        &self.cors_origins
    }

    /// Refuses requests that a page of another site may have sent. Allocates nothing,
    /// unless it refuses or remembers an authority that is longer than all before.
    ///
    /// # Errors
    /// What shows that the request is foreign.
    pub(crate) fn check<'a>(
        &self,
        target: &'a Uri,
        from: Provenance<'a>,
    ) -> Result<(), Foreign<'a>> {
        if let Some(host) = from.host
            && !self.is_own(host.as_bytes())
        {
            return Err(Foreign::Host(host.as_bytes()));
        }
        // The authority of a target in absolute form overrides `Host`.
        if let Some(authority) = target.authority()
            && !self.is_own(authority.as_str().as_bytes())
        {
            return Err(Foreign::Host(authority.as_str().as_bytes()));
        }
        match (from.origin, from.fetch_site) {
            (Some(origin), _)
                if !self.is_own_origin(origin.as_bytes(), from.host)
                    && !self.cors_origins.has(origin.as_bytes()) =>
            {
                Err(Foreign::Origin)
            }
            (None, Some(site)) if is_other_site(site.as_bytes()) => Err(Foreign::Origin),
            _ => Ok(()),
        }
    }

    /// Whether a request to this host, with or without a port, is for this node.
    fn is_own(&self, authority: &[u8]) -> bool {
        if self.is_any_host {
            return true;
        }
        if authority == *self.last.borrow() {
            return true;
        }
        let is_own =
            host_of(authority).is_some_and(|host| is_ip_address(host) || self.has_name(host));
        if is_own && authority.len() <= REMEMBERED_BYTES_MAX {
            let mut last = self.last.borrow_mut();
            last.clear();
            last.extend_from_slice(authority);
        }
        is_own
    }

    fn has_name(&self, host: &[u8]) -> bool {
        let lower = || host.iter().map(u8::to_ascii_lowercase);
        let names = self.names.borrow();
        let found = names.binary_search_by(|name| name.bytes().cmp(lower()));
        found.is_ok()
    }

    /// Whether a page of this origin came from this node: the origin has the host and
    /// port that the request is for, or those of the node's URL. It has `https` behind
    /// a proxy that ends TLS.
    fn is_own_origin(&self, origin: &[u8], host: Option<&HeaderValue>) -> bool {
        let authority = match origin.split_at_checked(b"https://".len()) {
            Some((b"https://", authority)) => authority,
            _ => match origin.split_at_checked(b"http://".len()) {
                Some((b"http://", authority)) => authority,
                _ => return false,
            },
        };
        host.is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(authority))
            || authority == self.authority.as_bytes()
    }
}

/// The host of an authority, an IPv6 address with its brackets. `None` if the rest is
/// not a port.
fn host_of(authority: &[u8]) -> Option<&[u8]> {
    let end = match authority.first() {
        Some(b'[') => authority.iter().position(|byte| *byte == b']')? + 1,
        _ => authority
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    match port {
        [] => Some(host),
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => Some(host),
        _ => None,
    }
}

fn is_ip_address(host: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(host) else {
        return false;
    };
    match text.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => host.first().is_some_and(u8::is_ascii_digit) && text.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Whether a browser says that a page of another site sent the request.
fn is_other_site(site: &[u8]) -> bool {
    site.eq_ignore_ascii_case(b"cross-site") || site.eq_ignore_ascii_case(b"same-site")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::Member;

    fn own_hosts() -> OwnHosts {
        let nodes = [
            "http://kv-1.example:8080",
            "http://KV-2.example:8080",
            "http://10.0.0.3:8080",
        ];
        let nodes = nodes.map(|url| url.parse().unwrap());
        let members = nodes.clone().map(Member::unnamed).to_vec();
        let members = Members::new(members, &nodes[0]).unwrap();
        let mut config = ServerConfig::new(members, "store");
        config.hosts = vec!["Proxy.example".to_owned()];
        config.cors_origins = vec!["https://App.example:443".to_owned()];
        OwnHosts::new(&config)
    }

    fn status_of(target: &str, fields: &[(&str, &str)]) -> u16 {
        let values: Vec<(&str, HeaderValue)> = fields
            .iter()
            .map(|(name, value)| (*name, HeaderValue::from_str(value).unwrap()))
            .collect();
        let value = |name| {
            let mut named = values.iter().filter(|(known, _)| *known == name);
            named.next().map(|(_, value)| value)
        };
        let from = Provenance {
            host: value("host"),
            origin: value("origin"),
            fetch_site: value("site"),
        };
        check(&own_hosts(), target, from)
    }

    fn check(own_hosts: &OwnHosts, target: &str, from: Provenance<'_>) -> u16 {
        match own_hosts.check(&target.parse().unwrap(), from) {
            Ok(()) => 200,
            Err(Foreign::Host(_)) => 421,
            Err(Foreign::Origin) => 403,
        }
    }

    #[test]
    fn a_host_is_an_ip_address_or_a_name_of_the_node() {
        for (host, status) in [
            ("kv-1.example:8080", 200),
            ("kv-1.example", 200),
            ("KV-1.Example:9", 200),
            ("kv-2.example:8080", 200),
            ("proxy.example", 200),
            ("proxy.example:", 200),
            ("localhost:8080", 200),
            ("LOCALHOST", 200),
            ("127.0.0.1:8080", 200),
            ("192.168.1.9", 200),
            ("[::1]:8080", 200),
            ("[2001:db8::1]", 200),
            ("", 421),
            (":8080", 421),
            ("evil.example:8080", 421),
            ("localhost.evil.example", 421),
            ("kv-1.example.evil.example:8080", 421),
            ("evil-kv-1.example", 421),
            ("kv-1.exampl", 421),
            ("127.0.0.1.evil.example", 421),
            ("127.0.0.1:80:80", 421),
            ("localhost:evil.example", 421),
            ("evil.example@localhost", 421),
            ("localhost@evil.example", 421),
            ("::1", 421),
            ("[::1", 421),
            ("[evil.example]", 421),
            ("[::1]evil.example", 421),
            ("2130706433", 421),
            ("0x7f.1", 421),
        ] {
            assert_eq!(status_of("/", &[("host", host)]), status, "{host}");
        }
        assert_eq!(status_of("/", &[]), 200, "HTTP/1.0 may have none");
    }

    #[test]
    fn what_is_remembered_lets_nothing_else_pass() {
        let own_hosts = own_hosts();
        for _ in 0..2 {
            for (host, status) in [
                ("127.0.0.1:8080", 200),
                ("127.0.0.1:8080.evil.example", 421),
                ("127.0.0.1:808", 200),
                ("evil.example", 421),
                ("proxy.example", 200),
                ("", 421),
            ] {
                let value = HeaderValue::from_static(host);
                let from = Provenance {
                    host: Some(&value),
                    ..Provenance::default()
                };
                assert_eq!(check(&own_hosts, "/", from), status, "{host}");
            }
        }
    }

    #[test]
    fn the_host_of_a_target_in_absolute_form_is_checked() {
        for (target, status) in [
            ("http://kv-2.example:8080/v0/status", 200),
            ("http://127.0.0.1/v0/status", 200),
            ("http://evil.example:8080/v0/status", 421),
            ("evil.example:8080", 421),
        ] {
            let host = [("host", "localhost")];
            assert_eq!(status_of(target, &host), status, "{target}");
        }
    }

    #[test]
    fn requests_of_pages_of_other_origins_or_sites_are_refused() {
        for (host, origin, site, status) in [
            ("127.0.0.1:8080", "", "", 200),
            (
                "127.0.0.1:8080",
                "http://127.0.0.1:8080",
                "same-origin",
                200,
            ),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", "", 200),
            ("Proxy.example", "https://proxy.example", "same-origin", 200),
            ("127.0.0.1:8080", "http://kv-1.example:8080", "", 200),
            ("127.0.0.1:8080", "", "none", 200),
            ("127.0.0.1:8080", "", "same-origin", 200),
            ("127.0.0.1:8080", "http://127.0.0.1:3000", "same-site", 403),
            ("127.0.0.1:8080", "http://127.0.0.1", "", 403),
            ("127.0.0.1:8080", "http://127.0.0.1:80801", "", 403),
            ("127.0.0.1:8080", "http://kv-2.example:8080", "", 403),
            ("127.0.0.1:8080", "http://evil.example", "cross-site", 403),
            ("127.0.0.1:8080", "http://evil.example", "same-origin", 403),
            ("127.0.0.1:8080", "ftp://127.0.0.1:8080", "", 403),
            ("127.0.0.1:8080", "127.0.0.1:8080", "", 403),
            ("127.0.0.1:8080", "http://", "", 403),
            ("127.0.0.1:8080", "null", "cross-site", 403),
            ("127.0.0.1:8080", "https://app.example", "cross-site", 200),
            ("evil.example", "https://app.example", "cross-site", 421),
            ("127.0.0.1:8080", "http://app.example", "cross-site", 403),
            (
                "127.0.0.1:8080",
                "https://app.example.evil.example",
                "cross-site",
                403,
            ),
            ("127.0.0.1:8080", "", "cross-site", 403),
            ("127.0.0.1:8080", "", "same-site", 403),
            ("127.0.0.1:8080", "", "Cross-Site", 403),
            // Rebinding: the browser takes the node for the page's own site.
            (
                "evil.example:8080",
                "http://evil.example:8080",
                "same-origin",
                421,
            ),
        ] {
            let fields = [("host", host), ("origin", origin), ("site", site)];
            let sent: Vec<_> = fields
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .collect();
            assert_eq!(status_of("/", &sent), status, "{host} {origin} {site}");
        }
    }
}
