//! Entity tags and what requests say about representations: `If-Match`,
//! `If-None-Match`, `Accept`, `TE`.

use base::Timestamp;
use hyper::HeaderMap;
use hyper::header::{ACCEPT, HeaderValue, IF_MATCH, IF_NONE_MATCH, TE};

/// The entity tag of a version: `"<timestamp>-<xxh3 of the value>"`, both in
/// hexadecimal. Strong: equal tags are equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntityTag {
    /// Quotes, 16 digits, a hyphen, 16 digits.
    text: [u8; 35],
}

/// What tags that are marked as weak count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    AreEqual,
    Differ,
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

    /// The tag as a header has it.
    pub(crate) fn header(&self) -> HeaderValue {
        // Quotes, digits and a hyphen: always a valid value.
        HeaderValue::from_bytes(&self.text).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    }

    /// Whether an `If-None-Match` names this tag, or any. Weak comparison, as
    /// RFC 9110, 13.1.2 has it.
    pub(crate) fn is_named_by(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .any(|list| self.is_in_list(list.as_bytes(), Weak::AreEqual))
    }

    /// Whether the request may be answered with this tag's version: it has no
    /// `If-Match`, or one that names this tag, or any. Strong comparison, as
    /// RFC 9110, 13.1.1 has it.
    pub(crate) fn is_wanted_by(&self, headers: &HeaderMap) -> bool {
        let mut lists = headers.get_all(IF_MATCH).iter().peekable();
        lists.peek().is_none() || lists.any(|list| self.is_in_list(list.as_bytes(), Weak::Differ))
    }

    fn is_in_list(&self, list: &[u8], weak: Weak) -> bool {
        if list.trim_ascii() == b"*" {
            return true;
        }
        // A tag may hold commas, so the list is read from quote to quote.
        let mut rest = list;
        loop {
            rest = rest.trim_ascii_start();
            if let Some(after) = rest.strip_prefix(b",") {
                rest = after;
                continue;
            }
            let opaque = rest.strip_prefix(b"W/").unwrap_or(rest);
            let counts = opaque.len() == rest.len() || weak == Weak::AreEqual;
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

/// The sixteen digits of a number. Each answer has two of them: `write!` takes
/// a hundredth of a request for that.
fn hexadecimal(number: u64) -> [u8; 16] {
    std::array::from_fn(|place| {
        let digit = (number >> (60 - 4 * place)) as usize & 0xf;
        b"0123456789abcdef"[digit]
    })
}

/// The hash of a value, for its tag.
pub(crate) fn value_hash(value: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(value)
}

/// How a range is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeFormat {
    /// `<key>\n<value>`, a chunk each.
    Plain,
    /// JSON, a line each.
    JsonLines,
}

/// The format that `Accept` asks for: JSON lines where they are named with a
/// greater weight than plain bytes get, or with the same weight and more
/// exactly.
pub(crate) fn range_format(headers: &HeaderMap) -> RangeFormat {
    let mut json = Preference::default();
    let mut plain = Preference::default();
    for value in headers.get_all(ACCEPT) {
        let Ok(text) = value.to_str() else { continue };
        for element in text.split(',') {
            let (media, weight) = weighted(element);
            json.consider(media, "application/x-ndjson", weight);
            plain.consider(media, "application/octet-stream", weight);
        }
    }
    // Plain is what is sent where nothing is asked for.
    if json.exactness == 3 && json.weight > 0 && json.rank() > plain.rank() {
        RangeFormat::JsonLines
    } else {
        RangeFormat::Plain
    }
}

/// An element of a list without its parameters, and its weight in thousandths.
fn weighted(element: &str) -> (&str, u16) {
    let mut parts = element.split(';').map(str::trim);
    let name = parts.next().unwrap_or("");
    let weight = parts
        .filter_map(|part| part.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .map_or(1000, |(_, weight)| milli_weight(weight.trim()));
    (name, weight)
}

/// Whether `Accept` asks for OpenMetrics by name; Prometheus' older text is
/// what everything else reads.
pub(crate) fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let mut open = Preference::default();
    let mut plain = Preference::default();
    for value in headers.get_all(ACCEPT) {
        let Ok(text) = value.to_str() else { continue };
        for element in text.split(',') {
            let (media, weight) = weighted(element);
            open.consider(media, "application/openmetrics-text", weight);
            plain.consider(media, "text/plain", weight);
        }
    }
    open.exactness == 3 && open.weight > 0 && open.rank() >= plain.rank()
}

/// How a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProfileFormat {
    /// A flame graph, as SVG.
    FlameGraph,
    /// Folded stacks, as text.
    Folded,
}

