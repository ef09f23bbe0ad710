//! Checks heads of requests: their origin (see `trust::web_pages`), the demands of HTTP itself (RFC
//! 9110, RFC 9112), and their length. These checks come before all others, and read each field
//! once.

use crate::http::problem::Problem;
use crate::http::request::trace_context::trace_of;
use crate::traces::TraceParent;
use crate::trust::web_pages::{Foreign, OwnHosts, Provenance};
use hyper::header::{HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Version};

/// The longest target, in bytes: two of the longest keys with every byte
/// escaped (2 x 12 KiB), and room for names and other parameters.
pub(crate) const TARGET_BYTES_MAX: usize = 28 << 10;

/// The longest header, names and values of all fields together, in bytes.
pub(crate) const FIELD_BYTES_MAX: usize = 32 << 10;

/// The field in which browsers say how the page that sends a request relates to the
/// node's origin.
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The field that names the trace of a request.
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A head that was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedHead {
    /// Its approximate length in bytes.
    pub(crate) bytes: usize,
    /// The trace that the client says the request is part of.
    pub(crate) trace: Option<TraceParent>,
}

/// Checks a head. `is_chunked`: the length of the body is not announced.
///
/// # Errors
/// The problem to answer.
pub(crate) fn check(
    head: &Parts,
    own_hosts: &OwnHosts,
    is_chunked: bool,
) -> Result<CheckedHead, Problem> {
    let mut from = Provenance::default();
    let (mut hosts, mut field_bytes) = (0, 0);
    let (mut trace, mut traces) = (None, 0);
    for (name, value) in &head.headers {
        field_bytes += name.as_str().len() + value.len();
        if name == HOST {
            hosts += 1;
            from.host = Some(value);
        } else if name == ORIGIN {
            from.origin = Some(value);
        } else if *name == SEC_FETCH_SITE {
            from.fetch_site = Some(value);
        } else if *name == TRACEPARENT {
            traces += 1;
            trace = trace_of(value.as_bytes());
        }
    }
    if hosts > 1 || (hosts == 0 && head.version >= Version::HTTP_11) {
        return Err(Problem::bad_host());
    }
    match own_hosts.check(&head.uri, from) {
        Err(Foreign::Origin) if opens_console(head, from) => {}
        checked => checked?,
    }
    let target = head.uri.path_and_query();
    let target_bytes = target.map_or(0, |target| target.as_str().len());
    if target_bytes > TARGET_BYTES_MAX {
        return Err(Problem::target_too_long(TARGET_BYTES_MAX));
    }
    if field_bytes > FIELD_BYTES_MAX {
        return Err(Problem::fields_too_long(FIELD_BYTES_MAX));
    }
    if is_chunked {
        check_transfer_coding(&head.headers)?;
    }
    Ok(CheckedHead {
        bytes: target_bytes + field_bytes,
        trace: trace.filter(|_| traces == 1),
    })
}

/// Whether a browser follows a link of another page to the console. The page that has the
/// link learns nothing of the answer, and the answer is the same for everyone.
fn opens_console(head: &Parts, from: Provenance<'_>) -> bool {
    let says = |name: &str, word: &str| {
        let value = head.headers.get(name);
        value.is_some_and(|value| value.as_bytes() == word.as_bytes())
    };
    head.method == Method::GET
        && head.uri.path() == "/"
        && from.origin.is_none()
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document")
}

