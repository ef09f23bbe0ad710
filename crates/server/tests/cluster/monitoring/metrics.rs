//! What dashboards and alerts may expect of the page of metrics.

use crate::support::{Cluster, until};
use crate::wire::lines::{NDJSON, put, read_lines, statuses};
use lsm_testing::MemoryDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The lines of a page, read as Prometheus reads them.
struct Page {
    /// The type of each family.
    types: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    /// Each series as it stands in the page, with its value.
    series: BTreeMap<String, f64>,
}

impl Page {
    /// Reads a page, and fails on what Prometheus would refuse.
    fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'));
        let mut page = Self {
            types: BTreeMap::new(),
            helps: BTreeMap::new(),
            series: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").map(split) {
                let earlier = page.helps.insert(name.clone(), help);
                assert_eq!(earlier, None, "{name} is described twice");
            } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").map(split) {
                let earlier = page.types.insert(name.clone(), kind);
                assert_eq!(earlier, None, "{name} is described twice");
            } else {
                let (series, number) = line.rsplit_once(' ').unwrap();
                let earlier = page
                    .series
                    .insert(series.to_owned(), number.parse().unwrap());
                assert_eq!(earlier, None, "the page has {series} twice");
            }
        }
        page
    }

    /// The names of all series, without those of a histogram's parts.
    fn names(&self) -> BTreeSet<&str> {
        let names = self.series.keys().map(|series| name_of(series));
        names.map(|name| self.family_of(name)).collect()
    }

    /// The family of a series: a histogram has series with three other names.
    fn family_of<'a>(&self, name: &'a str) -> &'a str {
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part));
        let is_histogram = |base: &&str| {
            self.types
                .get(*base)
                .is_some_and(|kind| kind == "histogram")
        };
        base.filter(is_histogram).unwrap_or(name)
    }
}

fn split(line: &str) -> (String, String) {
    let (name, rest) = line.split_once(' ').unwrap();
    (name.to_owned(), rest.to_owned())
}

fn name_of(series: &str) -> &str {
    series.split('{').next().unwrap()
}

fn page_of(cluster: &Cluster) -> Page {
    Page::read(cluster.client(0).get("/metrics").text())
}

