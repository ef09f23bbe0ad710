//! `/v0/status`, `/v0/ring` and `/metrics`: the node and its cluster, for people
//! and for Prometheus. All are outside admission, so that an overloaded node can still be looked at.

use crate::door::Door;
use crate::http::body::{RequestBody, ResponseBody};
use crate::http::check_body_limit;
use crate::http::conditional::wants_open_metrics;
use crate::http::parameters;
use crate::http::problem::Problem;
use crate::metrics_page;
use bytes::Bytes;
use cluster::Standing;
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue, VARY};
use hyper::http::request::Parts;
use serde::Serialize;

#[derive(Serialize)]
struct Status<'a> {
    name: &'a str,
    url: String,
    version: &'a str,
    uptime_seconds: u64,
    state: &'static str,
    /// How this node's store stands with its peers.
    standing: &'static str,
    cluster: Vec<Member<'a>>,
    clock: Clock,
    store: Store,
}

/// A node of the cluster, as this one sees it.
#[derive(Serialize)]
struct Member<'a> {
    name: &'a str,
    url: String,
    state: &'static str,
    /// How its store stands, as it says; left out while there is no connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<&'static str>,
    /// How far its clock is ahead of this node's, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_ahead_ms: Option<i64>,
    /// Writes that it missed and has yet to get from this node.
    hints: u64,
    hint_bytes: u64,
}

#[derive(Serialize)]
struct Ring<'a> {
    /// The nodes of the key, the first choice first.
    replicas: Vec<RingReplica<'a>>,
}

#[derive(Serialize)]
struct RingReplica<'a> {
    name: &'a str,
    url: String,
}

#[derive(Serialize)]
struct Clock {
    unix_ms: u64,
    /// The greatest timestamp given, in a string: JSON's numbers do not hold all of it.
    greatest_timestamp: String,
    /// How far the greatest timestamp that was given or seen is ahead of the clock.
    stamp_ahead_ms: u64,
    /// No timestamp above it was given here.
    ceiling: String,
    /// How far the other nodes' clocks are ahead: the median of those heard from.
    #[serde(skip_serializing_if = "Option::is_none")]
    others_ahead_ms: Option<i64>,
    /// Whether it is near the clocks of a majority of the other nodes.
    proven: bool,
    /// Why writes get no timestamp here, if they get none.
    #[serde(skip_serializing_if = "Option::is_none")]
    refuses_writes: Option<String>,
}

#[derive(Serialize)]
struct Store {
    id: String,
    state: &'static str,
    /// Versions, not keys, in tables and memtables.
    entries: u64,
    /// Of the versions in tables.
    tombstones: u64,
    /// Tables with a damaged block, which compaction leaves out.
    tables_damaged: u64,
    table_bytes: u64,
    memtable_bytes: u64,
    log_bytes: u64,
    cache_bytes: u64,
    /// Whether puts are refused for want of space.
    disk_full: bool,
    /// Why the store is read-only, if it is.
    poisoned: Option<String>,
    /// Not told before the first table was written: there is nothing to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space_amplification: Option<f64>,
}

