//! Which nodes hold a key, and how many copies there are.

use crate::support::{Cluster, preference_list_of};

#[test]
fn every_node_finds_the_same_replicas_and_they_hold_the_copies() {
    let cluster = Cluster::start(5);
    let mut first_choices = [0; 5];
    for number in 0..40 {
        let key = format!("k{number}");
        let page = format!("/v0/replicas?id={key}");
        let preference_lists: Vec<_> = (0..5)
            .map(|node| preference_list_of(&cluster.client(node).get(&page)))
            .collect();
        let preference_list = &preference_lists[0];
        assert!(
            preference_lists
                .iter()
                .all(|other| other == preference_list),
            "{key}"
        );
        let mut sorted = preference_list.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
        first_choices[preference_list[0]] += 1;
        // Each write has one copy more, and the former replicas keep theirs.
        for from in 1..=5 {
            let target = format!("/v0/entity?id={key}&replicas={from}/{from}");
            let put = cluster.client(number % 5).put(&target, b"v");
            let acks = format!("{from}/{from}");
            assert_eq!((put.status, put.header("kvorum-acks")), (201, Some(&*acks)));
            let mut replicas = preference_list[..from].to_vec();
            replicas.sort_unstable();
            assert_eq!(cluster.holders(&key), replicas, "{key} from {from}");
        }
    }
    assert!(
        first_choices.iter().all(|keys| *keys > 0),
        "{first_choices:?}"
    );
}

#[test]
fn the_ring_lists_the_replicas_of_a_key() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let page = client.get("/v0/replicas?id=%00%ff%2f");
    assert_eq!(page.header("content-type"), Some("application/json"));
    for replica in page.json()["replicas"].as_array().unwrap() {
        let node = ["a", "b", "c"]
            .iter()
            .position(|name| replica["name"] == *name);
        assert_eq!(replica["url"], cluster.url(node.unwrap()));
    }
    let head = client.request("HEAD", "/v0/replicas?id=%00%ff%2f", "", b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, page.header("content-length"))
    );
    for target in [
        "/v0/replicas",
        "/v0/replicas?id=",
        "/v0/replicas?id=a&from=2",
        "/v0/replicas?id=a&id=b",
        "/v0/replicas?id=%",
        "/v0/replicas?id=a&versions=1",
    ] {
        assert_eq!(client.get(target).status, 400, "{target}");
    }
    let put = client.put("/v0/replicas?id=a", b"");
    assert_eq!((put.status, put.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn the_ring_explains_what_each_node_holds() {
    let mut cluster = Cluster::start(3);
    let key = cluster.key_on(&[0, 1, 2]);
    let entity = |pair: &str| format!("/v0/entity?id={key}&replicas={pair}");
    let page = format!("/v0/replicas?id={key}&versions=true");
    let lines = |cluster: &Cluster, node: usize| {
        let reply = cluster.client(node).get(&page);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["replicas"].as_array().unwrap().clone()
    };
    for line in lines(&cluster, 1) {
        assert_eq!((&line["stale"], line.get("version")), (&false.into(), None));
        assert_eq!(line.get("missed"), None);
    }
    let put = format!("{}&ttl=600", entity("3/3"));
    let version = cluster.client(0).put(&put, b"value").version().to_string();
    for line in lines(&cluster, 2) {
        assert_eq!(
            (&line["version"], &line["kind"]),
            (&version.as_str().into(), &"value".into())
        );
        assert_eq!(
            (&line["value_bytes"], &line["copies"]),
            (&5.into(), &3.into())
        );
        assert_eq!(line["stale"], false);
        assert!(line["expires"].as_str().unwrap().ends_with('Z'), "{line}");
    }
    // The newest version is for two replicas, one of which is away.
    cluster.stop_node(1);
    let deleted = cluster.client(0).request("DELETE", &entity("1/2"), "", b"");
    assert_eq!(deleted.status, 202);
    let deleted = deleted.version().to_string();
    let [first, second, third] = &*lines(&cluster, 2) else {
        panic!("three nodes");
    };
    assert_eq!(
        (&first["version"], &first["kind"]),
        (&deleted.as_str().into(), &"tombstone".into())
    );
    assert_eq!(
        (&first["stale"], first.get("value_bytes")),
        (&false.into(), None)
    );
    assert!(second["missed"].is_string(), "{second}");
    assert_eq!((second.get("stale"), second.get("version")), (None, None));
    assert_eq!(
        (&third["version"], &third["stale"]),
        (&version.as_str().into(), &false.into())
    );
    // A copy that the two other replicas do not know of.
    let narrow = cluster
        .client(2)
        .put(&entity("1/1"), b"new")
        .version()
        .to_string();
    let held = lines(&cluster, 2);
    assert_eq!(held[0]["version"], narrow);
}

#[test]
fn a_smaller_from_leaves_older_copies_alone_and_reads_still_see_the_newest() {
    let cluster = Cluster::start(3);
    let key = cluster.key_on(&[0, 1, 2]);
    let target = |pair: &str| format!("/v0/entity?id={key}&replicas={pair}");
    let wide = cluster.client(0).put(&target("3/3"), b"wide").version();
    let narrow = cluster.client(2).put(&target("1/1"), b"narrow").version();
    assert!(narrow > wide);
    let held = |node| cluster.held_by(node, &key).unwrap();
    assert_eq!(held(0), ("narrow".to_owned(), narrow));
    assert_eq!(
        (held(1), held(2)),
        (("wide".to_owned(), wide), ("wide".to_owned(), wide))
    );
    for node in 0..3 {
        // A read of all three sees it, whichever node coordinates.
        let reply = cluster.client(node).get(&target("3/3"));
        assert_eq!((reply.text(), reply.version()), ("narrow", narrow));
        assert_eq!(cluster.client(node).get(&target("1/1")).version(), narrow);
    }
    // A write to all three replaces every copy.
    let last = cluster.client(1).put(&target("3/3"), b"last").version();
    for node in 0..3 {
        assert_eq!(held(node), ("last".to_owned(), last));
    }
}
