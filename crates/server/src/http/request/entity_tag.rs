//! Entity tags, and the conditions that requests make with them.

use base::Timestamp;
use hyper::HeaderMap;
use hyper::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};

/// The entity tag of a version: `"<timestamp>-<xxh3 of the value>"`, both in
/// hexadecimal. Strong: equal tags are equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityTag {
    /// Quotes, 16 digits, a hyphen, 16 digits.
    text: [u8; 35],
}

/// How a comparison treats tags that are marked as weak (RFC 9110, 8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// It ignores the mark.
    Weak,
    /// A weak tag equals no tag.
    Strong,
}

impl EntityTag {
    /// The tag of a version with this value.
    pub(crate) fn of(timestamp: Timestamp, value: &[u8]) -> Self {
        Self::with_hash(timestamp, value_hash(value))
    }

    /// The tag of a version whose value has this hash.
    pub(crate) fn with_hash(timestamp: Timestamp, hash: u64) -> Self {
        let mut text = [b'"'; 35];
        text[1..17].copy_from_slice(&hexadecimal(timestamp.as_u64()));
        text[17] = b'-';
        text[18..34].copy_from_slice(&hexadecimal(hash));
        Self { text }
    }

    /// The tag as the value of a header field.
    pub(crate) fn header(&self) -> HeaderValue {
        // Quotes, digits and a hyphen are always a valid value.
        HeaderValue::from_bytes(&self.text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    }

    /// Whether an `If-None-Match` names this tag or `*`. The comparison is weak
    /// (RFC 9110, 13.1.2).
    pub(crate) fn is_named_by_if_none_match(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .any(|list| self.is_in_list(list.as_bytes(), Comparison::Weak))
    }

    /// Whether the request has no `If-Match`, or one that names this tag or `*`. The
    /// comparison is strong (RFC 9110, 13.1.1).
    pub(crate) fn satisfies_if_match(&self, headers: &HeaderMap) -> bool {
        let mut lists = headers.get_all(IF_MATCH).iter().peekable();
        lists.peek().is_none()
            || lists.any(|list| self.is_in_list(list.as_bytes(), Comparison::Strong))
    }

    fn is_in_list(&self, list: &[u8], comparison: Comparison) -> bool {
        if list.trim_ascii() == b"*" {
            return true;
        }
        // A tag may contain commas, so the list is split at quotes.
        let mut rest = list;
        loop {
            rest = rest.trim_ascii_start();
            if let Some(after) = rest.strip_prefix(b",") {
                rest = after;
                continue;
            }
            let opaque = rest.strip_prefix(b"W/").unwrap_or(rest);
            let counts = opaque.len() == rest.len() || comparison == Comparison::Weak;
            let Some(inner) = opaque.strip_prefix(b"\"") else {
                return false;
            };
            let Some(length) = inner.iter().position(|byte| *byte == b'"') else {
                return false;
            };
            if counts && opaque[..length + 2] == self.text {
                return true;
            }
            rest = &inner[length + 1..];
        }
    }
}

/// A number in sixteen hexadecimal digits. Each answer has two of them, and `write!`
/// would take a hundredth of the request's time.
fn hexadecimal(number: u64) -> [u8; 16] {
    std::array::from_fn(|index| {
        let digit = (number >> (60 - 4 * index)) as usize & 0xf;
        b"0123456789abcdef"[digit]
    })
}

/// The hash of a value, for its tag.
pub(crate) fn value_hash(value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::testing::headers;

    #[test]
    fn a_tag_is_timestamp_and_hash() {
        let tag = EntityTag::of(Timestamp::from_u64(0xabc), b"");
        assert_eq!(
            tag.header().to_str().unwrap(),
            "\"0000000000000abc-2d06800538d394c2\""
        );
        assert_ne!(tag, EntityTag::of(Timestamp::from_u64(0xabc), b"x"));
        assert_ne!(tag, EntityTag::of(Timestamp::from_u64(0xabd), b""));
    }

    #[test]
    fn if_none_match_is_a_list_compared_weakly() {
        let tag = EntityTag::of(Timestamp::from_u64(0xabc), b"");
        for (value, named) in [
            ("*", true),
            (" * ", true),
            ("\"0000000000000abc-2d06800538d394c2\"", true),
            ("W/\"0000000000000abc-2d06800538d394c2\"", true),
            ("\"a\", \"0000000000000abc-2d06800538d394c2\"", true),
            ("\"a,b\" ,, W/\"0000000000000abc-2d06800538d394c2\"", true),
            ("\"a\"", false),
            ("", false),
            ("\"", false),
            ("W/", false),
            ("0000000000000abc-2d06800538d394c2", false),
            ("w/\"0000000000000abc-2d06800538d394c2\"", false),
        ] {
            let headers = headers("if-none-match", &[value]);
            assert_eq!(tag.is_named_by_if_none_match(&headers), named, "{value}");
        }
        assert!(!tag.is_named_by_if_none_match(&HeaderMap::new()));
        assert!(tag.is_named_by_if_none_match(&headers("if-none-match", &["\"a\"", "*"])));
    }

    #[test]
    fn if_match_is_a_list_compared_strongly() {
        let tag = EntityTag::of(Timestamp::from_u64(0xabc), b"");
        for (value, wanted) in [
            ("*", true),
            ("\"0000000000000abc-2d06800538d394c2\"", true),
            ("\"a\", \"0000000000000abc-2d06800538d394c2\"", true),
            ("W/\"0000000000000abc-2d06800538d394c2\"", false),
            ("\"a\"", false),
            ("", false),
        ] {
            let headers = headers("if-match", &[value]);
            assert_eq!(tag.satisfies_if_match(&headers), wanted, "{value}");
        }
        assert!(tag.satisfies_if_match(&HeaderMap::new()));
        assert!(tag.satisfies_if_match(&headers("if-match", &["\"a\"", "*"])));
    }
}
