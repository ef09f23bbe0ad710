//! Heads of requests: where they come from (see `door::web_pages`), what HTTP itself
//! asks of them (RFC 9110, RFC 9112), and how long they may be. All of it is
//! looked at before anything else, in one walk over the fields.

use crate::door::web_pages::{OwnHosts, Provenance};
use crate::http::problem::Problem;
use hyper::header::{HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version};

/// The longest target, in bytes: two of the longest keys with every byte
/// escaped (2 x 12 KiB), and room for names and other parameters.
const TARGET_BYTES_MAX: usize = 28 << 10;

/// The longest header, names and values of all fields together, in bytes.
const FIELD_BYTES_MAX: usize = 32 << 10;

/// What browsers say of how near to the node a page is that asks.
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks a head, and gives its length in bytes, more or less; `is_chunked`
/// says that the length of its body is not given.
///
/// # Errors
/// What to answer instead of looking any further.
pub(crate) fn check(
    head: &Parts,
    own_hosts: &OwnHosts,
    is_chunked: bool,
) -> Result<usize, Problem> {
    let mut from = Provenance::default();
    let (mut hosts, mut field_bytes) = (0, 0);
    for (name, value) in &head.headers {
        field_bytes += name.as_str().len() + value.len();
        if name == HOST {
            hosts += 1;
            from.host = Some(value);
        } else if name == ORIGIN {
            from.origin = Some(value);
        } else if *name == SEC_FETCH_SITE {
            from.fetch_site = Some(value);
        }
    }
    if hosts > 1 || (hosts == 0 && head.version >= Version::HTTP_11) {
        return Err(Problem::bad_host());
    }
    own_hosts.check(&head.uri, from)?;
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
    Ok(target_bytes + field_bytes)
}

/// A body may be in chunks, and nothing else: what another coding made of the
/// value must not be stored as the value.
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
    fn a_body_is_in_chunks_and_in_nothing_else() {
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
    fn heads_have_their_greatest_length() {
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