/// Checks that a body has no transfer coding but chunked: the node must not store the
/// output of another coding as the value.
fn check_transfer_coding(headers: &HeaderMap) -> Result<(), Problem> {
    let mut chunked = 0;
    let mut others = 0;
    for value in headers.get_all(TRANSFER_ENCODING) {
        for coding in value.as_bytes().split(|byte| *byte == b',') {
            match coding.trim_ascii() {
                coding if coding.eq_ignore_ascii_case(b"chunked") => chunked += 1,
                b"" => {}
                _ => others += 1,
            }
        }
    }
    match (chunked, others) {
        (1, 0) => Ok(()),
        (1, _) => Err(Problem::unknown_transfer_coding()),
        _ => Err(Problem::bad_transfer_coding()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerConfig;
    use cluster::NodeUrl;
    use hyper::Request;

    fn status_of(version: Version, target: &str, fields: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().version(version).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let is_chunked = head.headers.contains_key(TRANSFER_ENCODING);
        let url: NodeUrl = "http://a:80".parse().unwrap();
        let own_hosts = OwnHosts::new(&ServerConfig::new(url, "store"));
        match check(&head, &own_hosts, is_chunked) {
            Ok(_) => 200,
            Err(problem) => problem.into_response().status().as_u16(),
        }
    }

    #[test]
    fn a_head_has_one_host() {
        for (version, hosts, status) in [
            (Version::HTTP_11, &["a"][..], 200),
            (Version::HTTP_11, &[""], 421),
            (Version::HTTP_11, &["b"], 421),
            (Version::HTTP_10, &["b"], 421),
            (Version::HTTP_11, &[], 400),
            (Version::HTTP_11, &["a", "a"], 400),
            (Version::HTTP_10, &[], 200),
            (Version::HTTP_10, &["a"], 200),
            (Version::HTTP_10, &["a", "b"], 400),
        ] {
            let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            assert_eq!(
                status_of(version, "/", &fields),
                status,
                "{version:?} {hosts:?}"
            );
        }
    }

    #[test]
    fn a_link_of_another_page_may_open_the_console_and_nothing_else() {
        let link = [
            ("host", "a"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        let without = |name: &str| -> Vec<(&str, &str)> {
            link.into_iter().filter(|field| field.0 != name).collect()
        };
        let with = |name: &'static str, value: &'static str| {
            let mut fields = without(name);
            fields.push((name, value));
            fields
        };
        for (target, fields, status) in [
            ("/", link.to_vec(), 200),
            ("/", with("sec-fetch-site", "same-site"), 200),
            ("/console/console.js", link.to_vec(), 403),
            ("/v0/status", link.to_vec(), 403),
            ("/", without("sec-fetch-mode"), 403),
            ("/", without("sec-fetch-dest"), 403),
            ("/", with("sec-fetch-mode", "no-cors"), 403),
            ("/", with("sec-fetch-dest", "iframe"), 403),
            ("/", with("origin", "http://evil.example"), 403),
            ("/", with("host", "evil.example"), 421),
        ] {
            assert_eq!(
                status_of(Version::HTTP_11, target, &fields),
                status,
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_body_has_no_transfer_coding_but_chunked() {
        for (codings, status) in [
            (&["chunked"][..], 200),
            (&["Chunked"], 200),
            (&[" chunked ,"], 200),
            (&["gzip, chunked"], 501),
            (&["gzip", "chunked"], 501),
            (&["chunked, chunked"], 400),
            (&["chunked", "chunked"], 400),
            (&["gzip, chunked, chunked"], 400),
            (&["chunked;a=b"], 400),
        ] {
            let mut fields = vec![("host", "a")];
            fields.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
            assert_eq!(
                status_of(Version::HTTP_11, "/", &fields),
                status,
                "{codings:?}"
            );
        }
    }

    #[test]
    fn the_length_of_heads_is_bounded() {
        let long = |bytes: usize| "a".repeat(bytes);
        let target = |bytes: usize| format!("/{}", long(bytes - 1));
        let status = |target: &str, field: &str| {
            status_of(Version::HTTP_11, target, &[("host", "a"), ("field", field)])
        };
        assert_eq!(status(&target(TARGET_BYTES_MAX), ""), 200);
        assert_eq!(status(&target(TARGET_BYTES_MAX + 1), ""), 414);
        let rest = FIELD_BYTES_MAX - "hostafield".len();
        assert_eq!(status("/", &long(rest)), 200);
        assert_eq!(status("/", &long(rest + 1)), 431);
    }
}
