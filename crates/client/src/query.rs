//! The targets of requests: paths with queries.
//!
//! Keys are bytes. Everything but letters and digits is percent-encoded, so that no byte
//! means anything to a proxy or to the parser of a query.

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use std::fmt::Write as _;

/// How many replicas a key has for a request, and how many of them must answer. What is
/// not given is for the node to choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// How many replicas must answer.
    pub ack: Option<u8>,
    /// How many replicas the key has.
    pub from: Option<u8>,
}

/// A path and its query, as it grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target(String);

impl Target {
    /// A path without a query.
    pub(crate) fn new(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// Adds a parameter of any bytes.
    pub(crate) fn with(mut self, name: &str, value: &[u8]) -> Self {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        let value = percent_encode(value, NON_ALPHANUMERIC);
        // Writing to memory does not fail.
        let _ = write!(self.0, "{separator}{name}={value}");
        self
    }

    /// Adds a number, if there is one.
    pub(crate) fn with_number(self, name: &str, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.with(name, number.to_string().as_bytes()),
            None => self,
        }
    }

    /// Adds `ack` and `from`, as far as they are given.
    pub(crate) fn with_replicas(self, replicas: Replicas) -> Self {
        self.with_number("ack", replicas.ack.map(u64::from))
            .with_number("from", replicas.from.map(u64::from))
    }

    /// The text after the authority of a URL.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_key_survives_the_query() {
        let every: Vec<u8> = (0..=u8::MAX).collect();
        let target = Target::new("/v0/entity").with("id", &every);
        let query = target.as_str().split_once("?id=").unwrap().1;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'%';
        assert!(query.bytes().all(is_plain), "{query}");
        let decoded: Vec<u8> = percent_encoding::percent_decode_str(query).collect();
        assert_eq!(decoded, every);
    }

    #[test]
    fn only_given_parameters_are_sent() {
        let target = |ack, from| {
            let target = Target::new("/p").with("id", b"a b");
            target.with_replicas(Replicas { ack, from }).0
        };
        assert_eq!(target(None, None), "/p?id=a%20b");
        assert_eq!(target(Some(1), Some(3)), "/p?id=a%20b&ack=1&from=3");
        assert_eq!(target(None, Some(2)), "/p?id=a%20b&from=2");
    }
}
