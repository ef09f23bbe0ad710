//! Traces: OpenTelemetry spans of requests, for the collector that `--otlp-endpoint` names.
//!
//! A request is *sampled* if the field `traceparent` of its client says so, or, without that
//! field, with the probability of `--trace-sample`. It gets a span, and each question to a
//! replica a child of it. Both are made once the request is answered, from the times that
//! `logs::slow_requests` also uses. So a request that is not sampled costs a branch, and a random
//! number if it has no such field and the probability is above 0.
//!
//! `otlp` has the messages of the protocol, and `export` sends them.
//!
//! All spans are those of the node that the client has asked. Peers know the trace of a request,
//! for their logs, but not the span that asks them.

mod export;
mod otlp;

use crate::config::ServerConfig;
use crate::logs::slow_requests::Timeline;
use base::{Clock, Random, SeededRandom, TraceId};
use cluster::{Layout, Members};
pub(crate) use export::ExportCounts;
use export::{Exporter, Work};
use node::AskedReplica;
use otlp::{KeyValue, Span, SpanKind, Status};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// How many replicas of a request have a span.
const REPLICAS_MAX: usize = 64;

/// What the field `traceparent` of a request says (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    /// The trace.
    pub(crate) trace: TraceId,
    /// The client's span.
    pub(crate) span: NonZeroU64,
    /// Whether the client records the trace.
    pub(crate) is_sampled: bool,
}

/// A sampled request: the IDs of its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledRequest {
    /// The trace.
    pub(crate) trace: TraceId,
    span: u64,
    parent: Option<NonZeroU64>,
}

/// A sampled request that was answered.
pub(crate) struct TracedAnswer<'a> {
    pub(crate) request: SampledRequest,
    pub(crate) method: &'a str,
    /// The path of its resource.
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    /// When its head was complete, and when its answer began, on the monotonic clock.
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

/// Makes the spans of sampled requests.
pub(crate) struct Traces {
    exporter: Exporter,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// Decides on requests without `traceparent`: a system call for each would cost too much.
    sampling: SeededRandom,
    /// Numbers below this are sampled.
    sampled_below: u64,
}

impl Traces {
    /// Starts to export, if the configuration names a collector.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(
        config: &ServerConfig,
        clock: &Arc<dyn Clock>,
        random: &Arc<dyn Random>,
    ) -> io::Result<Option<Self>> {
        let Some(collector) = config.otlp_endpoint.clone() else {
            return Ok(None);
        };
        let resource = vec![
            KeyValue::text("service.name", "kvorum"),
            KeyValue::text("service.instance.id", config.node.members.own_name()),
            KeyValue::text("service.version", &config.version),
        ];
        let work = Work::new(collector, resource, Arc::clone(clock), Arc::clone(random));
        Ok(Some(Self {
            exporter: Exporter::start(work)?,
            clock: Arc::clone(clock),
            sampling: SeededRandom::new(random.next_u64()),
            random: Arc::clone(random),
            // 1.0 becomes the greatest number: all but one of 2^64 are below it.
            sampled_below: (config.trace_sample * u64::MAX as f64) as u64,
        }))
    }

    /// Whether a request is sampled, and the IDs of its span if so.
    pub(crate) fn sample(&self, parent: Option<TraceParent>) -> Option<SampledRequest> {
        let is_sampled = match parent {
            Some(parent) => parent.is_sampled,
            None => self.sampled_below > 0 && self.sampling.next_u64() < self.sampled_below,
        };
        if !is_sampled {
            return None;
        }
        Some(SampledRequest {
            trace: parent.map_or_else(|| self.new_trace(), |parent| parent.trace),
            span: self.new_span(),
            parent: parent.map(|parent| parent.span),
        })
    }

    /// What became of the spans.
    pub(crate) fn counts(&self) -> &ExportCounts {
        self.exporter.counts()
    }

    /// Leaves the spans of a request to the exporter, and never waits. `layout` has the names of
    /// the replicas.
    pub(crate) fn end(
        &self,
        answer: &TracedAnswer<'_>,
        timeline: &Timeline,
        layout: impl FnOnce() -> Arc<Layout>,
    ) {
        let times = UnixTimes::of(&*self.clock);
        let mut spans = vec![request_span(answer, timeline, times)];
        let replicas = timeline.replicas.replicas();
        if !replicas.is_empty() {
            let layout = layout();
            let kept = replicas.iter().take(REPLICAS_MAX);
            spans.extend(kept.map(|replica| {
                let span = self.new_span();
                replica_span(answer, span, replica, layout.members(), times)
            }));
        }
        self.exporter.push(spans);
    }

    fn new_trace(&self) -> TraceId {
        let [high, low] = [self.new_span(), self.new_span()];
        let number = u128::from(high) << 64 | u128::from(low);
        // No part is 0.
        TraceId::of(number.to_be_bytes()).unwrap_or_else(|| self.new_trace())
    }

    /// A number that is not 0.
    fn new_span(&self) -> u64 {
        self.random.next_u64().max(1)
    }
}

