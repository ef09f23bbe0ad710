//! `/v0/digest`: a count and a checksum of a range of this node's keys, so that anyone can see
//! whether replicas agree.
//!
//! It counts as a scan: it holds a scan's permit until it is answered, and a request's permit only
//! until it begins. The read pool computes it, a step at a time.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::keys::bound_of;
use crate::http::query::{ParameterError, QueryBytes, number_of, pairs, set, unknown};
use crate::http::request::verb::Verb;
use crate::http::response::body::ResponseBody;
use crate::http::response::page;
use crate::net::Listener;
use base::Timestamp;
use cluster::comparison::{Kept, KeptScope};
use cluster::{Members, NodeId};
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokens::RequestedKeys;

/// The parameters of `/v0/digest`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DigestParameters {
    /// The first key.
    start: QueryBytes,
    /// The key at which the range ends without it; `None`: after the last key.
    end: Option<QueryBytes>,
    /// Only the keys that this node and that one keep.
    peer: Option<NodeId>,
    /// Newer versions are left out.
    cut: Option<Timestamp>,
    /// What is dead below it is left out.
    gc_threshold: Option<Timestamp>,
}

/// What a node keeps in a range, summed up.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Digest")]
pub(super) struct DigestPage {
    /// The number of keys, deleted ones included.
    count: u64,
    /// The bytes of the keys and of the values that are alive.
    bytes: u64,
    /// 128 bits in hexadecimal digits.
    digest: String,
    /// Versions as strings, because many JSON readers round long numbers.
    cut: String,
    gc_threshold: String,
}

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid.
fn parameters(query: Option<&str>, members: &Members) -> Result<DigestParameters, ParameterError> {
    let (mut start, mut end, mut peer, mut cut, mut gc_threshold) = (None, None, None, None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"start" => set(&mut start, "start", bound_of("start", value)?)?,
            b"end" => set(&mut end, "end", bound_of("end", value)?)?,
            b"peer" => set(&mut peer, "peer", peer_of(&value, members)?)?,
            b"cut" => set(&mut cut, "cut", version_of("cut", &value)?)?,
            b"gc_threshold" => set(
                &mut gc_threshold,
                "gc_threshold",
                version_of("gc_threshold", &value)?,
            )?,
            _ => return Err(unknown(&name)),
        }
    }
    let start = start.ok_or_else(|| {
        ParameterError::new("start", "is missing: give the first key as start=KEY")
    })?;
    Ok(DigestParameters {
        start,
        end,
        peer,
        cut,
        gc_threshold,
    })
}

fn peer_of(name: &[u8], members: &Members) -> Result<NodeId, ParameterError> {
    let name = std::str::from_utf8(name).ok();
    let node = name.and_then(|name| members.id_of(name));
    let others = || {
        let names = members.peers().map(|peer| members.name(peer));
        match names.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "leave it out, because this node is alone".to_owned(),
            names => format!("give one of {names}"),
        }
    };
    match node {
        None => {
            let detail = format_args!("is not a node of the cluster: {}", others());
            Err(ParameterError::new("peer", detail))
        }
        Some(own) if own == members.own() => {
            let detail = format_args!("is this node itself: {}", others());
            Err(ParameterError::new("peer", detail))
        }
        Some(peer) => Ok(peer),
    }
}

fn version_of(name: &str, value: &[u8]) -> Result<Timestamp, ParameterError> {
    number_of(name, value).map(Timestamp::from_u64)
}

