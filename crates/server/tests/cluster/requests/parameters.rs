//! Any request on any node: parameters, versions, conditions, expiry.

use crate::support::{Cluster, until};
use cluster::Replicas;

#[test]
fn replicas_have_defaults_and_bounds() {
    let three = Cluster::start(3);
    let five = Cluster::start(5);
    let chosen = Cluster::start_with(3, |config| {
        config.replicas_default = Some(Replicas { ack: 1, from: 2 });
    });
    for (cluster, parameters, from) in [
        // Neither: all nodes and their quorum, or the operator's pair.
        (&three, "", 3),
        (&five, "", 5),
        (&chosen, "", 2),
        // Only `from`: its quorum, whatever the operator chose.
        (&five, "&from=1", 1),
        (&five, "&from=4", 4),
        (&chosen, "&from=3", 3),
        // Only `ack`: the default `from`.
        (&three, "&ack=3", 3),
        (&five, "&ack=1", 5),
        (&chosen, "&ack=2", 2),
        // Both, in both spellings.
        (&three, "&ack=1&from=2", 2),
        (&three, "&from=2&ack=2", 2),
        (&five, "&replicas=5/5", 5),
        (&five, "&replicas=2%2F4", 4),
        (&chosen, "&replicas=%33/3", 3),
    ] {
        let mut client = cluster.client(1);
        for (method, status) in [("PUT", 201), ("GET", 200), ("HEAD", 200), ("DELETE", 202)] {
            let reply = client.request(method, &format!("/v0/entity?id=k{parameters}"), "", b"");
            // A `GET 1/2` may miss a `PUT 1/2`.
            let is_missed = status == 200 && reply.status == 404;
            assert!(
                reply.status == status || is_missed,
                "{method} {parameters}: {}",
                reply.status
            );
            let acks = reply.header("kvorum-acks").unwrap();
            assert_eq!(
                acks.split_once('/').unwrap().1,
                from.to_string(),
                "{parameters}"
            );
        }
    }
    for parameters in [
        "ack=0",
        "from=0",
        "ack=4",
        "from=4",
        "ack=3&from=2",
        "ack=2&from=1",
        "from=3&from=3",
        "ack=2&ack=2",
        "replicas=4/4",
        "replicas=0/3",
        "replicas=3/2",
        "replicas=2",
        "replicas=2/3/3",
        "replicas=2/3&ack=2",
        "replicas=2/3&from=3",
        "replicas=%2B2/3",
        "ack=257",
        "from=259",
        "ack=two",
        "ttl=5",
    ] {
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            if (method, parameters) == ("PUT", "ttl=5") {
                continue;
            }
            let target = format!("/v0/entity?id=refused&{parameters}");
            let reply = three.client(0).request(method, &target, "", b"");
            assert_eq!(reply.status, 400, "{method} {parameters}");
        }
    }
    assert_eq!(
        three.holders("refused"),
        [0; 0],
        "what is refused changes nothing"
    );
}

/// With some nodes down, a request succeeds only if it waits for no more answers than
/// the other nodes can give.
#[test]
fn the_default_ack_is_the_quorum() {
    let mut cluster = Cluster::start(5);
    for node in [3, 4] {
        cluster.stop_node(node);
    }
    let mut client = cluster.client(0);
    assert_eq!(client.put("/v0/entity?id=k", b"v").status, 201);
    assert_eq!(client.put("/v0/entity?id=k&ack=4", b"v").status, 504);
    let reply = client.get("/v0/entity?id=k");
    assert_eq!(
        (reply.status, reply.header("kvorum-acks")),
        (200, Some("3/5"))
    );
    cluster.stop_node(2);
    let mut client = cluster.client(0);
    assert_eq!(client.get("/v0/entity?id=k").status, 504);
    assert_eq!(client.get("/v0/entity?id=k&ack=2").status, 200);
}

