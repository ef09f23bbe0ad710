//! `/v0/ring`: the replicas of a key. Outside admission, because it needs no replica.

use crate::http::exchange::{Answer, Exchange};
use crate::http::page;
use crate::http::query::keys;
use schemars::JsonSchema;
use serde::Serialize;

/// The replicas of a key.
#[derive(Serialize, JsonSchema)]
pub(super) struct Ring<'a> {
    /// The nodes in the order of the key's ranking.
    replicas: Vec<RingReplica<'a>>,
}

/// A node in its place in a ranking.
#[derive(Serialize, JsonSchema)]
struct RingReplica<'a> {
    name: &'a str,
    url: String,
}

/// `GET` and `HEAD`.
pub(super) fn answer(exchange: &Exchange<'_>) -> Answer {
    let key = keys::key_only(exchange.query())?;
    exchange.check_body_limit()?;
    let door = exchange.door;
    let members = &door.shared().config().node.members;
    let ranking = door.worker.ranking(&key, members.count());
    let replicas = ranking.iter().map(|node| RingReplica {
        name: members.name(*node),
        url: members.url(*node).to_string(),
    });
    Ok(page::json(&Ring {
        replicas: replicas.collect(),
    }))
}
