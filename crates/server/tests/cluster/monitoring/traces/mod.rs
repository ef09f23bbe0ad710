//! Sampled requests have spans at the collector; a collector that is away changes nothing.

mod collector;

use crate::support::{Cluster, until};
use collector::{Collector, Span, spans_of};
use std::collections::BTreeSet;
use std::net::TcpListener;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENTS_SPAN: &str = "00f067aa0ba902b7";

/// What a span says that a node is on either side of.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

/// More requests than wait for a collector.
const REQUESTS_MANY: usize = 2000;

fn traceparent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{CLIENTS_SPAN}-{flags}\r\n")
}

fn cluster_with(collector: &Collector, sample: f64) -> Cluster {
    Cluster::start_with(3, |config| {
        config.otlp_endpoint = Some(collector.url());
        config.trace_sample = sample;
    })
}

/// The spans of the request with this name, and of its replicas.
fn tree_of(spans: &[Span], name: &str) -> (Span, Vec<Span>) {
    let root = spans.iter().find(|span| span.name == name).unwrap();
    let children = spans.iter().filter(|span| span.parent == root.id);
    (root.clone(), children.cloned().collect())
}

#[test]
fn a_sampled_request_has_a_span_and_one_for_each_replica_that_it_asked() {
    let collector = Collector::start(Vec::new());
    let cluster = cluster_with(&collector, 0.0);
    let mut client = cluster.client(0);
    let target = "/v0/entity?id=k&replicas=3/3";
    // Neither has spans: the client of the one does not record it, and the other names no trace.
    for fields in [traceparent("00"), String::new()] {
        assert_eq!(client.request("PUT", target, &fields, b"a").status, 201);
    }
    for (method, status) in [("PUT", 201), ("GET", 200)] {
        let reply = client.request(method, target, &traceparent("01"), b"");
        assert_eq!(reply.status, status);
    }
    let spans = collector.spans_until(|span| span.name == "GET /v0/entity");
    for (method, status) in [("PUT", "201"), ("GET", "200")] {
        let (root, children) = tree_of(&spans, &format!("{method} /v0/entity"));
        assert_eq!((&*root.trace, &*root.parent), (TRACE, CLIENTS_SPAN));
        assert_eq!((root.kind, root.is_error), (SERVER, false));
        for (name, value) in [
            ("http.request.method", method),
            ("http.route", "/v0/entity"),
            ("http.response.status_code", status),
            ("kvorum.ack", "3"),
            ("kvorum.from", "3"),
        ] {
            assert_eq!(root.attributes[name], value, "{name}");
        }
        assert_eq!(root.node["service.name"], "kvorum");
        assert_eq!(root.node["service.instance.id"], "a");
        assert!(root.events.iter().any(|event| event == "admitted"));
        let nodes = children
            .iter()
            .map(|span| &*span.attributes["kvorum.replica"]);
        let nodes: BTreeSet<_> = nodes.collect();
        assert_eq!(nodes, BTreeSet::from(["a", "b", "c"]));
        for child in &children {
            assert_eq!((&*child.trace, child.kind), (TRACE, CLIENT));
            assert_eq!(child.attributes["kvorum.replica.answered"], "true");
            assert!(!child.is_error);
            assert!(root.began_ns <= child.began_ns);
            assert!(child.began_ns <= child.ended_ns && child.ended_ns <= root.ended_ns);
        }
    }
    assert_eq!(spans.len(), 8, "{spans:?}");
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.id).collect();
    assert_eq!(ids.len(), 8);
    until("the spans are counted", || {
        cluster.metric(0, "kvorum_trace_spans_exported_total") == 8.0
    });
}

