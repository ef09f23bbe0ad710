//! The members of a cluster change while clients use it.

use crate::fixtures::cluster::{ClusterNode, TestCluster, node_locations};
use crate::support::{Ends, kvorum, run_to_end, wait_until_ok};
use serde_json::Value;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const KEYS: usize = 200;

/// Runs `kvorum admin members` against a node.
fn members(node: &ClusterNode, words: &[&str]) -> Output {
    let url = format!("http://{}", node.location.address);
    let mut command = kvorum(&["admin", "members"]);
    run_to_end(command.args(words).args(["--url", &url]))
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

/// Does what cannot be refused.
fn change(node: &ClusterNode, words: &[&str]) -> String {
    let output = members(node, words);
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    text(&output)
}

/// The list as a node knows it.
fn list(node: &ClusterNode) -> Value {
    let output = members(node, &["--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn wait_until_phase(node: &ClusterNode, phase: &str) {
    wait_until_ok("a phase of the change", || {
        let list = list(node);
        if list["phase"] == phase {
            Ok(())
        } else {
            Err(list)
        }
    });
}

fn names(list: &Value) -> Vec<&str> {
    let members = list["members"].as_array().unwrap();
    let names = members.iter().map(|member| member["name"].as_str());
    names.map(Option::unwrap).collect()
}

/// A cluster with a default pair, and with data.
fn start(pair: &str) -> TestCluster {
    let mut cluster = TestCluster::new(node_locations());
    for node in &mut cluster.nodes {
        // A member reports a list once no request of an earlier one can be left.
        node.options.push("--timeout=1s".to_owned());
    }
    cluster.start_all();
    wait_until_ok("a list of members", || {
        let output = members(&cluster[0], &["pair", pair, "--yes"]);
        let has_it = text(&output).contains("changes nothing");
        if output.status.success() || has_it {
            Ok(())
        } else {
            Err(text(&output))
        }
    });
    for node in &cluster.nodes {
        wait_until_ok("the pair everywhere", || {
            let list = list(node);
            if list["default_pair"] == pair {
                Ok(())
            } else {
                Err(list)
            }
        });
    }
    put_all(&cluster[0], pair);
    cluster
}

fn target(pair: &str, key: usize) -> String {
    format!("/v0/entity?id=key-{key}&replicas={pair}")
}

fn put_all(node: &ClusterNode, pair: &str) {
    let mut connection = node.connect().unwrap();
    for key in 0..KEYS {
        wait_until_ok("a write to all replicas", || {
            let answer = connection
                .request("PUT", &target(pair, key), "", b"value")
                .unwrap();
            if answer.status == 201 {
                Ok(())
            } else {
                Err(answer.status)
            }
        });
    }
}

/// Reads and writes a key; says what failed.
fn use_key(node: &ClusterNode, pair: &str, key: usize) -> Result<(), String> {
    let mut connection = node.connect().map_err(|error| error.to_string())?;
    for (method, body, expected) in [("GET", &b""[..], 200), ("PUT", b"value", 201)] {
        let answer = connection.request(method, &target(pair, key), "", body);
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status != expected {
            return Err(format!(
                "{method} {key}: {} {}",
                answer.status,
                answer.text()
            ));
        }
    }
    Ok(())
}

fn check_all(node: &ClusterNode, pair: &str) {
    for key in 0..KEYS {
        wait_until_ok("a key that both replicas have", || use_key(node, pair, key));
    }
}

#[test]
fn a_member_leaves_while_clients_use_the_cluster() {
    let cluster = start("2/2");
    let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let failures = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let load = scope.spawn(|| {
            let mut failures = Vec::new();
            for key in (0..KEYS).cycle() {
                if is_over.load(SeqCst) {
                    return failures;
                }
                // Both replicas must answer: one whose link ends with the list may miss a request.
                let used = use_key(&cluster[0], "2/2", key);
                let used = used.or_else(|_| use_key(&cluster[0], "2/2", key));
                failures.extend(used.err());
                requests.fetch_add(1, SeqCst);
            }
            failures
        });
        let plan = change(&cluster[0], &["leave", "c", "--dry-run"]);
        assert!(plan.contains("c leaves the cluster"), "{plan}");
        let end = change(&cluster[0], &["leave", "c", "--yes", "--wait"]);
        assert!(end.contains("the members are a, b "), "{end}");
        drop(ends);
        load.join().unwrap()
    });
    assert!(requests.into_inner() > 0);
    assert_eq!(failures, [""; 0]);
    check_all(&cluster[1], "2/2");
    assert_eq!(names(&list(&cluster[1])), ["a", "b"]);
    // Both have everything: what only they hold is all that is left.
    let refused = members(&cluster[0], &["leave", "b", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused).contains("change the default pair first"),
        "{}",
        text(&refused)
    );
}

#[test]
fn a_change_outlives_the_death_of_a_member_and_can_be_undone() {
    let mut cluster = start("2/2");
    cluster[1].kill();
    wait_until_ok("a node that is known to be down", || {
        let plan = change(&cluster[0], &["leave", "c", "--dry-run"]);
        if plan.contains("is down (b)") {
            Ok(())
        } else {
            Err(plan)
        }
    });
    let begun = change(&cluster[0], &["leave", "c", "--yes"]);
    assert!(begun.contains("is down (b)"), "{begun}");
    wait_until_phase(&cluster[0], "copying");
    let mut connection = cluster[0].connect().unwrap();
    let target = "/v0/entity?id=new-key";
    let answer = connection.request("PUT", target, "if-none-match: *\r\n", b"value");
    // It needs both replicas in each list.
    let refused = answer.unwrap();
    assert_eq!(refused.status, 504, "{}", refused.text());
    assert!(refused.text().contains("not-applied"), "{}", refused.text());
    let end = members(&cluster[0], &["abort", "--yes", "--wait"]);
    assert!(end.status.success(), "{}", text(&end));
    assert_eq!(names(&list(&cluster[0])), ["a", "b", "c"]);
    let refused = members(&cluster[0], &["abort", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused).contains("nothing to abort"),
        "{}",
        text(&refused)
    );

    // It gets the list before anything else.
    cluster[1].start(&[]);
    wait_until_phase(&cluster[1], "stable");
    check_all(&cluster[1], "2/2");
    change(&cluster[0], &["leave", "c", "--yes"]);
    wait_until_phase(&cluster[1], "copying");
    cluster[1].kill();
    cluster[1].start(&[]);
    wait_until_ok("a change that ends", || {
        let list = list(&cluster[1]);
        if list["phase"] == "stable" && names(&list) == ["a", "b"] {
            Ok(())
        } else {
            Err(list)
        }
    });
    check_all(&cluster[1], "2/2");
}

#[test]
fn a_node_alone_with_data_grows_to_three() {
    let mut cluster = TestCluster::new(node_locations());
    let mut alone = cluster.joiner("a");
    alone.options = ["--timeout=1s", "--zone=rack-1"]
        .map(str::to_owned)
        .to_vec();
    alone.list = format!("a=http://{}", alone.location.address);
    alone.start(&[]);
    put_all(&alone, "1/1");
    for (node, zone) in cluster.nodes[1..].iter_mut().zip(["rack-1", "rack-2"]) {
        node.list.clear();
        let by = alone.location.address;
        node.options = [
            "--timeout=1s",
            &format!("--zone={zone}"),
            &format!("--join=http://{by}"),
            &format!("--name={}", node.name),
        ]
        .map(str::to_owned)
        .to_vec();
        node.start(&[]);
    }
    for name in ["b", "c"] {
        wait_until_waiting(&alone, name);
    }
    let end = change(&alone, &["join", "b", "c", "--yes", "--wait"]);
    assert!(end.contains("the members are a, b, c "), "{end}");
    for node in [&alone, &cluster[1], &cluster[2]] {
        check_all(node, "1/1");
        check_zones(node);
    }
    // What has one copy gets three, while reads of all three miss nothing.
    let pair = change(&cluster[1], &["pair", "3/3", "--yes"]);
    assert!(pair.contains("epoch"), "{pair}");
    let url = format!("--url=http://{}", cluster[1].location.address);
    let file = cluster.folder.path().join("all.ndjson");
    for words in [&["export", "--versions"][..], &["import", "--if-unchanged"]] {
        wait_until_ok("all values to be written anew", || {
            let output = run_to_end(kvorum(words).arg(&file).arg(&url));
            if output.status.success() {
                Ok(())
            } else {
                Err(text(&output))
            }
        });
    }
    change(&cluster[1], &["pair", "2/3", "--yes"]);
    for node in [&alone, &cluster[1], &cluster[2]] {
        let mut connection = node.connect().unwrap();
        for key in 0..KEYS {
            let answer = connection.request("GET", &target("2/3", key), "", b"");
            let answer = answer.unwrap();
            assert_eq!(answer.status, 200, "{key}: {}", answer.text());
        }
    }
    // It is a member with the options that it had alone.
    alone.kill();
    alone.start(&[]);
    check_all(&alone, "2/3");
}

/// The list has the zones, and no key has its first two replicas in one.
fn check_zones(node: &ClusterNode) {
    let list = list(node);
    let members = list["members"].as_array().unwrap();
    let zones: Vec<_> = members.iter().map(|member| &member["zone"]).collect();
    assert_eq!(zones, ["rack-1", "rack-1", "rack-2"]);
    let mut connection = node.connect().unwrap();
    for key in 0..20 {
        let target = format!("/v0/replicas?id=key-{key}");
        let answer = connection.request("GET", &target, "", b"").unwrap();
        let answer: Value = serde_json::from_str(answer.text()).unwrap();
        let first = [0, 1].map(|place| &answer["replicas"][place]["name"]);
        assert!(first.iter().any(|name| *name == "c"), "{answer}");
    }
}

fn wait_until_waiting(node: &ClusterNode, name: &str) {
    wait_until_ok("a node that waits to join", || {
        let output = members(node, &["join", name, "--dry-run"]);
        if output.status.success() {
            Ok(())
        } else {
            Err(text(&output))
        }
    });
}

#[test]
fn a_fourth_node_joins_while_clients_use_the_cluster_and_another_one_leaves() {
    let mut cluster = start("2/3");
    let mut joiner = cluster.joiner("d");
    joiner.options.push("--timeout=1s".to_owned());
    joiner.start(&[]);
    let status = joiner.status().unwrap();
    assert_eq!(status["state"], "waiting to join");
    let refused = use_key(&joiner, "2/3", 0).unwrap_err();
    assert!(
        refused.contains("503") && refused.contains("waits to join"),
        "{refused}"
    );
    wait_until_waiting(&cluster[0], "d");
    let unknown = members(&cluster[0], &["join", "e", "--yes"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown).contains("--join"), "{}", text(&unknown));

    let (is_over, requests) = (AtomicBool::new(false), AtomicU64::new(0));
    let failures = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let load = scope.spawn(|| {
            let mut failures = Vec::new();
            for key in (0..KEYS).cycle() {
                if is_over.load(SeqCst) {
                    return failures;
                }
                failures.extend(use_key(&cluster[0], "2/3", key).err());
                requests.fetch_add(1, SeqCst);
            }
            failures
        });
        let end = change(&cluster[0], &["join", "d", "--yes", "--wait"]);
        assert!(end.contains("the members are a, b, c, d "), "{end}");
        drop(ends);
        load.join().unwrap()
    });
    assert!(requests.into_inner() > 0);
    assert_eq!(failures, [""; 0]);
    check_all(&joiner, "2/3");
    assert_eq!(names(&list(&joiner)), ["a", "b", "c", "d"]);
    for node in [&cluster[0], &joiner] {
        let mut connection = node.connect().unwrap();
        let answer = connection.request("GET", "/v0/entity?id=key-0", "", b"");
        let answer = answer.unwrap();
        let acks = answer.header("kvorum-acks").unwrap();
        assert!(
            acks.ends_with("/3"),
            "the default pair is that of the founders: {acks}"
        );
    }

    // It goes on as a member with the same options, and can do without one that leaves.
    joiner.kill();
    joiner.start(&[]);
    check_all(&joiner, "2/3");
    // The node that is asked leaves itself, and those that stay say how the change has ended.
    let end = change(&cluster[2], &["leave", "c", "--yes", "--wait"]);
    assert!(end.contains("the members are a, b, d "), "{end}");
    cluster[2].stop();
    check_all(&joiner, "2/3");
}

