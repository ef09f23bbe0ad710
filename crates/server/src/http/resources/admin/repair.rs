//! `/v0/admin/repair`: makes this node coordinate a repair session now.

use super::{CHECK_PERIOD, is_still_waiting};
use crate::http::exchange::{Answer, HttpExchange};
use crate::http::problem::Problem;
use crate::http::query::{ParameterError, pairs, set, switch_of, unknown};
use crate::http::response::page;
use crate::net::Listener;
use crate::net::channel::Channel;
use crate::status::held_back;
use api::status::HeldBackBy;
use cluster::comparison::RepairKind;
use hyper::StatusCode;
use node::SessionReport;
use schemars::JsonSchema;
use serde::Serialize;
use tokens::RequestedKeys;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The parameters of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RepairParameters {
    /// What to compare.
    kind: RepairKind,
    /// Whether to answer only after the repair has ended.
    wait: bool,
}

/// A repair session that was ordered.
#[derive(Serialize, JsonSchema)]
pub(in crate::http::resources) struct Repair {
    #[schemars(extend("enum" = ["incremental", "full"]))]
    kind: &'static str,
    /// Whether the session had begun before this request.
    joined: bool,
    #[schemars(extend("enum" = ["ordered", "running", "ended"]))]
    state: &'static str,
    /// How it ended; left out before that.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RepairReport")]
struct Report {
    /// Whether all nodes are equal.
    equal: bool,
    ranges: u64,
    ranges_differing: u64,
    pairs: u64,
    pairs_equal: u64,
    /// Why a full repair has not raised the GC threshold; left out unless it was to.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_back: Option<HeldBackBy>,
}

impl Report {
    fn of(report: SessionReport, listener: &Listener) -> Self {
        Self {
            equal: report.equal_pairs == report.pairs,
            ranges: report.ranges,
            ranges_differing: report.differing,
            pairs: report.pairs,
            pairs_equal: report.equal_pairs,
            held_back: if report.is_held_back {
                held_back(listener.shared(), &listener.worker.node().gc_status())
            } else {
                None
            },
        }
    }
}

/// Reads the query.
///
/// # Errors
/// The first parameter that is not valid.
fn parameters(query: Option<&str>) -> Result<RepairParameters, ParameterError> {
    let (mut full, mut wait) = (None, None);
    for parameter in pairs(query) {
        let (name, value) = parameter?;
        match name.as_slice() {
            b"full" => set(&mut full, "full", switch_of("full", &value)?)?,
            b"wait" => set(&mut wait, "wait", switch_of("wait", &value)?)?,
            _ => return Err(unknown(&name)),
        }
    }
    Ok(RepairParameters {
        kind: if full.unwrap_or(false) {
            RepairKind::Full
        } else {
            RepairKind::Incremental
        },
        wait: wait.unwrap_or(false),
    })
}

/// `POST`.
pub(in crate::http::resources) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let parameters = parameters(exchange.query())?;
    exchange.authorize(RequestedKeys::NoKey)?;
    exchange.check_body_limit()?;
    let node = exchange.listener.worker.node();
    let ordered = node
        .order_repair(parameters.kind)
        .ok_or_else(Problem::no_other_nodes)?;
    let report = if parameters.wait {
        wait(exchange.listener, exchange.channel, ordered.report).await
    } else {
        None
    };
    let (state, status) = match (&report, ordered.has_begun) {
        (Some(_), _) => ("ended", StatusCode::OK),
        (None, true) => ("running", StatusCode::ACCEPTED),
        (None, false) => ("ordered", StatusCode::ACCEPTED),
    };
    let mut page = page::json(&Repair {
        kind: ordered.kind.word(),
        joined: ordered.has_begun,
        state,
        report: report.map(|report| Report::of(report, exchange.listener)),
    });
    *page.status_mut() = status;
    Ok(page)
}

/// Waits for the end of the session. `None`: the client has left, or the node stops.
async fn wait(
    listener: &Listener,
    channel: &Channel,
    mut report: oneshot::Receiver<SessionReport>,
) -> Option<SessionReport> {
    while is_still_waiting(listener, channel).await {
        if let Ok(ended) = timeout(CHECK_PERIOD, &mut report).await {
            return ended.ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_switches() {
        for (query, kind, wait) in [
            (None, RepairKind::Incremental, false),
            (
                Some("full=false&wait=false"),
                RepairKind::Incremental,
                false,
            ),
            (Some("wait=true"), RepairKind::Incremental, true),
            (Some("full=true"), RepairKind::Full, false),
        ] {
            let expected = RepairParameters { kind, wait };
            assert_eq!(parameters(query), Ok(expected), "{query:?}");
        }
        for query in [
            "full=1",
            "full",
            "wait=yes",
            "full=true&full=true",
            "all=true",
        ] {
            assert!(parameters(Some(query)).is_err(), "{query}");
        }
    }
}
