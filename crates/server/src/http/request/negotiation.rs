//! Content negotiation: which format of an answer a request asks for, by `Accept` and
//! `TE`; and whether a page of another site can send a body, by `Content-Type`.

use hyper::HeaderMap;
use hyper::header::{ACCEPT, CONTENT_TYPE, TE};

/// The format of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanFormat {
    /// `<key>\n<value>`, one chunk an entity.
    Plain,
    /// JSON, one line an entity.
    JsonLines,
    /// As `JsonLines`, without the values.
    KeyLines,
}

/// The format that `Accept` asks for: JSON lines if it names them with a greater
/// weight than plain bytes, or with the same weight and more exactly.
pub(crate) fn scan_format(headers: &HeaderMap) -> ScanFormat {
    let [json, plain] = preferences(
        headers,
        ["application/x-ndjson", "application/octet-stream"],
    );
    // Plain is the default.
    if json.exactness == 3 && json.weight > 0 && json.rank() > plain.rank() {
        ScanFormat::JsonLines
    } else {
        ScanFormat::Plain
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

/// Whether `Accept` asks for OpenMetrics by name. The default is Prometheus' older
/// text format, which every client reads.
pub(crate) fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let [open, plain] = preferences(headers, ["application/openmetrics-text", "text/plain"]);
    open.exactness == 3 && open.weight > 0 && open.rank() >= plain.rank()
}

/// Whether `Accept` names HTML, as browsers do for what a person opens. That a client
/// takes anything is not enough.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    let [html] = preferences(headers, ["text/html"]);
    html.exactness == 3 && html.weight > 0
}

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProfileFormat {
    /// A flame graph, as SVG.
    FlameGraph,
    /// Folded stacks, as text.
    Folded,
}

/// The format that `Accept` asks for: text if it prefers that. The flame graph is the
/// default.
pub(crate) fn profile_format(headers: &HeaderMap) -> ProfileFormat {
    let [text, svg] = preferences(headers, ["text/plain", "image/svg+xml"]);
    if text.weight > 0 && text.rank() > svg.rank() {
        ProfileFormat::Folded
    } else {
        ProfileFormat::FlameGraph
    }
}

/// The types of the bodies of a `POST`.
const WITH_PREFLIGHT: [&str; 3] = [
    "application/json",
    "application/x-ndjson",
    "application/octet-stream",
];

/// Whether the body is said to be JSON, lines of JSON, or bytes, which generated clients send
/// unchanged. A browser does not send such a request for a page of another site before it has
/// asked the node.
pub(crate) fn needs_preflight(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| {
        let text = value.to_str().ok()?;
        text.split(';').next().map(str::trim)
    });
    media.is_some_and(|media| {
        WITH_PREFLIGHT
            .iter()
            .any(|known| known.eq_ignore_ascii_case(media))
    })
}

/// What `Accept` says of each of these media types.
fn preferences<const COUNT: usize>(
    headers: &HeaderMap,
    media: [&str; COUNT],
) -> [Preference; COUNT] {
    let mut preferences = std::array::from_fn(|_| Preference::default());
    for value in headers.get_all(ACCEPT) {
        let Ok(text) = value.to_str() else { continue };
        for element in text.split(',') {
            let (name, weight) = weighted(element);
            for (preference, media) in preferences.iter_mut().zip(media) {
                preference.consider(name, media, weight);
            }
        }
    }
    preferences
}

/// What `Accept` says of one media type. Its most exact element counts.
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

/// A weight from 0 to 1 with up to three decimals, in thousandths. Text that is
/// not a weight counts as 0.
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
    use crate::http::request::testing::headers;

    #[test]
    fn json_lines_are_for_clients_that_prefer_them() {
        use ScanFormat::{JsonLines, Plain};
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
                scan_format(&headers("accept", accept)),
                format,
                "{accept:?}"
            );
        }
    }

    #[test]
    fn trailers_are_for_clients_that_ask_for_them() {
        assert!(wants_trailers(&headers("te", &["trailers"])));
        assert!(wants_trailers(&headers("te", &["gzip, Trailers"])));
        assert!(wants_trailers(&headers("te", &["trailers;q=0.5"])));
        assert!(!wants_trailers(&headers("te", &["trailers; q=0"])));
        assert!(!wants_trailers(&headers("te", &["gzip"])));
        assert!(!wants_trailers(&HeaderMap::new()));
    }

    #[test]
    fn html_is_for_clients_that_name_it() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, expected) in [
            (&[browser][..], true),
            (&["Text/HTML; charset=utf-8"], true),
            (&["text/html;q=0.1"], true),
            (&["text/html;q=0"], false),
            (&["text/*"], false),
            (&["*/*"], false),
            (&["application/xhtml+xml"], false),
            (&[], false),
        ] {
            assert_eq!(
                names_html(&headers("accept", accept)),
                expected,
                "{accept:?}"
            );
        }
    }

    #[test]
    fn open_metrics_is_for_clients_that_name_it() {
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
