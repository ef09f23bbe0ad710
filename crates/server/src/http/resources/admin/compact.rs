//! `/v0/admin/compact`: compacts the whole store of this node now.

use super::{CHECK_PERIOD, is_still_waiting};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::{ParameterError, pairs, set, switch_of, unknown};
use crate::http::response::page;
use hyper::StatusCode;
use node::{CompactionEnd, OrderedCompaction, TableContents};
use schemars::JsonSchema;
use serde::Serialize;
use tokens::RequestedKeys;
use tokio::time::sleep;

/// A compaction of the whole store that was ordered.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct Compaction {
    /// Whether the compaction had begun before this request.
    joined: bool,
    #[schemars(extend("enum" = ["ordered", "running", "ended"]))]
    state: &'static str,
    /// What it has done; left out before its end.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CompactionReport")]
struct Report {
    before: Contents,
    after: Contents,
}

/// What the tables hold.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TableContents")]
struct Contents {
    table_bytes: u64,
    entries: u64,
    tombstones: u64,
}

impl From<TableContents> for Contents {
    fn from(tables: TableContents) -> Self {
        Self {
            table_bytes: tables.bytes,
            entries: tables.entries,
            tombstones: tables.tombstones,
        }
    }
}

/// Whether to answer only after the compaction has ended.
///
/// # Errors
/// The first parameter that is not valid.
fn waits(query: Option<&str>) -> Result<bool, ParameterError> {
    let mut wait = None;
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"wait" => set(&mut wait, "wait", switch_of("wait", &value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(wait.unwrap_or(false))
}

/// `POST`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let waits = waits(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let node = exchange.listener.worker.node();
    let ordered = node
        .order_compaction()
        .map_err(|error| Problem::of_compaction(&error))?;
    let end = if waits {
        wait(&exchange, &ordered).await
    } else {
        None
    };
    let report = match end {
        // A store that is closed belongs to a node that stops.
        None | Some(Err(lsm::Error::Closed)) => None,
        Some(Ok(after)) => Some(Report {
            before: ordered.before.into(),
            after: after.into(),
        }),
        Some(Err(error)) => return Err(Problem::of_compaction(&error)),
    };
    let (state, status) = match (&report, ordered.has_begun) {
        (Some(_), _) => ("ended", StatusCode::OK),
        (None, true) => ("running", StatusCode::ACCEPTED),
        (None, false) => ("ordered", StatusCode::ACCEPTED),
    };
    let mut page = page::json(&Compaction {
        joined: ordered.has_begun,
        state,
        report,
    });
    *page.status_mut() = status;
    Ok(page)
}

/// Waits for the end of a compaction. `None`: the client has left, or the node stops.
async fn wait(exchange: &HttpExchange<'_>, ordered: &OrderedCompaction) -> Option<CompactionEnd> {
    let node = exchange.listener.worker.node();
    while is_still_waiting(exchange.listener, exchange.channel).await {
        if let Some(end) = node.compaction_end(ordered) {
            return Some(end);
        }
        sleep(CHECK_PERIOD).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_a_switch() {
        for (query, expected) in [
            (None, false),
            (Some("wait=false"), false),
            (Some("wait=true"), true),
        ] {
            assert_eq!(waits(query), Ok(expected), "{query:?}");
        }
        for query in ["wait", "wait=1", "wait=true&wait=true", "full=true"] {
            assert!(waits(Some(query)).is_err(), "{query}");
        }
    }
}
