//! `/v0/admin/set-aside`: the copies that the store of this node has set aside, because they may
//! have been deleted. `GET` lists them, `POST` writes one anew, `DELETE` discards them.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::keys::{bound_of, key_missing, key_of};
use crate::http::query::{ParameterError, QueryBytes, number_of, pairs, set, unknown};
use crate::http::request::verb::Verb;
use crate::http::response::{json_line, page};
use base::{Entry, Expiry, Timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cluster::{NodeId, Replicas};
use hyper::StatusCode;
use node::{Change, Expires, HeldByNode};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use tokens::RequestedKeys;

/// How many copies a page has unless the client asks for fewer or more.
const LIMIT_DEFAULT: u64 = 100;

/// The most copies of a page.
const LIMIT_MAX: u64 = 1000;

/// The most that the keys and values of a page take in memory, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// What a node has set aside: some of the copies, in the order of their keys.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct CopiesSetAside {
    /// The tables that hold copies.
    tables: u64,
    /// The bytes of these tables.
    bytes: u64,
    /// All copies are below this version; left out if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    below: Option<String>,
    copies: Vec<SetAsideCopy>,
    /// Where the next page begins; left out at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_base64: Option<String>,
}

/// A copy that was set aside, and that the store of the node has not got back.
#[derive(Serialize, JsonSchema)]
struct SetAsideCopy {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    version: String,
    /// When it expires; left out if it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    value_bytes: usize,
    /// For how many replicas it was written.
    copies: u8,
    /// Whether another node holds this version, or a newer one of its key: if none does, the copy is
    /// lost, or was deleted.
    #[schemars(extend("enum" = ["nowhere", "elsewhere", "unknown"]))]
    found: &'static str,
}

/// Whether another node holds a version, or a newer one of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// None does: it is lost, or was deleted.
    Nowhere,
    /// One does.
    Elsewhere,
    /// Some did not answer, and none of the others does.
    Unknown,
}

impl Found {
    fn word(self) -> &'static str {
        match self {
            Self::Nowhere => "nowhere",
            Self::Elsewhere => "elsewhere",
            Self::Unknown => "unknown",
        }
    }
}

/// A copy that was written anew.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct RestoredCopy {
    /// Its version from now on.
    version: String,
}

/// The parameters of all methods.
#[derive(Debug, Default)]
struct SetAsideParameters {
    id: Option<QueryBytes>,
    start: Option<QueryBytes>,
    limit: Option<u64>,
    up_to: Option<Timestamp>,
}

/// Reads the query of a method, which takes the parameters of these names.
///
/// # Errors
/// The first parameter that is not valid.
fn parameters(query: Option<&str>, names: &[&str]) -> Result<SetAsideParameters, ParameterError> {
    let mut read = SetAsideParameters::default();
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        if !names
            .iter()
            .any(|known| known.as_bytes() == name.as_slice())
        {
            return Err(unknown(&name));
        }
        match name.as_slice() {
            b"id" => set(&mut read.id, "id", key_of("id", value)?)?,
            b"start" => set(&mut read.start, "start", bound_of("start", value)?)?,
            b"limit" => set(&mut read.limit, "limit", limit_of(&value)?)?,
            _ => {
                let up_to = Timestamp::from_u64(number_of("up_to", &value)?);
                set(&mut read.up_to, "up_to", up_to)?;
            }
        }
    }
    Ok(read)
}

fn limit_of(value: &[u8]) -> Result<u64, ParameterError> {
    let limit = number_of("limit", value)?;
    if (1..=LIMIT_MAX).contains(&limit) {
        Ok(limit)
    } else {
        let detail = format_args!("is out of range: give 1 to {LIMIT_MAX}");
        Err(ParameterError::new("limit", detail))
    }
}

