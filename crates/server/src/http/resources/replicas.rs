//! `/v0/replicas`: the replicas of a key, and with `versions=true` the version that each of them
//! holds.
//!
//! Without versions it is outside admission, because it needs no replica. With them it
//! counts as a read.

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::query::keys::{key_missing, key_of};
use crate::http::query::{ParameterError, QueryBytes, pairs, set, switch_of, unknown};
use crate::http::response::json_line;
use crate::http::response::page;
use base::Kind;
use cluster::{Fate, NodeId};
use node::{HeldByNode, KeyVersions};
use schemars::JsonSchema;
use serde::Serialize;
use tokens::RequestedKeys;

/// The replicas of a key.
#[derive(Serialize, JsonSchema)]
pub(super) struct KeyReplicas<'a> {
    /// The nodes in the order of the key's preference list; while the members change, those before
    /// the change, and then those that it adds.
    replicas: Vec<KeyReplica<'a>>,
}

/// A node in its place in a preference list. With `versions=true` also what it holds of the key:
/// neither `kind` nor `missed` says that it holds nothing.
#[derive(Serialize, JsonSchema)]
struct KeyReplica<'a> {
    name: &'a str,
    url: String,
    /// While the members change: its place in the preference list before the change, from 1; left out
    /// if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    place_before: Option<usize>,
    /// While the members change: its place after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    place_after: Option<usize>,
    #[serde(flatten)]
    held: Option<HeldVersion>,
}

/// What a node holds of a key.
#[derive(Default, Serialize, JsonSchema)]
struct HeldVersion {
    /// The version, a decimal number.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// `value` or `tombstone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// When the version expires, or has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// The length of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bytes: Option<usize>,
    /// For how many replicas the version was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<u8>,
    /// Whether the node is one of the replicas of the newest version and does not hold it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<bool>,
    /// Why it is not known what the node holds: a word of receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<&'static str>,
}

/// The parameters of `/v0/replicas`.
struct ReplicasParameters {
    key: QueryBytes,
    has_versions: bool,
}

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid.
fn parameters(query: Option<&str>) -> Result<ReplicasParameters, ParameterError> {
    let (mut key, mut versions) = (None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"id" => set(&mut key, "id", key_of("id", value)?)?,
            b"versions" => set(&mut versions, "versions", switch_of("versions", &value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(ReplicasParameters {
        key: key.ok_or_else(key_missing)?,
        has_versions: versions.unwrap_or(false),
    })
}

/// `GET` and `HEAD`.
pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let ReplicasParameters { key, has_versions } = parameters(exchange.query())?;
    exchange.authorize(RequestedKeys::Key(&key))?;
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let layout = listener.worker.layout();
    let members = layout.members();
    let versions = if has_versions {
        let deadline = exchange.deadline();
        let _permit = exchange.admit(deadline).await?;
        let coordinator = listener.worker.coordinator();
        Some(coordinator.versions(&key, members.count(), deadline).await)
    } else {
        None
    };
    let preference_list = layout.preference_list(&key, members.count());
    let both = layout.placements().before_and_after(&key, members.count());
    let place_in = |which: usize, node: NodeId| {
        let mut list = both.as_ref()?[which].iter();
        list.position(|listed| *listed == node)
            .map(|index| index + 1)
    };
    let now_unix_ms = listener.clock().unix_ms();
    let replicas = preference_list
        .iter()
        .enumerate()
        .map(|(place, node)| KeyReplica {
            name: members.name(*node),
            url: members
                .url(*node)
                .map(ToString::to_string)
                .unwrap_or_default(),
            place_before: place_in(0, *node),
            place_after: place_in(1, *node),
            held: versions
                .as_ref()
                .map(|versions| HeldVersion::of(versions, place, now_unix_ms)),
        });
    Ok(page::json(&KeyReplicas {
        replicas: replicas.collect(),
    }))
}

impl HeldVersion {
    /// What the node in a place of the preference list holds.
    fn of(versions: &KeyVersions, place: usize, now_unix_ms: u64) -> Self {
        let stale = versions.is_stale(place, now_unix_ms);
        let unknown = Self {
            stale,
            ..Self::default()
        };
        match versions.nodes.get(place) {
            Some((_, HeldByNode::Version(head))) => Self {
                version: Some(head.timestamp.to_string()),
                kind: Some(match head.kind {
                    Kind::Value => "value",
                    Kind::Tombstone => "tombstone",
                }),
                expires: json_line::time_of(head.expiry),
                value_bytes: (head.kind == Kind::Value).then_some(head.value_bytes),
                copies: Some(head.copies),
                ..unknown
            },
            Some((_, HeldByNode::Unknown(why))) => Self {
                missed: Some(Fate::Missed(*why).word()),
                ..unknown
            },
            Some((_, HeldByNode::Nothing)) | None => unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_needs_a_key_and_knows_one_switch() {
        let read = |query| parameters(Some(query)).map(|read| read.has_versions);
        assert_eq!(read("id=a"), Ok(false));
        assert_eq!(read("id=a&versions=true"), Ok(true));
        assert_eq!(read("versions=false&id=a"), Ok(false));
        for (query, name) in [
            ("", "id"),
            ("id=", "id"),
            ("id=a&id=a", "id"),
            ("id=a&versions=", "versions"),
            ("id=a&versions=1", "versions"),
            ("id=a&versions=true&versions=true", "versions"),
            ("id=a&ack=1", "ack"),
        ] {
            assert_eq!(read(query).unwrap_err().parameter, name, "{query}");
        }
    }
}