/// The names of metrics that a document writes as code.
fn names_in(document: &str) -> BTreeSet<&str> {
    let code = document.split('`').skip(1).step_by(2);
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    code.flat_map(|code| code.split(move |letter| !is_of_name(letter)))
        // Tokens begin with the prefix alone.
        .filter(|word| *word != "kvorum_")
        .filter(|word| word.starts_with("kvorum_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn every_series_that_the_documents_name_is_there_from_the_start() {
    let documents = concat!(
        include_str!("../../../../../docs/how-to/runbooks.md"),
        include_str!("../../../../../docs/reference/metrics.md"),
        include_str!("../../../../../docs/explanation/background-work.md"),
    );
    let named = names_in(documents);
    assert!(named.len() > 30, "{named:?}");
    let cluster = Cluster::start_with(3, |config| {
        let targets = &mut config.node.backup_targets;
        targets.insert("shared".to_owned(), "/backups".into());
    });
    let page = page_of(&cluster);
    let names = page.names();
    for name in named {
        let family = page.family_of(name);
        assert!(
            names.contains(family),
            "the documents name {name}, and the page does not have it"
        );
    }
}

#[test]
fn every_bound_stands_beside_what_it_bounds() {
    let cluster = Cluster::start(3);
    let page = page_of(&cluster);
    for (bounded, bound) in [
        ("kvorum_connections", "kvorum_connections_max"),
        ("kvorum_requests_in_flight", "kvorum_requests_in_flight_max"),
        ("kvorum_requests_queued", "kvorum_requests_queued_max"),
        ("kvorum_reads_queued", "kvorum_reads_queued_max"),
        ("kvorum_upload_bytes", "kvorum_upload_max_bytes"),
        ("kvorum_peer_request_bytes", "kvorum_peer_request_max_bytes"),
        ("kvorum_answer_bytes", "kvorum_answer_max_bytes"),
        ("kvorum_scan_bytes", "kvorum_scan_max_bytes"),
        ("kvorum_head_bytes", "kvorum_head_max_bytes"),
        ("kvorum_unsent_bytes", "kvorum_unsent_max_bytes"),
        ("kvorum_scans", "kvorum_scans_max"),
        ("kvorum_scans_queued", "kvorum_scans_queued_max"),
        ("kvorum_batch_streams", "kvorum_batch_streams_max"),
        (
            "kvorum_store_memtable_bytes",
            "kvorum_store_memtable_max_bytes",
        ),
        (
            "kvorum_store_memtables_frozen",
            "kvorum_store_memtables_frozen_max",
        ),
        ("kvorum_store_cache_bytes", "kvorum_store_cache_max_bytes"),
        ("process_open_fds", "process_max_fds"),
    ] {
        let (used, max) = (page.series[bounded], page.series[bound]);
        assert!(used <= max && max > 0.0, "{bounded}: {used} of {max}");
    }
    assert!(page.series["kvorum_hint_max_bytes"] > 0.0);
    assert!(page.series["kvorum_disk_free_bytes"] > 0.0);
}

/// What clients feel reaches the budget of background work, and what work does.
#[test]
fn the_budget_of_background_work_sees_clients_and_work() {
    let cluster = Cluster::start(3);
    let page = page_of(&cluster);
    for kind in ["repair", "hints", "compaction"] {
        for counter in ["work", "rest"] {
            let series = format!("kvorum_background_{counter}_seconds_total{{kind=\"{kind}\"}}");
            assert!(page.series.contains_key(&series), "{series}");
        }
    }
    let share = page.series["kvorum_background_share"];
    assert!(share > 0.0 && share <= 1.0, "{share}");
    let key = cluster.key_on(&[0]);
    let target = format!("/v0/entity?id={key}");
    until("the requests of clients are seen", || {
        for _ in 0..50 {
            cluster.client(0).get(&target);
        }
        let page = page_of(&cluster);
        let seen = [
            "kvorum_background_request_tail_seconds{value=\"now\"}",
            "kvorum_background_request_tail_seconds{value=\"normal\"}",
            "kvorum_background_runtimes_busy",
        ];
        seen.iter().all(|series| page.series[*series] > 0.0)
    });
    let json = "content-type: application/json\r\n";
    let target = "/v0/admin/repair?full=true&wait=true";
    let repaired = cluster.client(0).request("POST", target, json, b"");
    assert_eq!(repaired.status, 200, "{}", repaired.text());
    let worked = "kvorum_background_work_seconds_total{kind=\"repair\"}";
    assert!(page_of(&cluster).series[worked] > 0.0);
}

/// The rules of `promtool check metrics`, and some of our own.
#[test]
fn names_and_units_follow_the_conventions_of_prometheus() {
    let cluster = Cluster::start(3);
    let page = page_of(&cluster);
    let plain = |name: &str| {
        let allowed = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        name.chars().all(allowed) && !name.contains("__")
    };
    let described: BTreeSet<&str> = page.types.keys().map(String::as_str).collect();
    assert_eq!(
        described,
        page.names(),
        "described families and existing ones"
    );
    for (name, kind) in &page.types {
        assert!(plain(name), "{name}");
        assert!(
            name.starts_with("kvorum_") || name.starts_with("process_"),
            "{name}"
        );
        assert_eq!(
            kind == "counter",
            name.ends_with("_total"),
            "{name}: {kind}"
        );
        for unit in [
            "_ms", "_us", "_ns", "_millis", "_minutes", "_mb", "_kb", "_kib", "_percent",
        ] {
            let is_part = name.split(unit).skip(1);
            let ends = is_part.filter(|rest| rest.is_empty() || rest.starts_with('_'));
            assert_eq!(ends.count(), 0, "{name}: base units are seconds and bytes");
        }
        let unit = name.strip_suffix("_total").unwrap_or(name);
        for base in ["_bytes", "_seconds"] {
            assert!(
                !name.contains(base) || unit.ends_with(base),
                "{name}: the unit stands last"
            );
        }
        let help = &page.helps[name];
        assert!(help.len() > 8 && !help.ends_with('.'), "{name}: {help}");
    }
    for series in page.series.keys() {
        assert_eq!(
            series.contains("le=\""),
            name_of(series).ends_with("_bucket"),
            "{series}"
        );
    }
}

#[test]
fn requests_of_other_nodes_do_not_count_as_requests_of_clients() {
    let cluster = Cluster::start(3);
    let page = page_of(&cluster);
    let upgrades = "kvorum_peer_upgrades_total{status=\"101\"}";
    assert!(page.series[upgrades] >= 1.0);
    for (series, count) in &page.series {
        let is_of_peers = series.starts_with("kvorum_requests_total")
            && (series.contains("101") || series.contains("peer"));
        assert!(!is_of_peers, "{series} {count}");
    }
}

#[test]
fn a_peer_that_lost_its_disk_is_up_and_no_voter() {
    let mut cluster = Cluster::start(3);
    let replica_state =
        |word: &str| format!("kvorum_peer_replica_state{{peer=\"c\",state=\"{word}\"}}");
    let own = |word: &str| format!("kvorum_replica_state{{state=\"{word}\"}}");
    until("all nodes are voters", || {
        cluster.metric(0, &replica_state("voter")) == 1.0 && cluster.metric(2, &own("voter")) == 1.0
    });
    assert_eq!(cluster.metric(0, &replica_state("learner")), 0.0);
    cluster.stop_node(2);
    until("the replica state of the stopped node is unknown", || {
        cluster.metric(0, &replica_state("voter")) == 0.0
    });
    cluster.replace_disk(2, Arc::new(MemoryDisk::default()));
    cluster.start_node(2);
    until("the node reports that its store is a learner", || {
        cluster.metric(0, &replica_state("learner")) == 1.0
            && cluster.metric(0, "kvorum_peer_up{peer=\"c\"}") == 1.0
    });
    assert_eq!(cluster.metric(0, &replica_state("voter")), 0.0);
    until("the node's own metrics show it", || {
        cluster.metric(2, &own("learner")) == 1.0 && cluster.metric(2, &own("voter")) == 0.0
    });
}

#[test]
fn a_wrong_clock_shows_in_the_metrics_of_all_nodes() {
    let cluster = Cluster::start(3);
    until("the clocks are compared", || {
        cluster.metric(0, "kvorum_clock_proven") == 1.0
    });
    assert_eq!(cluster.metric(0, "kvorum_timestamps_refused"), 0.0);
    // Twice the bound.
    cluster.clock(0).set_ahead_seconds(2 * 3600);
    until("the metrics of both nodes show the wrong clock", || {
        cluster.metric(0, "kvorum_clock_behind_seconds") < -7_000.0
            && cluster.metric(1, "kvorum_peer_clock_ahead_seconds{peer=\"a\"}") > 7_000.0
    });
    assert_eq!(cluster.metric(0, "kvorum_clock_proven"), 0.0);
    assert_eq!(cluster.metric(0, "kvorum_timestamps_refused"), 1.0);
    assert_eq!(cluster.metric(1, "kvorum_timestamps_refused"), 0.0);
    assert_eq!(cluster.metric(1, "kvorum_clock_drift_max_seconds"), 3_600.0);
}

#[test]
fn the_bytes_between_nodes_are_counted_at_the_node_that_asks() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let target = format!("/v0/entity?id={}&replicas=2/2", cluster.key_on(&[1, 2]));
    let bytes = |node, peer: &str, direction: &str| peer_bytes(&cluster, node, peer, direction);
    assert_eq!(client.put(&target, &vec![b'v'; 50_000]).status, 201);
    assert_eq!(client.get(&target).body.len(), 50_000);
    for peer in ["b", "c"] {
        for direction in ["sent", "received"] {
            until("the value is counted", || {
                bytes(0, peer, direction) > 50_000.0
            });
        }
    }
    assert!(bytes(1, "a", "sent") < 50_000.0);
}

fn peer_bytes(cluster: &Cluster, node: usize, peer: &str, direction: &str) -> f64 {
    let series = format!("kvorum_peer_bytes_total{{peer=\"{peer}\",direction=\"{direction}\"}}");
    cluster.metric(node, &series)
}

/// A trace is a frame of its own, and ends the frame in which the writes of a batch travel.
#[test]
fn a_trace_makes_a_batch_no_dearer_for_peers() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let lines: String = (0..500).map(|key| put(&key.to_string(), "v")).collect();
    let mut calls = 0.0;
    let mut sent = |fields: &str| {
        let before = peer_bytes(&cluster, 0, "b", "sent");
        let fields = format!("{NDJSON}{fields}");
        let target = "/v0/batch?replicas=3/3";
        let reply = client.request("POST", target, &fields, lines.as_bytes());
        assert_eq!(statuses(&read_lines(&reply.body)), [201; 500]);
        calls += 500.0;
        until("the calls are counted", || {
            let answered = "kvorum_peer_calls_total{peer=\"b\",end=\"answered\"}";
            cluster.metric(0, answered) >= calls
        });
        peer_bytes(&cluster, 0, "b", "sent") - before
    };
    let without = sent("");
    let with = sent("traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n");
    // Heartbeats count as well.
    assert!(with < 1.5 * without, "{with} {without}");
}

#[test]
fn a_value_that_the_asking_node_holds_is_not_sent_to_it() {
    const READS: usize = 20;
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let target = "/v0/entity?id=k&replicas=3/3";
    assert_eq!(client.put(target, &vec![b'v'; 50_000]).status, 201);
    for _ in 0..READS {
        assert_eq!(client.get(target).body.len(), 50_000);
    }
    for peer in ["b", "c"] {
        let answered = format!("kvorum_peer_calls_total{{peer=\"{peer}\",end=\"answered\"}}");
        until("the calls are counted", || {
            cluster.metric(0, &answered) > READS as f64
        });
        assert!(peer_bytes(&cluster, 0, peer, "received") < 50_000.0);
    }
}