/// `GET`, `HEAD`, `POST` and `DELETE`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    match exchange.verb {
        Verb::Get | Verb::Head => {
            let parameters = parameters(exchange.query(), &["start", "limit"])?;
            exchange.authorize(RequestedKeys::NoKey)?;
            exchange.check_body_limit()?;
            list(&exchange, parameters).await
        }
        Verb::Post => {
            let parameters = parameters(exchange.query(), &["id"])?;
            let key = parameters.id.ok_or_else(key_missing)?;
            exchange.authorize(RequestedKeys::NoKey)?;
            exchange.check_body_limit()?;
            restore(&exchange, &key).await
        }
        Verb::Delete => {
            let parameters = parameters(exchange.query(), &["up_to"])?;
            let up_to = parameters.up_to.ok_or_else(|| {
                let detail = "is missing: give `below` of the list as up_to=VERSION";
                ParameterError::new("up_to", detail)
            })?;
            exchange.authorize(RequestedKeys::NoKey)?;
            exchange.check_body_limit()?;
            let node = exchange.listener.worker.node();
            let discarded = node.discard_set_aside(up_to).await;
            discarded.map_err(|error| Problem::of_set_aside(&error))?;
            Ok(page::json(&of_status(&exchange)))
        }
        // The table of resources does not let it through.
        Verb::Put => Err(Problem::method_not_allowed("GET, HEAD, POST, DELETE")),
    }
}

/// The page, without copies.
fn of_status(exchange: &HttpExchange<'_>) -> CopiesSetAside {
    let status = exchange.listener.worker.node().statistics().set_aside;
    CopiesSetAside {
        tables: status.tables,
        bytes: status.bytes,
        below: (status.tables > 0).then(|| status.below.to_string()),
        copies: Vec::new(),
        next: None,
        next_base64: None,
    }
}

async fn list(exchange: &HttpExchange<'_>, parameters: SetAsideParameters) -> Answer {
    let listener = exchange.listener;
    let deadline = exchange.deadline();
    let _permit = exchange.admit(deadline).await?;
    let start = parameters.start.map_or_else(Vec::new, |key| key.to_vec());
    let limit = parameters.limit.unwrap_or(LIMIT_DEFAULT) as usize;
    let node = listener.worker.node();
    let read = node.copies_set_aside(start, PAGE_BYTES_MAX).await;
    let read = read.map_err(|error| Problem::of_set_aside(&error))?;
    let mut answer = of_status(exchange);
    let mut next = read.next;
    for entry in read.copies {
        let is_late = listener.clock().monotonic() >= deadline && !answer.copies.is_empty();
        if is_late || answer.copies.len() >= limit {
            next = Some(bytes::Bytes::copy_from_slice(entry.key()));
            break;
        }
        if entry.expiry().has_passed(listener.clock().unix_ms()) {
            continue;
        }
        let found = found(exchange, &entry, deadline).await;
        answer.copies.push(SetAsideCopy::of(&entry, found));
    }
    (answer.next, answer.next_base64) = text_or_base64(next.as_deref());
    Ok(page::json(&answer))
}

/// Writes the copy of a key anew, unless another node holds it or something newer.
async fn restore(exchange: &HttpExchange<'_>, key: &[u8]) -> Answer {
    let listener = exchange.listener;
    let deadline = exchange.deadline();
    let _permit = exchange.admit(deadline).await?;
    let node = listener.worker.node();
    let read = node.copies_set_aside(key.to_vec(), 1).await;
    let read = read.map_err(|error| Problem::of_set_aside(&error))?;
    let copy = read.copies.into_iter().next();
    let copy = copy
        .filter(|copy| copy.key() == key && !copy.expiry().has_passed(listener.clock().unix_ms()));
    let copy = copy.ok_or_else(Problem::no_such_copy)?;
    match found(exchange, &copy, deadline).await {
        Found::Nowhere => {}
        Found::Elsewhere => return Err(Problem::no_such_copy()),
        Found::Unknown => return Err(Problem::copy_not_compared()),
    }
    let nodes = listener.worker.nodes();
    let from = copy.copies().clamp(1, nodes);
    let replicas = Replicas {
        ack: from / 2 + 1,
        from,
    };
    let change = Change::Put {
        value: copy.value_handle(),
        expires: match copy.expiry() {
            Expiry::NEVER => Expires::Never,
            expiry => Expires::AtUnixMs(expiry.unix_ms()),
        },
    };
    let coordinator = listener.worker.coordinator();
    let terms = exchange.terms(replicas, deadline);
    let written = coordinator.write(key, change, None, terms).await;
    let written = written.map_err(|failure| Problem::of_failure(failure, replicas))?;
    let mut page = page::json(&RestoredCopy {
        version: written.timestamp.to_string(),
    });
    *page.status_mut() = StatusCode::CREATED;
    Ok(page)
}

