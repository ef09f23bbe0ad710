//! A node that is cut off from the others: they continue to serve, it does not,
//! and once it is back it gets what it missed.

use crate::cluster::outages::others_serve_while_the_last_node_is_down_and_it_catches_up;
use crate::fixtures::cluster::{ClusterNode, NodeLocation, TestCluster, write_secret};
use crate::fixtures::namespaces::Network;

/// Requests with a quorum end in 504, long before the connection of the test gives up.
fn assert_cut_off(node: &ClusterNode) {
    let mut connection = node.connect().unwrap();
    for method in ["PUT", "GET"] {
        let target = "/v0/entity?id=cut-off&ack=2&from=3";
        let answer = connection.request(method, target, "", b"").unwrap();
        assert_eq!(answer.status, 504, "{method}");
    }
    // It can still serve a read from its own store.
    let alone = connection.request("GET", "/v0/entity?id=0-0&ack=1&from=3", "", b"");
    assert_eq!(alone.unwrap().status, 200);
}

#[test]
fn others_serve_without_a_node_that_is_cut_off_and_it_catches_up() {
    let network = match Network::new() {
        Ok(network) => network,
        Err(reason) => {
            eprintln!(
                "skipped: this takes network namespaces and the rights to make them: {reason}"
            );
            return;
        }
    };
    network.switch.within(|| {
        let mut cluster = TestCluster::new([0, 1, 2].map(|index| NodeLocation {
            address: (Network::address(index), 8080).into(),
            launcher: Some(network.hosts[index].launcher()),
        }));
        let secret = write_secret(cluster.folder.path(), "secret", "the secret of all nodes\n");
        for node in &mut cluster.nodes {
            let options = ["--open", "--cluster-secret-file", &secret];
            node.options = options.map(str::to_owned).to_vec();
        }
        cluster.start_all();
        others_serve_while_the_last_node_is_down_and_it_catches_up(
            &mut cluster,
            |node| {
                network.cut(2);
                network.hosts[2].within(|| assert_cut_off(node));
            },
            |_| network.join(2),
        );
    });
}
