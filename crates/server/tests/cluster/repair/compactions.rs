//! Compactions as an operator asks for them: what is dead below the GC threshold goes.

use crate::repair::equal_stores::target;
use crate::repair::tombstone_gc::{gc_threshold_at, repair_fully, with_tombstone_gc};
use crate::support::{Cluster, until};
use crate::wire::Reply;

const JSON: &str = "content-type: application/json\r\n";

fn compact(cluster: &Cluster, node: usize, query: &str) -> Reply {
    let target = format!("/v0/admin/compact{query}");
    cluster.client(node).request("POST", &target, JSON, b"")
}

#[test]
fn tombstones_go_with_a_compaction_once_the_gc_threshold_has_passed_them() {
    let cluster = Cluster::start_with(3, |config| {
        with_tombstone_gc(config);
        config.node.compaction = false;
    });
    let mut client = cluster.client(0);
    for number in 0..20 {
        let target = target(&format!("k{number:02}"), "3/3");
        assert_eq!(client.put(&target, b"v").status, 201);
        if number % 2 == 0 {
            assert_eq!(client.delete(&target).status, 202);
        }
    }
    let deleted_unix_ms = cluster.status(0)["clock"]["unix_ms"].as_u64();
    for node in 0..3 {
        let early = compact(&cluster, node, "?wait=true");
        assert_eq!(early.status, 200, "{}", early.text());
        let early = early.json();
        assert_eq!(early["state"], "ended");
        assert_eq!(early["joined"], false);
        let after = &early["after"];
        assert_eq!(after["tombstones"], 10, "nothing is collected yet: {early}");
        assert_eq!(after["entries"], 20, "{early}");
    }
    until("the GC threshold passes the deletions", || {
        repair_fully(&cluster, 1);
        (0..3).all(|node| gc_threshold_at(&cluster, node) > deleted_unix_ms)
    });
    for node in 0..3 {
        let done = compact(&cluster, node, "?wait=true").json();
        assert_eq!(done["before"]["tombstones"], 10, "{done}");
        assert_eq!(done["after"]["tombstones"], 0, "{done}");
        assert_eq!(done["after"]["entries"], 10, "{done}");
        let bytes = |of: &str| done[of]["table_bytes"].as_u64().unwrap();
        assert!(bytes("after") < bytes("before"), "{done}");
        let store = &cluster.status(node)["store"];
        assert_eq!(
            (&store["tombstones"], &store["entries"]),
            (&0.into(), &10.into())
        );
        assert!(store.get("compaction").is_none(), "{store}");
    }
    for number in 0..20 {
        let status = if number % 2 == 0 { 404 } else { 200 };
        let target = target(&format!("k{number:02}"), "3/3");
        assert_eq!(client.get(&target).status, status, "{number}");
    }
}

#[test]
fn a_request_that_is_not_right_compacts_nothing_and_one_that_does_not_wait_is_answered_at_once() {
    let alone = Cluster::start(1);
    for (method, query, head, status) in [
        ("GET", "", "", 405),
        ("POST", "", "", 415),
        ("POST", "?wait=yes", JSON, 400),
        ("POST", "?full=true", JSON, 400),
    ] {
        let target = format!("/v0/admin/compact{query}");
        let reply = alone.client(0).request(method, &target, head, b"");
        assert_eq!(reply.status, status, "{method} {query} {}", reply.text());
    }
    assert_eq!(alone.metric(0, "kvorum_store_compactions_total"), 0.0);
    assert_eq!(alone.client(0).put("/v0/entity?id=k", b"v").status, 201);
    let ordered = compact(&alone, 0, "");
    assert_eq!(ordered.status, 202, "{}", ordered.text());
    assert_eq!(ordered.json()["state"], "ordered");
    until("the store is compacted", || {
        alone.metric(0, "kvorum_store_compactions_total") >= 1.0
    });
}
