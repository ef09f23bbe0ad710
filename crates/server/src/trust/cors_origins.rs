//! The origins whose pages may use the node (`--cors-origin`).

use crate::config::ServerConfig;

/// These origins. Each runtime has its own copy.
#[derive(Debug)]
pub(crate) struct CorsOrigins(Vec<Box<str>>);

impl CorsOrigins {
    /// The origins of a configuration, as browsers write them.
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let origins = config.cors_origins.iter();
        Self(origins.map(|origin| written(origin).into()).collect())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request of a page with this `Origin` is served.
    pub(crate) fn has(&self, origin: &[u8]) -> bool {
        self.0.iter().any(|known| known.as_bytes() == origin)
    }
}

/// An origin as a browser writes it: in lower case, and without the scheme's own port.
fn written(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let own_port = match origin.split_once("://") {
        Some(("http", _)) => ":80",
        Some(("https", _)) => ":443",
        _ => return origin,
    };
    match origin.strip_suffix(own_port) {
        Some(rest) => rest.to_owned(),
        None => origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::NodeUrl;

    #[test]
    fn an_origin_is_known_as_browsers_write_it() {
        let url: NodeUrl = "http://a:80".parse().unwrap();
        let mut config = ServerConfig::new(url, "store");
        assert!(CorsOrigins::new(&config).is_empty());
        config.cors_origins = [
            "https://App.example",
            "http://app.example:80",
            "https://app.example:8443",
            "http://[::1]:80",
        ]
        .map(str::to_owned)
        .to_vec();
        let origins = CorsOrigins::new(&config);
        assert!(!origins.is_empty());
        for (origin, is_known) in [
            ("https://app.example", true),
            ("http://app.example", true),
            ("https://app.example:8443", true),
            ("http://[::1]", true),
            ("http://app.example:8443", false),
            ("https://app.example.evil.example", false),
            ("https://app.exampl", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(origins.has(origin.as_bytes()), is_known, "{origin}");
        }
    }
}
