//! Which pairs of `ack` and `from` see each other, and what a read finds that misses a write:
//! docs/reference/api.md, "What a client may rely on". The model of the coordinators tries all
//! orders; here each pair that sees a write does so at every node.

use crate::fixtures::cluster::{ClusterNode, TestCluster};
use crate::support::{kvorum, run_to_end, wait_until, wait_until_ok};
use rustix::process::Signal;

/// A pair of a write, and the pairs of the reads that see it.
const SEEN: [(&str, &[&str]); 4] = [
    ("3/3", &["1/1", "1/2", "2/2", "1/3", "2/3", "3/3"]),
    ("2/3", &["2/2", "2/3", "3/3"]),
    ("2/2", &["1/1", "1/2", "2/2", "2/3", "3/3"]),
    ("1/1", &["1/1", "2/2", "3/3"]),
];

/// Sends a request of this pair until enough replicas have answered; gives status and body.
fn send(node: &ClusterNode, method: &str, key: &str, pair: &str, body: &str) -> (u16, String) {
    let target = format!("/v0/entity?id={key}&replicas={pair}");
    wait_until_ok(&target, || {
        let mut connection = node.connect().map_err(|error| error.to_string())?;
        let answer = connection.request(method, &target, "", body.as_bytes());
        let answer = answer.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        match answer.status {
            503 | 504 => Err(text),
            status => Ok((status, text)),
        }
    })
}

fn get(node: &ClusterNode, key: &str, pair: &str) -> Option<String> {
    match send(node, "GET", key, pair, "") {
        (200, value) => Some(value),
        (404, _) => None,
        other => panic!("{other:?}"),
    }
}

/// The value `old` on all nodes, and then `new` with this pair.
fn overwrite(node: &ClusterNode, key: &str, pair: &str) {
    for (pair, value) in [("3/3", "old"), (pair, "new")] {
        let (status, text) = send(node, "PUT", key, pair, value);
        assert!(matches!(status, 201 | 202 | 204), "{status} {text}");
    }
}

fn admin(node: &ClusterNode, words: &[&str]) {
    let url = format!("http://{}", node.location.address);
    let words = [&["admin"], words, &["--url", &url]].concat();
    let _may_be_incomplete = run_to_end(&mut kvorum(&words));
}

/// The first node of the preference list of a key, and another one.
fn first_and_other(cluster: &TestCluster, key: &str) -> (usize, usize) {
    let mut connection = cluster[0].connect().unwrap();
    let target = format!("/v0/replicas?id={key}");
    let answer = connection.request("GET", &target, "", b"").unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let first = answer["replicas"][0]["name"].as_str().unwrap();
    let mut nodes = cluster.nodes.iter();
    let first = nodes.position(|node| node.name == first).unwrap();
    (first, (first + 1) % 3)
}

#[test]
fn pairs_see_each_other_as_the_contract_says() {
    let cluster = TestCluster::start_with(&[
        "--gc-grace=3s",
        "--hint-age-max=1s",
        "--clock-drift-max=1s",
        "--repair-interval=off",
        "--full-repair-interval=off",
    ]);
    for (written, reads) in SEEN {
        for read in reads {
            let key = format!("w{written}r{read}").replace('/', "-");
            overwrite(&cluster[0], &key, written);
            for node in &cluster.nodes {
                let found = get(node, &key, read);
                assert_eq!(found.as_deref(), Some("new"), "GET {read} of PUT {written}");
            }
        }
    }

    // Two keys of the same first replica: a read of one is repaired once that node goes on.
    let (first, other) = first_and_other(&cluster, "missed-0");
    let mut keys = (0..).map(|number| format!("missed-{number}"));
    let mut next_key = || {
        let is_of_first = |key: &String| first_and_other(&cluster, key).0 == first;
        keys.find(is_of_first).unwrap()
    };
    let (earlier, later) = (next_key(), next_key());
    for key in [&earlier, &later] {
        overwrite(&cluster[other], key, "1/1");
    }
    // The other two replicas still have the old value, and later none.
    let without_first = |key: &str| {
        cluster[first].signal(Signal::STOP);
        let found = get(&cluster[other], key, "2/3");
        cluster[first].signal(Signal::CONT);
        found
    };
    assert_eq!(without_first(&earlier).as_deref(), Some("old"));
    cluster.wait_until_joined();
    let clock = &cluster[0].status().unwrap()["clock"]["unix_ms"];
    let written_unix_ms = clock.as_u64();
    wait_until("the GC threshold to pass the writes", || {
        // A link that breaks on a busy machine makes a session incomplete.
        admin(&cluster[1], &["repair", "--full", "--wait"]);
        let has_passed = |node: &ClusterNode| {
            let status = node.status().unwrap();
            status["tombstone_gc"]["gc_threshold_unix_ms"].as_u64() > written_unix_ms
        };
        cluster.nodes.iter().all(has_passed).then_some(())
    });
    admin(&cluster[1], &["compact", "--wait"]);
    assert_eq!(without_first(&later), None);
    cluster.wait_until_joined();
    let found = get(&cluster[other], &later, "3/3");
    assert_eq!(found.as_deref(), Some("new"));
}
