//! `/v0/entities`: a scan of this node, or of the whole cluster; `/v0/aggregate`: what its entities
//! amount to.
//!
//! `parameters` reads the query, `scan_stream` sends the entities, `listing` groups them by a
//! delimiter, `count` only counts them, `filter` leaves out those that a condition does not match.
//! `aggregate` sums them up, as `question` reads it from the body. The right is checked again before
//! each batch, because a scan may outlive its token.

mod aggregate;
mod count;
mod filter;
mod listing;
mod parameters;
mod question;
mod scan_stream;

use crate::http::exchange::{Answer, HttpExchange};
use crate::http::lasting_caller::LastingCaller;
use crate::http::problem::Problem;
use crate::http::request::negotiation::{ScanFormat, scan_format, wants_trailers};
use crate::http::request::verb::Verb;
use crate::http::response::body::ResponseBody;
use crate::http::response::headers::SANDBOX;
use crate::net::Listener;
use crate::trust::Trust;
use base::{Refused, Reservation};
use cluster::Replicas;
use filter::Filter;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, TRAILER, VARY};
use hyper::{HeaderMap, Response, Version};
use listing::Listing;
use node::{ClusterScanPlan, KeyScan, ScanBatch, ScanWindow};
use parameters::{ScanParameters, Scope, Telling};
use scan_stream::{CutReason, NextBatch, ScanPlan, ScanStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokens::{Need, RequestedKeys};

#[cfg(test)]
pub(super) use aggregate::AggregatesPage;
pub(super) use aggregate::answer as answer_aggregate;
#[cfg(test)]
pub(super) use count::CountPage;

/// `GET` and `HEAD`. Reads the first batch before the answer begins, so that a store
/// that cannot be read is an error with a status.
pub(super) async fn answer(exchange: HttpExchange<'_>) -> Answer {
    let (parameters, condition) = parameters::read(exchange.query(), exchange.replica_rules())?;
    exchange.authorize(RequestedKeys::Range(
        &parameters.start,
        parameters.end.as_deref(),
    ))?;
    // Only who may read the entities has a condition compiled.
    let mut parameters = parameters.with_condition(condition)?;
    if exchange.head.version < Version::HTTP_11 {
        return Err(Problem::scan_needs_chunks());
    }
    exchange.check_body_limit()?;
    let listener = exchange.listener;
    let now_unix_ms = listener.clock().unix_ms();
    // Scans wait for one another before they have a permit, so they keep no request out.
    let admitted = listener.admit_scan(exchange.deadline()).await?;
    let source = source(listener, &parameters, exchange.deadline()).await?;
    let permit = exchange.admit(exchange.deadline()).await?;
    // The nodes have all of the time, however long the scan waited for its turn.
    let deadline = listener.deadline_after(listener.clock().monotonic());
    if parameters.telling == Telling::Count {
        // It counts as a scan, and has no permit, because it may take long.
        drop(permit);
        let counted = count::answer(&exchange, parameters, source, now_unix_ms, deadline).await;
        drop(admitted);
        return counted;
    }
    let headers = &exchange.head.headers;
    let plan = ScanPlan {
        format: match parameters.telling {
            Telling::Keys => ScanFormat::KeyLines,
            // Common prefixes have no form but that of lines.
            Telling::Values if parameters.delimiter.is_some() => ScanFormat::JsonLines,
            Telling::Values | Telling::Count => scan_format(headers),
        },
        limit: parameters.limit.unwrap_or(u64::MAX),
        now_unix_ms,
        trailers: wants_trailers(headers),
    };
    let mut response = Response::new(ResponseBody::empty());
    set_headers(response.headers_mut(), &plan);
    if exchange.verb == Verb::Head {
        return Ok(response);
    }
    let begun = begin(listener, &parameters, source, deadline);
    let condition = parameters.condition.take();
    let filter = condition.map(|condition| Rc::new(Filter::new(condition, now_unix_ms)));
    let first = match begun {
        Some(scan) => Some(first_batch(listener, scan, filter.as_deref(), deadline).await?),
        None => None,
    };
    // From now on the stream counts as a scan and holds no permit, because a slow
    // reader must not keep other requests out.
    drop(permit);
    let reader = Reader::new(&exchange, parameters);
    let delimiter = reader.parameters.delimiter.clone();
    let listing = delimiter.map(|(delimiter, prefix)| Listing::new(prefix, delimiter));
    let stream = stream(listener, plan, reader, filter, first, admitted);
    let stream = stream.grouped(listing);
    let stream = stream.gathered(exchange.channel.gather_scan());
    Ok(response.map(|_| ResponseBody::stream(Box::new(stream))))
}

/// Whose entities a scan tells, with the memory that it begins with. A scan of this node has
/// its own for each batch.
enum Source {
    Node,
    Cluster(Replicas, ScanWindow),
}

/// Waits for the memory that a scan begins with.
async fn source(
    listener: &Listener,
    parameters: &ScanParameters,
    deadline: Duration,
) -> Result<Source, Refused> {
    match parameters.scope {
        Scope::Node => Ok(Source::Node),
        Scope::Cluster(replicas) => {
            let coordinator = listener.worker.coordinator();
            let window = coordinator.scan_window(deadline).await?;
            Ok(Source::Cluster(replicas, window))
        }
    }
}

/// The scan that the parameters ask for, unless no key can lie in it.
fn begin(
    listener: &Listener,
    parameters: &ScanParameters,
    source: Source,
    deadline: Duration,
) -> Option<KeyScan> {
    let (start, end) = (&parameters.start, parameters.end.as_deref());
    if end.is_some_and(|end| start.as_slice() >= end) {
        return None;
    }
    let coordinator = listener.worker.coordinator();
    Some(match source {
        Source::Cluster(replicas, window) => {
            let plan = ClusterScanPlan {
                replicas,
                wants_values: parameters.needs_values,
                limit: parameters.read_max(),
            };
            coordinator.begin_cluster_scan(start, end, plan, window, deadline)
        }
        Source::Node => coordinator.begin_node_scan(start, end),
    })
}

async fn first_batch(
    listener: &Listener,
    scan: KeyScan,
    filter: Option<&Filter>,
    deadline: Duration,
) -> Result<ScanBatch, Problem> {
    let coordinator = listener.worker.coordinator();
    let mut batch = coordinator.next_batch(scan, deadline).await?;
    if let Some(filter) = filter {
        batch.entries = filter.select(batch.entries).await?;
    }
    Ok(batch)
}

fn set_headers(headers: &mut HeaderMap, plan: &ScanPlan) {
    let content_type = match plan.format {
        ScanFormat::Plain => "application/octet-stream",
        ScanFormat::JsonLines | ScanFormat::KeyLines => "application/x-ndjson",
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if plan.trailers {
        let trailers = HeaderValue::from_static("kvorum-count, kvorum-digest");
        headers.insert(TRAILER, trailers);
    }
}

/// Who reads a scan, which may take days.
struct Reader {
    caller: LastingCaller,
    parameters: ScanParameters,
}

impl Reader {
    /// Who asks for a scan with these parameters.
    fn new(exchange: &HttpExchange<'_>, parameters: ScanParameters) -> Self {
        Self {
            caller: LastingCaller::of(exchange),
            parameters,
        }
    }

    /// Checks that it may read on, by the tokens that are in force now.
    ///
    /// # Errors
    /// It may not.
    fn go_on(&mut self, trust: &Trust) -> Result<(), Problem> {
        let (start, end) = (&self.parameters.start, self.parameters.end.as_deref());
        let asked = RequestedKeys::Range(start, end);
        self.caller.authorize(trust, Need::Read, asked)
    }
}

fn stream(
    listener: &Rc<Listener>,
    plan: ScanPlan,
    mut reader: Reader,
    filter: Option<Rc<Filter>>,
    first: Option<ScanBatch>,
    admitted: Reservation,
) -> ScanStream {
    let log = Arc::clone(listener.worker.node().log());
    let listener = Rc::clone(listener);
    let ask = move |scan| -> NextBatch {
        if reader.go_on(listener.trust()).is_err() {
            return Box::pin(std::future::ready(Err(CutReason::NoRight)));
        }
        let now = listener.clock().monotonic();
        let deadline = now.saturating_add(listener.stall_timeout());
        let coordinator = Rc::clone(listener.worker.coordinator());
        let filter = filter.clone();
        Box::pin(async move {
            let batch = coordinator.next_batch(scan, deadline).await;
            let mut batch = batch.map_err(CutReason::Failed)?;
            if let Some(filter) = filter {
                let selected = filter.select(batch.entries).await;
                batch.entries = selected.map_err(CutReason::TooCostly)?;
            }
            Ok(batch)
        })
    };
    ScanStream::new(&log, plan, Box::new(ask), first, admitted)
}