#[test]
fn those_that_are_left_go_on_when_a_majority_never_comes_back() {
    let mut cluster = start("2/2");
    let before = list(&cluster[0]);
    for lost in [1, 2] {
        cluster[lost].kill();
    }
    wait_until_ok("a node that knows that it is alone", || {
        let plan = members(&cluster[0], &["force", "a", "c", "--dry-run"]);
        let said = text(&plan);
        if plan.status.success() && said.contains("b is declared dead") {
            Ok(())
        } else {
            Err(said)
        }
    });
    let refused = members(&cluster[0], &["force", "c", "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused);
    assert!(said.contains("has to be one of those"), "{said}");
    change(&cluster[0], &["force", "a", "c", "--yes"]);
    // It has the list of before, and takes the new one over.
    cluster[2].start(&[]);
    for node in [0, 2] {
        wait_until_ok("those that are left to be the members", || {
            let list = list(&cluster[node]);
            if list["phase"] == "stable" && names(&list) == ["a", "c"] {
                Ok(())
            } else {
                Err(list)
            }
        });
    }
    for node in [0, 2] {
        check_all(&cluster[node], "2/2");
        assert_ne!(list(&cluster[node])["cluster_id"], before["cluster_id"]);
    }
    // Nobody serves the one that was declared dead.
    cluster[1].start(&[]);
    use_key(&cluster[1], "2/2", 0).unwrap_err();
    let all = list(&cluster[0]);
    assert_eq!(names(&all), ["a", "c"]);
}