/// `GET` and `HEAD`; `HEAD` reads nothing.
pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let listener = exchange.listener;
    let layout = listener.worker.layout();
    let members = layout.members();
    let parameters = parameters(exchange.query(), members)?;
    exchange.authorize(RequestedKeys::Range(
        &parameters.start,
        parameters.end.as_deref(),
    ))?;
    exchange.check_body_limit()?;
    let _admitted = listener.admit_scan(exchange.deadline()).await?;
    let permit = exchange.admit(exchange.deadline()).await?;
    if exchange.verb == Verb::Head {
        let mut response = Response::new(ResponseBody::empty());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        return Ok(response);
    }
    // From now on it counts as a scan and holds no permit, because it may take long.
    drop(permit);
    let scope = KeptScope {
        layout: Arc::clone(&layout),
        both: parameters.peer.map(|peer| [members.own(), peer]),
        cut: parameters.cut.unwrap_or_else(|| greatest(listener)),
        gc_threshold: parameters.gc_threshold.unwrap_or_else(|| {
            // Each node drops what is dead below it at its own time.
            listener.worker.node().gc_status().greatest
        }),
    };
    let kept = sum_up(&exchange, &parameters, scope.clone()).await?;
    Ok(page::json(&DigestPage {
        count: kept.digest.items,
        bytes: kept.bytes,
        digest: format!("{:032x}", kept.digest.sum),
        cut: scope.cut.to_string(),
        gc_threshold: scope.gc_threshold.to_string(),
    }))
}

/// A timestamp that is below none that this node keeps, and not before the present.
fn greatest(listener: &Listener) -> Timestamp {
    let now = Timestamp::from_unix_ms(listener.clock().unix_ms());
    now.max(listener.worker.node().timestamp_status().greatest)
}

async fn sum_up(
    exchange: &HttpExchange<'_>,
    parameters: &DigestParameters,
    scope: KeptScope,
) -> Result<Kept, Problem> {
    let listener = exchange.listener;
    let (start, end) = (&parameters.start, parameters.end.as_deref());
    if end.is_some_and(|end| start.as_slice() >= end) {
        return Ok(Kept::default());
    }
    let coordinator = listener.worker.coordinator();
    let mut digest = coordinator.begin_digest(start, end, scope);
    loop {
        let deadline = listener
            .clock()
            .monotonic()
            .saturating_add(listener.stall_timeout());
        let (summed, is_complete) = coordinator.continue_digest(digest, deadline).await?;
        if is_complete {
            return Ok(summed.kept());
        }
        if listener.is_stopping() {
            return Err(Problem::overloaded());
        }
        if poll_fn(|cx| Poll::Ready(exchange.channel.has_client_left(cx))).await {
            return Err(Problem::client_left());
        }
        digest = summed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{Member, NodeUrl};

    fn members() -> Members {
        let node = |name: &str, port: u16| {
            let url: NodeUrl = format!("http://127.0.0.1:{port}").parse().unwrap();
            Member::named(name, url).unwrap()
        };
        let nodes = vec![node("a", 1), node("b", 2), node("c", 3)];
        let own = nodes[1].url().clone();
        Members::new(nodes, &own).unwrap()
    }

    #[test]
    fn parameters_are_read_or_refused() {
        let members = members();
        let parsed =
            parameters(Some("start=a&end=b&peer=c&cut=7&gc_threshold=5"), &members).unwrap();
        assert_eq!(parsed.start.as_slice(), b"a");
        assert_eq!(parsed.end.as_deref(), Some(&b"b"[..]));
        assert_eq!(parsed.peer, members.id_of("c"));
        assert_eq!(parsed.cut, Some(Timestamp::from_u64(7)));
        assert_eq!(parsed.gc_threshold, Some(Timestamp::from_u64(5)));
        for (query, name, part) in [
            ("", "start", "missing"),
            ("end=a", "start", "missing"),
            ("start=", "start", "empty"),
            ("start=a&end=", "end", "empty"),
            ("start=a&peer=", "peer", "give one of a, c"),
            ("start=a&peer=d", "peer", "give one of a, c"),
            ("start=a&peer=%FF", "peer", "not a node"),
            ("start=a&peer=b", "peer", "this node itself"),
            ("start=a&cut=", "cut", "whole number"),
            ("start=a&cut=-1", "cut", "whole number"),
            ("start=a&cut=18446744073709551616", "cut", "out of range"),
            ("start=a&gc_threshold=x", "gc_threshold", "whole number"),
            ("start=a&cut=1&cut=1", "cut", "more than once"),
            ("start=a&limit=1", "limit", "not a parameter"),
        ] {
            let error = parameters(Some(query), &members).unwrap_err();
            assert_eq!(error.parameter, name, "{query}");
            assert!(error.detail.contains(part), "{query}: {}", error.detail);
        }
    }
}