/// How `Accept` wants a profile. The flame graph is what is sent where nothing
/// is asked for; text has to be preferred to it.
pub(crate) fn profile_format(headers: &HeaderMap) -> ProfileFormat {
    let mut text = Preference::default();
    let mut svg = Preference::default();
    for value in headers.get_all(ACCEPT) {
        let Ok(list) = value.to_str() else { continue };
        for element in list.split(',') {
            let (media, weight) = weighted(element);
            text.consider(media, "text/plain", weight);
            svg.consider(media, "image/svg+xml", weight);
        }
    }
    if text.weight > 0 && text.rank() > svg.rank() {
        ProfileFormat::Folded
    } else {
        ProfileFormat::FlameGraph
    }
}

/// What a list says of one media type: the most exact element counts.
#[derive(Default)]
struct Preference {
    exactness: u8,
    weight: u16,
}

impl Preference {
    fn consider(&mut self, element: &str, media: &str, weight: u16) {
        let exactness = if element.eq_ignore_ascii_case(media) {
            3
        } else if is_range_of(element, media) {
            2
        } else if element == "*/*" {
            1
        } else {
            return;
        };
        if exactness > self.exactness {
            *self = Self { exactness, weight };
        }
    }

    fn rank(&self) -> (u16, u8) {
        (self.weight, self.exactness)
    }
}

/// Whether an element such as `text/*` stands for a media type such as `text/plain`.
fn is_range_of(element: &str, media: &str) -> bool {
    let group = media.split_once('/').map(|(group, _)| group);
    element
        .strip_suffix("/*")
        .zip(group)
        .is_some_and(|(named, group)| named.eq_ignore_ascii_case(group))
}

/// A weight from 0 to 1 with up to three decimals, in thousandths; what is no
/// weight counts as 0.
fn milli_weight(text: &str) -> u16 {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = decimals.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.len() > 3 || !digits {
        return 0;
    }
    let thousandths = format!("{decimals:0<3}").parse().unwrap_or(0);
    match whole {
        "0" => thousandths,
        "1" if thousandths == 0 => 1000,
        _ => 0,
    }
}

/// Whether the client asks for trailers.
pub(crate) fn wants_trailers(headers: &HeaderMap) -> bool {
    headers
        .get_all(TE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|element| {
            let (name, weight) = weighted(element);
            name.eq_ignore_ascii_case("trailers") && weight > 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

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
            assert_eq!(tag.is_named_by(&headers), named, "{value}");
        }
        assert!(!tag.is_named_by(&HeaderMap::new()));
        assert!(tag.is_named_by(&headers("if-none-match", &["\"a\"", "*"])));
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
            assert_eq!(tag.is_wanted_by(&headers), wanted, "{value}");
        }
        assert!(tag.is_wanted_by(&HeaderMap::new()));
        assert!(tag.is_wanted_by(&headers("if-match", &["\"a\"", "*"])));
    }

    #[test]
    fn json_lines_are_sent_to_those_who_prefer_them() {
        use RangeFormat::{JsonLines, Plain};
        for (accept, format) in [
            (&[][..], Plain),
            (&["*/*"], Plain),
            (&["application/*"], Plain),
            (&["application/x-ndjson"], JsonLines),
            (&["Application/X-NDJSON; charset=utf-8"], JsonLines),
            (&["application/x-ndjson, */*"], JsonLines),
            (&["*/*", "application/x-ndjson"], JsonLines),
            (&["application/x-ndjson;q=0"], Plain),
            (&["application/x-ndjson;q=0.000"], Plain),
            (&["application/x-ndjson;q=0.5, */*"], Plain),
            (&["application/x-ndjson;q=0.5, */*;q=0.4"], JsonLines),
            (
                &["application/octet-stream, application/x-ndjson;q=0.9"],
                Plain,
            ),
            (&["application/x-ndjson;q=nonsense"], Plain),
            (&["text/html"], Plain),
        ] {
            assert_eq!(
                range_format(&headers("accept", accept)),
                format,
                "{accept:?}"
            );
        }
    }

    #[test]
    fn trailers_are_sent_to_those_who_ask() {
        assert!(wants_trailers(&headers("te", &["trailers"])));
        assert!(wants_trailers(&headers("te", &["gzip, Trailers"])));
        assert!(wants_trailers(&headers("te", &["trailers;q=0.5"])));
        assert!(!wants_trailers(&headers("te", &["trailers; q=0"])));
        assert!(!wants_trailers(&headers("te", &["gzip"])));
        assert!(!wants_trailers(&HeaderMap::new()));
    }

    #[test]
    fn open_metrics_are_for_those_who_name_them() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=0.2,text/plain", false),
            ("text/plain", false),
            ("*/*", false),
        ] {
            assert_eq!(
                wants_open_metrics(&headers("accept", &[accept])),
                expected,
                "{accept}"
            );
        }
        assert!(!wants_open_metrics(&HeaderMap::new()));
    }
}
