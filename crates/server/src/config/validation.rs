//! Which configurations are valid.

use super::{ServerConfig, bounds};
use cluster::{NodeUrl, Replicas};
use node::ConfigError;
use std::net::Ipv6Addr;

impl ServerConfig {
    /// Checks everything that can be checked without starting.
    ///
    /// # Errors
    /// The first field that is not valid, and what to do about it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.node.validate()?;
        self.validate_memory()?;
        self.validate_requests()?;
        self.validate_tls()?;
        self.validate_trust()?;
        if let Some(slow_request) = &self.slow_request {
            bounds::check("slow_request", slow_request, &bounds::TIMES)?;
        }
        self.validate_traces()?;
        self.validate_replicas()
    }

    /// Spans go in clear, to a collector that is there.
    fn validate_traces(&self) -> Result<(), ConfigError> {
        let collector = self.otlp_endpoint.as_ref();
        check(
            "otlp_endpoint",
            !collector.is_some_and(NodeUrl::is_https),
            "spans are sent without TLS: give the http:// URL of a collector on this machine or in \
             the same network, which can pass them on over TLS",
        )?;
        check(
            "otlp_endpoint",
            collector.is_none_or(|collector| collector.port() != 0),
            "no collector listens on port 0: give the port for OTLP over HTTP, which is 4318 by default",
        )?;
        check(
            "trace_sample",
            (0.0..=1.0).contains(&self.trace_sample),
            "it is a share from 0 to 1",
        )?;
        check(
            "trace_sample",
            self.trace_sample == 0.0 || collector.is_some(),
            "it is of no use without otlp_endpoint, which says where the spans go",
        )
    }

    /// What peers say to each other is never in clear once a node speaks only TLS, and
    /// no node is reached over TLS that cannot be verified.
    fn validate_tls(&self) -> Result<(), ConfigError> {
        let members = &self.node.members;
        let own = members.own_url();
        check(
            "tls_cert",
            !own.is_https() || self.tls.is_some(),
            &format!("it is missing, and the node's URL is {own}: give tls_cert and tls_key"),
        )?;
        let peers = || members.others().map(|(_, peer)| peer.url());
        let verifies_peers = self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.files.peer_ca.is_some());
        if let Some(peer) = peers().find(|peer| peer.is_https()) {
            check(
                "tls_peer_ca",
                verifies_peers,
                &format!(
                    "it is missing, and {peer} is reached over TLS: give tls_cert, tls_key and \
                     the certificate of the authority that signs the nodes' certificates"
                ),
            )?;
        }
        if self.tls.as_ref().is_none_or(|tls| tls.is_optional) {
            return Ok(());
        }
        let plain = std::iter::once(own)
            .chain(peers())
            .find(|url| !url.is_https());
        match plain {
            None => Ok(()),
            Some(url) => Err(ConfigError::new(
                "tls_cert",
                format!(
                    "the node speaks only TLS, but {url} is a URL without it: write https:// for \
                     all nodes, or add tls_optional while the cluster moves to TLS"
                ),
            )),
        }
    }

    fn validate_memory(&self) -> Result<(), ConfigError> {
        if let Some(bytes) = self.node.blob_value_bytes_min {
            let bytes = bytes as u64;
            bounds::check("blob_value_bytes_min", &bytes, &bounds::BLOB_VALUE_BYTES)?;
        }
        bounds::check("memory_bytes", &self.memory_bytes, &bounds::MEMORY_BYTES)?;
        check(
            "value_bytes_max",
            self.node.value_bytes_max as u64 <= self.memory_bytes / 8,
            "a value may take at most an eighth of the memory: lower it, or give more memory",
        )?;
        if let Some(memtable_bytes) = self.memtable_bytes.map(|bytes| bytes as u64) {
            bounds::check("memtable_bytes", &memtable_bytes, &bounds::MEMTABLE_BYTES)?;
            check(
                "memtable_bytes",
                memtable_bytes <= self.memory_bytes / 6,
                "three memtables may take at most half of the memory: lower it, or give more \
                 memory",
            )?;
        }
        let planned_bytes = self.memory_split().planned_bytes() as u64;
        if self.tls.is_some() && planned_bytes > self.memory_bytes {
            return Err(ConfigError::new(
                "memory_bytes",
                format!(
                    "TLS on {} threads needs {} MiB with these values: give as much, or use fewer \
                     threads, shorter values (value_bytes_max) or smaller memtables",
                    self.threads,
                    planned_bytes.div_ceil(1 << 20)
                ),
            ));
        }
        Ok(())
    }

    fn validate_requests(&self) -> Result<(), ConfigError> {
        bounds::check("threads", &self.threads, &bounds::THREADS)?;
        bounds::check("read_threads", &self.read_threads, &bounds::READ_THREADS)?;
        bounds::check(
            "requests_queued_max",
            &self.requests_queued_max,
            &bounds::REQUESTS_QUEUED,
        )?;
        for (field, number) in [
            ("requests_in_flight_max", self.requests_in_flight_max),
            ("connections_max", self.connections_max),
            ("scans_max", self.scans_max.unwrap_or(1)),
        ] {
            bounds::check(field, &number, &bounds::COUNTS)?;
        }
        for (field, duration) in [
            ("idle_timeout", self.idle_timeout),
            ("head_timeout", self.head_timeout),
            ("body_timeout", self.body_timeout),
            ("stall_timeout", self.stall_timeout),
        ] {
            bounds::check(field, &duration, &bounds::TIMES)?;
        }
        for host in &self.hosts {
            check(
                "hosts",
                is_host(host),
                &format!(
                    "`{}` is not a host: give a name, without http:// and without a port",
                    host.escape_debug()
                ),
            )?;
        }
        for origin in &self.cors_origins {
            check(
                "cors_origins",
                is_origin(origin),
                &format!(
                    "`{}` is not the origin of pages: give a scheme, a host, and the port (1 to \
                     65535) if it has one, such as https://app.example, without a slash at the \
                     end",
                    origin.escape_debug()
                ),
            )?;
        }
        bounds::check("drain_timeout", &self.drain_timeout, &bounds::DRAIN_TIMEOUT)
    }

    fn validate_replicas(&self) -> Result<(), ConfigError> {
        if let Some(pair) = self.replicas_default {
            let nodes = self.node.members.count();
            check(
                "replicas_default",
                Replicas::new(pair.ack, pair.from).is_some(),
                "ack is at least 1 and at most from",
            )?;
            check(
                "replicas_default",
                pair.from <= nodes,
                &format!("from is at most the number of nodes, which is {nodes}"),
            )?;
        }
        Ok(())
    }
}

