//! Nodes of different clusters refuse each other, and say so.

use crate::fixtures::cluster::{ClusterNode, TestCluster, node_locations, write_secret};
use crate::support::{Process, wait_until};
use http_testing::Connection;

/// The exit code and the line of a refused start.
fn refusal(node: &ClusterNode, more: &[&str]) -> (Option<i32>, String) {
    let end = Process::spawn(&mut node.command(more)).end();
    // Lines of the log may precede it.
    let line = end.stderr.lines().last().unwrap_or_default();
    (end.code, line.to_owned())
}

#[test]
fn another_list_of_nodes_is_refused_and_the_line_says_what_to_do() {
    let mut cluster = TestCluster::start();
    let (list, data) = (cluster[0].list.clone(), cluster[0].data.clone());
    for node in &mut cluster.nodes {
        node.stop();
    }

    // Another node's name in the same cluster.
    let other = &mut cluster[1];
    let others_data = std::mem::replace(&mut other.data, data);
    let (code, line) = refusal(other, &[]);
    // A restart does not help, so a service does not restart it.
    assert_eq!(code, Some(2), "{line}");
    for word in ["node a", "is b", "--data"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    other.data = others_data;

    // The same name in another cluster, and alone.
    let node = &mut cluster[0];
    let without_c = list.rsplit_once(',').unwrap().0.to_owned();
    let alone = list.split(',').next().unwrap().to_owned();
    for other in [list.replace("c=", "d="), without_c, alone] {
        node.list = other;
        for more in [&[][..], &["--accept-data-loss"]] {
            let (code, line) = refusal(node, more);
            assert_eq!(code, Some(2), "{line}");
            for word in ["a, b, c", "join by --join", "the list that it had"] {
                assert!(line.contains(word), "{word}: {line}");
            }
        }
    }
    // There is no option that allows it.
    let (code, line) = refusal(node, &["--accept-cluster-change"]);
    assert_eq!(code, Some(2), "{line}");

    node.list = list;
    for node in &mut cluster.nodes {
        node.start(&[]);
    }
    cluster.wait_until_joined();
}

#[test]
fn nodes_with_different_lists_refuse_each_other() {
    let mut cluster = TestCluster::new(node_locations());
    let list = cluster[0].list.clone();
    cluster[0].list = list.replace("c=", "d=");
    cluster[0].start(&[]);
    cluster[1].start(&[]);
    cluster[0].wait_until_logged(&["name=\"b\"", "different lists of members"]);
    cluster[1].wait_until_logged(&["name=\"a\"", "different lists of members"]);
    assert_ne!(cluster[0].state_of("b"), "up");
}

#[test]
fn a_node_with_another_secret_is_refused_by_its_peers() {
    let mut cluster = TestCluster::new(node_locations());
    let folder = cluster.folder.path();
    let right = write_secret(folder, "right", "the secret of all nodes\n");
    let wrong = write_secret(folder, "wrong", "the secret of another cluster\n");
    let option = "--cluster-secret-file".to_owned();
    for node in &mut cluster.nodes {
        node.options = vec![option.clone(), right.clone()];
    }
    cluster.start_all();
    cluster[2].stop();
    cluster[2].options = vec![option.clone(), wrong];
    cluster[2].start(&[]);

    cluster[0].wait_until_logged(&["WARN", "name=\"c\"", "secret"]);
    cluster[2].wait_until_logged(&["WARN", "name=\"a\"", "secret"]);
    for (node, peer) in [(0, "c"), (1, "c"), (2, "a"), (2, "b")] {
        wait_until("a peer that is down", || {
            (cluster[node].state_of(peer) == "down").then_some(())
        });
    }
    // The other nodes form a cluster without it.
    wait_until("the two to join", || {
        let mut connection = cluster[0].connect().unwrap();
        let put = |connection: &mut Connection, replicas| {
            let target = format!("/v0/entity?id=k&replicas={replicas}");
            connection
                .request("PUT", &target, "", b"value")
                .unwrap()
                .status
        };
        assert_eq!(
            put(&mut connection, "3/3"),
            504,
            "the refused one took part"
        );
        (put(&mut connection, "2/3") == 201).then_some(())
    });

    cluster[2].stop();
    cluster[2].options = vec![option, right];
    cluster[2].start(&[]);
    cluster.wait_until_joined();
}