/// Asks the other nodes for the versions of a copy's key.
async fn found(exchange: &HttpExchange<'_>, copy: &Entry, deadline: Duration) -> Found {
    let listener = exchange.listener;
    let layout = listener.worker.layout();
    let members = layout.members();
    let coordinator = listener.worker.coordinator();
    let versions = coordinator.versions(copy.key(), members.count(), deadline);
    found_in(&versions.await.nodes, members.own(), copy.timestamp())
}

/// What the other nodes say of a version. Of its own store a node knows it already, and a learner
/// would not say it.
fn found_in(held: &[(NodeId, HeldByNode)], own: NodeId, timestamp: Timestamp) -> Found {
    let others = || held.iter().filter(|(node, _)| *node != own);
    let is_as_new = |held: &HeldByNode| match held {
        HeldByNode::Version(head) => head.timestamp >= timestamp,
        HeldByNode::Nothing | HeldByNode::Unknown(_) => false,
    };
    if others().any(|(_, held)| is_as_new(held)) {
        Found::Elsewhere
    } else if others().any(|(_, held)| matches!(held, HeldByNode::Unknown(_))) {
        Found::Unknown
    } else {
        Found::Nowhere
    }
}

impl SetAsideCopy {
    fn of(entry: &Entry, found: Found) -> Self {
        let (key, key_base64) = text_or_base64(Some(entry.key()));
        Self {
            key,
            key_base64,
            version: entry.timestamp().to_string(),
            expires: json_line::time_of(entry.expiry()),
            value_bytes: entry.value_bytes().len(),
            copies: entry.copies(),
            found: found.word(),
        }
    }
}

/// Bytes as text, or in base64 if they are none.
fn text_or_base64(bytes: Option<&[u8]>) -> (Option<String>, Option<String>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (None, None),
        Some((_, Ok(text))) => (Some(text.to_owned()), None),
        Some((bytes, Err(_))) => (None, Some(BASE64.encode(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Kind;
    use cluster::Miss;
    use node::VersionHead;

    #[test]
    fn only_what_no_other_node_has_is_nowhere() {
        let held = |timestamp, kind| {
            HeldByNode::Version(VersionHead {
                timestamp: Timestamp::from_u64(timestamp),
                kind,
                expiry: Expiry::NEVER,
                copies: 3,
                value_bytes: 1,
            })
        };
        let unknown = HeldByNode::Unknown(Miss::Learner);
        let (older, same) = (held(6, Kind::Value), held(7, Kind::Value));
        let deleted = held(8, Kind::Tombstone);
        for (of_own, others, expected) in [
            (unknown, [HeldByNode::Nothing, older], Found::Nowhere),
            (same, [HeldByNode::Nothing, older], Found::Nowhere),
            (unknown, [HeldByNode::Nothing, same], Found::Elsewhere),
            (unknown, [deleted, older], Found::Elsewhere),
            (unknown, [unknown, same], Found::Elsewhere),
            (HeldByNode::Nothing, [unknown, older], Found::Unknown),
        ] {
            let nodes = [others[0], of_own, others[1]];
            let held: Vec<_> = (0..).map(NodeId::new).zip(nodes).collect();
            let found = found_in(&held, NodeId::new(1), Timestamp::from_u64(7));
            assert_eq!(found, expected, "{nodes:?}");
        }
    }

    #[test]
    fn each_method_takes_its_own_parameters() {
        let read = |query, names: &[&str]| parameters(Some(query), names).map(|read| read.limit);
        assert_eq!(read("start=a&limit=7", &["start", "limit"]), Ok(Some(7)));
        for (query, names) in [
            ("limit=0", &["start", "limit"][..]),
            ("limit=1001", &["start", "limit"]),
            ("id=a", &["start", "limit"]),
            ("id=", &["id"]),
            ("up_to=x", &["up_to"]),
            ("up_to=1&up_to=1", &["up_to"]),
        ] {
            assert!(read(query, names).is_err(), "{query}");
        }
    }
}