/// Turns times of the monotonic clock into those that spans have. The spans of a request are as far
/// apart as they were, even if the wall clock was set meanwhile.
#[derive(Clone, Copy)]
struct UnixTimes {
    now: Duration,
    now_unix_ns: u64,
}

impl UnixTimes {
    fn of(clock: &dyn Clock) -> Self {
        Self {
            now: clock.monotonic(),
            now_unix_ns: clock.unix_ns(),
        }
    }

    fn unix_ns(self, at: Duration) -> u64 {
        let ago = self.now.saturating_sub(at).as_nanos();
        let ago = u64::try_from(ago).unwrap_or(u64::MAX);
        self.now_unix_ns.saturating_sub(ago)
    }
}

/// The methods that spans name. Any other one may be as long as a head, and is not kept.
const METHODS: [&str; 9] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];

/// What a span says of a method, and what its name begins with, as the conventions of OpenTelemetry
/// have it.
fn method_of(method: &str) -> (&str, &str) {
    if METHODS.contains(&method) {
        (method, method)
    } else {
        ("_OTHER", "HTTP")
    }
}

/// The span of a request.
fn request_span(answer: &TracedAnswer<'_>, timeline: &Timeline, times: UnixTimes) -> Span {
    let request = answer.request;
    let (method, name) = method_of(answer.method);
    let mut attributes = vec![
        KeyValue::text("http.request.method", method),
        KeyValue::text("http.route", answer.route),
        KeyValue::number("http.response.status_code", answer.status.into()),
    ];
    if let Some(replicas) = timeline.asks_replicas() {
        attributes.push(KeyValue::number("kvorum.ack", replicas.ack.into()));
        attributes.push(KeyValue::number("kvorum.from", replicas.from.into()));
    }
    let steps = [
        ("body received", timeline.body()),
        ("admitted", timeline.admission()),
    ];
    let event =
        |(name, at): (&str, Option<Duration>)| Some(otlp::Event::new(name, times.unix_ns(at?)));
    Span {
        trace_id: request.trace.bytes().to_vec(),
        span_id: request.span.to_be_bytes().to_vec(),
        parent_span_id: request
            .parent
            .map_or_else(Vec::new, |parent| parent.get().to_be_bytes().to_vec()),
        name: format!("{name} {}", answer.route),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: times.unix_ns(answer.began),
        end_time_unix_nano: times.unix_ns(answer.ended),
        attributes,
        events: steps.into_iter().filter_map(event).collect(),
        status: (answer.status >= 500).then(Status::error),
    }
}

/// The span of a question to a replica. Without an answer it ends with the request.
fn replica_span(
    answer: &TracedAnswer<'_>,
    span: u64,
    replica: &AskedReplica,
    members: &Members,
    times: UnixTimes,
) -> Span {
    let ended = replica.answered.unwrap_or(answer.ended);
    Span {
        trace_id: answer.request.trace.bytes().to_vec(),
        span_id: span.to_be_bytes().to_vec(),
        parent_span_id: answer.request.span.to_be_bytes().to_vec(),
        name: "replica".to_owned(),
        kind: SpanKind::Client.into(),
        start_time_unix_nano: times.unix_ns(replica.asked),
        end_time_unix_nano: times.unix_ns(ended),
        attributes: vec![
            KeyValue::text("kvorum.replica", members.name(replica.node)),
            KeyValue::truth("kvorum.replica.answered", replica.answered.is_some()),
        ],
        events: Vec::new(),
        status: replica.is_failed.then(Status::error),
    }
}

#[cfg(test)]
mod tests;
