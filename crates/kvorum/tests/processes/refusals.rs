//! Nodes that do not belong together do not get together, and say so.

use crate::cluster::{Cluster, Node, places, write_secret};
use crate::support::{Connection, Process, until};

/// The code and the line with which a start is refused.
fn refusal(node: &Node, more: &[&str]) -> (Option<i32>, String) {
    let end = Process::spawn(&mut node.command(more)).end();
    // Lines of the log may stand before it.
    let line = end.stderr.lines().last().unwrap_or_default();
    (end.code, line.to_owned())
}

#[test]
fn another_cluster_is_refused_at_start_unless_it_is_accepted() {
    let mut cluster = Cluster::start();
    let (list, data) = (cluster[0].list.clone(), cluster[0].data.clone());
    for node in &mut cluster.nodes {
        node.stop();
    }

    // Another node's name in the same cluster.
    let other = &mut cluster[1];
    let others_data = std::mem::replace(&mut other.data, data);
    let (code, line) = refusal(other, &[]);
    assert_eq!(code, Some(1), "{line}");
    for word in ["node a", "is b", "--accept-cluster-change"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    other.data = others_data;

    // The same name in a cluster of other nodes.
    let node = &mut cluster[0];
    node.list = list.replace("c=", "d=");
    let (code, line) = refusal(node, &[]);
    assert_eq!(code, Some(1), "{line}");
    for word in ["a, b, c", "a, b, d", "--accept-cluster-change"] {
        assert!(line.contains(word), "{word}: {line}");
    }

    // Its peers have the old list.
    node.start(&["--accept-cluster-change"]);
    cluster[1].start(&[]);
    cluster[0].until_logged(&["name=\"b\"", "different lists of nodes"]);
    cluster[1].until_logged(&["name=\"a\"", "different lists of nodes"]);
    assert_ne!(cluster[0].state_of("b"), "up");

    // What was accepted is remembered: now the old list is another one.
    let node = &mut cluster[0];
    node.stop();
    node.list = list;
    let (code, line) = refusal(node, &[]);
    assert_eq!(code, Some(1), "{line}");
    node.start(&["--accept-cluster-change"]);
    cluster[2].start(&[]);
    cluster.until_joined();
}

#[test]
fn a_node_with_another_secret_is_refused_by_its_peers() {
    let mut cluster = Cluster::new(places());
    let folder = cluster.folder.path();
    let right = write_secret(folder, "right", "the secret of all nodes\n");
    let wrong = write_secret(folder, "wrong", "the secret of nobody else\n");
    let option = "--cluster-secret-file".to_owned();
    for node in &mut cluster.nodes[..2] {
        node.options = vec![option.clone(), right.clone()];
        node.spawn(&[]);
    }
    cluster[2].options = vec![option.clone(), wrong];
    cluster[2].start(&[]);
    for node in &mut cluster.nodes[..2] {
        node.until_up();
    }

    cluster[0].until_logged(&["WARN", "name=\"c\"", "secret"]);
    cluster[2].until_logged(&["WARN", "name=\"a\"", "secret"]);
    for (node, peer) in [(0, "c"), (1, "c"), (2, "a"), (2, "b")] {
        until("a peer that is down", || {
            (cluster[node].state_of(peer) == "down").then_some(())
        });
    }
    // The others are a cluster without it.
    until("the two to join", || {
        let mut connection = cluster[0].connect().unwrap();
        let put = |connection: &mut Connection, replicas| {
            let target = format!("/v0/entity?id=k&replicas={replicas}");
            connection
                .exchange("PUT", &target, b"value")
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
    cluster.until_joined();
}