#[test]
fn all_nodes_answer_the_same_for_a_key() {
    let cluster = Cluster::start(3);
    for (number, pair) in ["1/1", "2/2", "3/3", "2/3"].into_iter().enumerate() {
        let target = format!("/v0/entity?id=k{number}&replicas={pair}");
        let put = cluster.client(number % 3).put(&target, b"value");
        assert_eq!(put.status, 201);
        let (version, tag) = (put.version(), put.header("etag").unwrap());
        for node in 0..3 {
            let mut client = cluster.client(node);
            let got = client.get(&target);
            assert_eq!((got.status, got.text()), (200, "value"), "{pair} at {node}");
            assert_eq!(got.header("content-type"), Some("application/octet-stream"));
            assert_eq!((got.version(), got.header("etag").unwrap()), (version, tag));
            let head = client.request("HEAD", &target, "", b"");
            assert_eq!(head.status, 200);
            for name in ["content-length", "etag", "kvorum-version", "kvorum-acks"] {
                assert_eq!(head.header(name), got.header(name), "{name}");
            }
            for method in ["GET", "HEAD"] {
                let same = format!("if-none-match: {tag}\r\n");
                let reply = client.request(method, &target, &same, b"");
                assert_eq!((reply.status, reply.body.len()), (304, 0));
                assert_eq!(
                    (reply.version(), reply.header("etag").unwrap()),
                    (version, tag)
                );
                assert!(reply.header("kvorum-acks").is_some());
            }
        }
        // Another version with the same value has another tag.
        let again = cluster.client((number + 1) % 3).put(&target, b"value");
        assert_ne!(again.header("etag"), Some(tag));
        assert!(again.version() > version);
        let same = format!("if-none-match: {tag}\r\n");
        let reply = cluster
            .client((number + 2) % 3)
            .request("GET", &target, &same, b"");
        assert_eq!((reply.status, reply.version()), (200, again.version()));
    }
}

#[test]
fn a_deletion_is_seen_on_every_node() {
    let cluster = Cluster::start(3);
    for pair in ["1/1", "2/2", "2/3", "3/3"] {
        let target = format!("/v0/entity?id=k&replicas={pair}");
        let put = cluster.client(0).put(&target, b"v");
        let delete = cluster.client(1).delete(&target);
        assert_eq!((delete.status, delete.body.len()), (202, 0), "{pair}");
        assert!(delete.version() > put.version());
        assert!(delete.header("etag").is_some());
        for node in 0..3 {
            for method in ["GET", "HEAD"] {
                let reply = cluster.client(node).request(method, &target, "", b"");
                assert_eq!(
                    (reply.status, reply.version()),
                    (404, delete.version()),
                    "{pair}"
                );
                assert!(reply.header("etag").is_none());
            }
        }
    }
    // A key that never existed has no version before it is deleted.
    let target = "/v0/entity?id=never";
    let reply = cluster.client(2).get(target);
    assert_eq!((reply.status, reply.header("kvorum-version")), (404, None));
    assert!(reply.header("kvorum-acks").is_some());
    let delete = cluster.client(2).delete(target);
    assert_eq!(delete.status, 202);
    assert_eq!(cluster.client(0).get(target).version(), delete.version());
}

#[test]
fn the_node_that_answers_decides_by_its_own_clock_what_has_expired() {
    let cluster = Cluster::start(3);
    let target = "/v0/entity?id=k&replicas=3/3";
    cluster.client(0).put(target, b"older");
    let put = cluster.client(0).put(&format!("{target}&ttl=100"), b"v");
    assert_eq!(put.status, 201);
    cluster.clock(1).set_ahead_seconds(99);
    assert_eq!(cluster.client(1).get(target).status, 200);
    cluster.clock(1).set_ahead_seconds(101);
    let reply = cluster.client(1).get(target);
    // The expired version hides the older one, as a deletion does.
    assert_eq!((reply.status, reply.version()), (404, put.version()));
    for node in [0, 2] {
        let reply = cluster.client(node).get(target);
        assert_eq!((reply.status, reply.text()), (200, "v"));
    }
    assert!(cluster.held_by(1, "k").is_none());
    assert!(cluster.held_by(0, "k").is_some());
}

#[test]
fn an_expiry_is_the_same_on_all_replicas() {
    let cluster = Cluster::start(3);
    let target = "/v0/entity?id=k&replicas=3/3&ttl=1";
    assert_eq!(cluster.client(0).put(target, b"v").status, 201);
    // Each node decides by its own clock.
    until("the version has expired on all nodes", || {
        let gets = (0..3).map(|node| cluster.client(node).get("/v0/entity?id=k&replicas=3/3"));
        gets.into_iter().all(|reply| reply.status == 404)
    });
    assert_eq!(cluster.holders("k"), [0; 0]);
}