#[test]
fn a_request_without_a_trace_is_sampled_as_often_as_is_said_and_a_failure_shows() {
    let collector = Collector::start(Vec::new());
    let mut cluster = cluster_with(&collector, 1.0);
    cluster.stop_node(2);
    let reply = cluster.client(0).put("/v0/entity?id=k&replicas=3/3", b"v");
    assert_ne!(reply.status, 201);
    let spans = collector.spans_until(|span| span.name == "PUT /v0/entity");
    let (root, children) = tree_of(&spans, "PUT /v0/entity");
    assert_eq!(root.parent, "");
    assert_ne!(root.trace, "0".repeat(32));
    assert!(root.is_error);
    // A node that is known to be down is not asked.
    let mut nodes = children
        .iter()
        .map(|span| &*span.attributes["kvorum.replica"]);
    assert!(nodes.all(|node| node != "c"), "{children:?}");
}

#[test]
fn a_collector_that_is_busy_gets_the_spans_later() {
    let collector = Collector::start(vec![(503, Vec::new()), (429, Vec::new())]);
    let cluster = cluster_with(&collector, 0.0);
    let mut client = cluster.client(0);
    let fields = traceparent("01");
    let reply = client.request("GET", "/v0/entity?id=none", &fields, b"");
    assert_eq!(reply.status, 404);
    let mut requests = (0..3).map(|_| spans_of(&collector.request()));
    let first = requests.next().unwrap();
    for again in requests {
        let ids = |spans: &[Span]| spans.iter().map(|span| span.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&again), ids(&first));
    }
    until("the spans are counted", || {
        let exported = cluster.metric(0, "kvorum_trace_spans_exported_total");
        exported == first.len() as f64
    });
}

#[test]
fn spans_that_a_collector_refuses_are_dropped_and_counted() {
    let collector = Collector::start(vec![(400, Vec::new())]);
    let cluster = cluster_with(&collector, 0.0);
    let fields = traceparent("01");
    let reply = cluster
        .client(0)
        .request("GET", "/v0/entity?id=none", &fields, b"");
    assert_eq!(reply.status, 404);
    let spans = spans_of(&collector.request()).len();
    until("the spans are counted", || {
        let name = "kvorum_trace_spans_dropped_total{reason=\"not_taken\"}";
        cluster.metric(0, name) == spans as f64
    });
}

#[test]
fn spans_that_a_collector_drops_from_a_batch_that_it_takes_are_counted() {
    // One span is rejected, and the reason is "old": field 1, with its fields 1 and 2.
    let partial_success = b"\x0a\x07\x08\x01\x12\x03old".to_vec();
    let collector = Collector::start(vec![(200, partial_success)]);
    let cluster = cluster_with(&collector, 0.0);
    let fields = traceparent("01");
    let reply = cluster
        .client(0)
        .request("GET", "/v0/entity?id=none", &fields, b"");
    assert_eq!(reply.status, 404);
    let spans = spans_of(&collector.request()).len();
    until("the spans are counted", || {
        let rejected = "kvorum_trace_spans_dropped_total{reason=\"rejected\"}";
        let exported = cluster.metric(0, "kvorum_trace_spans_exported_total");
        cluster.metric(0, rejected) == 1.0 && exported == (spans - 1) as f64
    });
}

#[test]
fn a_collector_that_is_silent_changes_nothing_for_clients() {
    // Connections wait, and nobody accepts them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = silent.local_addr().unwrap();
    let cluster = Cluster::start_with(3, |config| {
        config.otlp_endpoint = Some(url.into());
        config.trace_sample = 1.0;
    });
    let mut client = cluster.client(0);
    for number in 0..REQUESTS_MANY {
        let target = format!("/v0/entity?id=k{number}");
        assert_eq!(client.put(&target, b"v").status, 201);
    }
    assert_eq!(client.get("/v0/entity?id=k0").status, 200);
    let dropped = "kvorum_trace_spans_dropped_total{reason=\"queue_full\"}";
    assert!(cluster.metric(0, dropped) > 0.0);
    assert_eq!(cluster.metric(0, "kvorum_trace_spans_exported_total"), 0.0);
}