/// `GET` and `HEAD` of the status.
pub(crate) fn status(
    door: &Door,
    head: &Parts,
    body: &RequestBody,
) -> Result<Response<ResponseBody>, Problem> {
    parameters::none(head.uri.query())?;
    check_body_limit(door, body)?;
    let node = door.worker.node();
    let config = door.shared().config();
    let statistics = node.statistics();
    let stamping = node.stamping_status();
    let state = if door.is_stopping() {
        "stopping"
    } else {
        "serving"
    };
    let status = Status {
        name: config.node.name(),
        url: config.node.url().to_string(),
        version: &config.version,
        uptime_seconds: node.uptime().as_secs(),
        state,
        standing: node.standing().word(),
        cluster: members(door),
        clock: Clock {
            unix_ms: door.clock().unix_ms(),
            greatest_timestamp: stamping.greatest.to_string(),
            stamp_ahead_ms: stamping.stamp_ahead_ms,
            ceiling: stamping.ceiling.to_string(),
            others_ahead_ms: stamping.peers_ahead_ms,
            proven: stamping.is_proven,
            refuses_writes: stamping.refusal.map(|why| why.to_string()),
        },
        store: Store {
            id: format!("{:032x}", node.store_id()),
            state: if statistics.poisoned.is_some() {
                "read-only since a failed sync"
            } else if statistics.disk_full {
                "disk full"
            } else {
                "open"
            },
            entries: statistics.table_entries + statistics.memtable_entries,
            tombstones: statistics.table_tombstones,
            tables_damaged: statistics.tables_damaged,
            table_bytes: statistics.levels.iter().map(|level| level.bytes).sum(),
            memtable_bytes: statistics.memtable_bytes,
            log_bytes: statistics.log_bytes,
            cache_bytes: statistics.cache_bytes,
            disk_full: statistics.disk_full,
            write_amplification: (statistics.flushes > 0).then(|| statistics.write_amplification()),
            space_amplification: statistics
                .levels
                .iter()
                .any(|level| level.bytes > 0)
                .then(|| statistics.space_amplification()),
            poisoned: statistics.poisoned,
        },
    };
    Ok(json_page(&status))
}

/// The nodes of the cluster, in the order of their names.
fn members(door: &Door) -> Vec<Member<'_>> {
    let own = door.worker.node();
    let members = &door.shared().config().node.members;
    members
        .numbers()
        .map(|node| {
            let link = door.worker.link_status(node);
            let waiting = own.hints_waiting(node);
            Member {
                name: members.name(node),
                url: members.url(node).to_string(),
                state: match &link {
                    None => "this node",
                    Some(link) => link.state.word(),
                },
                standing: match &link {
                    None => Some(own.standing()),
                    Some(link) => link.standing,
                }
                .map(Standing::word),
                clock_ahead_ms: link.and_then(|link| link.drift_ms),
                hints: waiting.hints,
                hint_bytes: waiting.bytes,
            }
        })
        .collect()
}

/// `GET` and `HEAD` of the replicas of a key.
pub(crate) fn ring(
    door: &Door,
    head: &Parts,
    body: &RequestBody,
) -> Result<Response<ResponseBody>, Problem> {
    let key = parameters::key_only(head.uri.query())?;
    check_body_limit(door, body)?;
    let members = &door.shared().config().node.members;
    let ranking = door.worker.ranking(&key, members.count());
    let replicas = ranking.iter().map(|node| RingReplica {
        name: members.name(*node),
        url: members.url(*node).to_string(),
    });
    let ring = Ring {
        replicas: replicas.collect(),
    };
    Ok(json_page(&ring))
}

/// `GET` and `HEAD` of the metrics.
pub(crate) fn metrics(
    door: &Door,
    head: &Parts,
    body: &RequestBody,
) -> Result<Response<ResponseBody>, Problem> {
    parameters::none(head.uri.query())?;
    check_body_limit(door, body)?;
    let open_metrics = metrics_page::open_metrics_text(metrics_page::families(door.shared()));
    let (content_type, text) = if wants_open_metrics(&head.headers) {
        (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            open_metrics,
        )
    } else {
        (
            "text/plain; version=0.0.4; charset=utf-8",
            metrics_page::prometheus_text(&open_metrics),
        )
    };
    let mut page = page(content_type, Bytes::from(text));
    page.headers_mut()
        .insert(VARY, HeaderValue::from_static("accept"));
    Ok(page)
}

/// A page of JSON; its line ends, so that a prompt does not stand behind it.
fn json_page(content: &impl Serialize) -> Response<ResponseBody> {
    // Strings and numbers always have a JSON form.
    let mut json = serde_json::to_vec(content).unwrap_or_default();
    json.push(b'\n');
    page("application/json", Bytes::from(json))
}

fn page(content_type: &'static str, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
