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
pub(super) enum Comparison {
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
        is_any(list)
            || TagList(list)
                .map_while(Result::ok)
                .any(|tag| tag.counts(comparison) && *tag.opaque == self.text)
    }

    /// The timestamp in a tag, with its quotes; `None` if no version has such a tag.
    pub(super) fn timestamp_of(tag: &[u8]) -> Option<Timestamp> {
        let digits = tag.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let (timestamp, hash) = digits.split_at_checked(16)?;
        number_of(hash.strip_prefix(b"-")?)?;
        Some(Timestamp::from_u64(number_of(timestamp)?))
    }
}

/// Whether a list of tags is `*`, which stands for any.
pub(super) fn is_any(list: &[u8]) -> bool {
    list.trim_ascii() == b"*"
}

/// A tag of a list.
pub(super) struct ListedTag<'a> {
    /// The tag with its quotes.
    pub(super) opaque: &'a [u8],
    is_weak: bool,
}

impl ListedTag<'_> {
    /// Whether a comparison looks at it.
    pub(super) fn counts(&self, comparison: Comparison) -> bool {
        !self.is_weak || comparison == Comparison::Weak
    }
}

/// What stands in a list where a tag should.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoTag;

/// The tags of a list (RFC 9110, 8.8.3 and 5.6.1), up to what is none.
pub(super) struct TagList<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for TagList<'a> {
    type Item = Result<ListedTag<'a>, NoTag>;

    /// A tag may contain commas, so the list is split at quotes.
    fn next(&mut self) -> Option<Self::Item> {
        let is_between = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
        let first = self.0.iter().position(|byte| !is_between(byte))?;
        let list = &self.0[first..];
        // What follows something that is no tag cannot be told apart.
        self.0 = b"";
        let opaque = list.strip_prefix(b"W/").unwrap_or(list);
        let is_weak = opaque.len() < list.len();
        let is_of_tag = |byte: &u8| *byte > b' ' && *byte != 0x7f;
        let length = opaque.strip_prefix(b"\"").and_then(|inner| {
            let length = inner.iter().position(|byte| *byte == b'"')?;
            inner[..length].iter().all(is_of_tag).then_some(length)
        });
        let Some(length) = length else {
            return Some(Err(NoTag));
        };
        let (opaque, rest) = opaque.split_at(length + 2);
        let rest = rest.trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return Some(Err(NoTag));
        }
        self.0 = rest;
        Some(Ok(ListedTag { opaque, is_weak }))
    }
}

/// Sixteen hexadecimal digits as a tag has them.
fn number_of(digits: &[u8]) -> Option<u64> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 16 || !digits.iter().all(is_digit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
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
    fn the_timestamp_of_a_tag_is_that_of_its_version() {
        let timestamp = Timestamp::from_u64(0x0123_4567_89ab_cdef);
        let tag = EntityTag::of(timestamp, b"value");
        assert_eq!(EntityTag::timestamp_of(&tag.text), Some(timestamp));
        for other in [
            "\"\"",
            "\"a\"",
            "\"0000000000000abc\"",
            "\"0000000000000abc-\"",
            "\"0000000000000ABC-2d06800538d394c2\"",
            "\"+000000000000abc-2d06800538d394c2\"",
            "\"0000000000000abc-2d06800538d394c20\"",
            "0000000000000abc-2d06800538d394c2",
        ] {
            assert_eq!(EntityTag::timestamp_of(other.as_bytes()), None, "{other}");
        }
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