/// Whether a text is a host as URLs have it.
fn is_host(text: &str) -> bool {
    let url: Result<NodeUrl, _> = format!("http://{text}:0").parse();
    url.is_ok()
}

/// Whether a text is an origin: a scheme and a host, perhaps with a port.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let is_scheme = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let (host, port) = match authority.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = port.is_none_or(|port| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    let is_plain = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && is_plain(host),
    };
    is_scheme && is_host && is_port
}

fn check(field: &'static str, holds: bool, otherwise: &str) -> Result<(), ConfigError> {
    if holds {
        Ok(())
    } else {
        Err(ConfigError::new(field, otherwise))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_nothing_else() {
        for origin in [
            "http://a",
            "https://a.example:8443",
            "http://[::1]:80",
            "chrome-extension://abcdef",
            "https://a:65535",
            "http://[::1]",
        ] {
            assert!(is_origin(origin), "{origin}");
        }
        for other in [
            "",
            "*",
            "null",
            "a.example",
            "http://",
            "://a",
            "https://a/",
            "https://a/path",
            "https://*.example",
            "https://user@a",
            "https://a b",
            "https://a,https://b",
            "https://\u{e4}.example",
            "https://a:99999",
            "https://a:65536",
            "https://a:0",
            "https://a:",
            "https://a:+80",
            "https://a:b",
            "https://:80",
            "https://a:1:2",
            "https://::1",
            "https://[::1",
            "https://[a]:80",
            "https://[::1]:99999",
        ] {
            assert!(!is_origin(other), "{other}");
        }
    }
}
