//! Start and stop.

use crate::support::{Client, begin_shutdown, config, gated_disk, seams, start, wait_for_metric};
use cluster::NodeUrl;
use lsm::{Disk, MemoryDisk};
use node::OpenError;
use server::{Server, ServerConfig, StartError};
use std::net::TcpStream;
use std::sync::Arc;

#[test]
fn a_restarted_node_has_its_data() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let node = Server::start_with(config(), seams(Arc::clone(&disk))).unwrap();
    let mut client = Client::connect(&node);
    let put = client.put("/v0/entity?id=a", b"value");
    node.shutdown().unwrap();
    drop(node);
    let node = Server::start_with(config(), seams(Arc::clone(&disk))).unwrap();
    let mut client = Client::connect(&node);
    let get = client.get("/v0/entity?id=a");
    assert_eq!((get.text(), get.version()), ("value", put.version()));
    let later = client.put("/v0/entity?id=b", b"value");
    assert!(later.version() > put.version());
}

#[test]
fn a_node_runs_on_the_real_clock_disk_and_network() {
    let folder = tempfile::tempdir().unwrap();
    let url: NodeUrl = "http://localhost:0".parse().unwrap();
    let config = ServerConfig::new(url, folder.path().join("store"));
    let node = Server::start(config).unwrap();
    let port = node.addresses()[0].port();
    assert!(
        node.addresses()
            .iter()
            .all(|address| address.port() == port)
    );
    assert_eq!(node.url().to_string(), format!("http://localhost:{port}"));
    let mut client = Client::connect(&node);
    assert_eq!(client.put("/v0/entity?id=a", b"value").status, 201);
    assert_eq!(client.get("/v0/entity?id=a").text(), "value");
    node.shutdown().unwrap();
}

#[test]
fn a_stop_lets_admitted_requests_end() {
    let (disk, gate) = gated_disk();
    let node = Arc::new(Server::start_with(config(), seams(disk)).unwrap());
    let address = node.addresses()[0];
    let mut idle = Client::connect(&node);
    assert_eq!(idle.get("/v0/status").status, 200);
    gate.close();
    let mut client = Client::connect(&node);
    client.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nv");
    wait_for_metric(&node, "kvorum_requests_in_flight", "1.0");
    let stopping = begin_shutdown(&node);
    // Idle connections end at once, which shows that the stop has begun.
    idle.assert_closed();
    gate.open();
    let reply = client.reply_to("PUT");
    assert_eq!(reply.status, 201);
    client.assert_closed();
    stopping.join().unwrap().unwrap();
    node.wait();
    assert!(TcpStream::connect(address).is_err(), "the port is closed");
}

#[test]
fn a_start_that_fails_says_why() {
    let node = start();
    let mut taken = config();
    taken.listen = vec![node.addresses()[0]];
    let Err(error) = Server::start_with(taken, seams(Arc::new(MemoryDisk::new()))) else {
        panic!("started on an address that is in use");
    };
    assert!(matches!(error, StartError::Address { .. }), "{error}");

    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let _first = Server::start_with(config(), seams(Arc::clone(&disk))).unwrap();
    let Err(error) = Server::start_with(config(), seams(disk)) else {
        panic!("opened a store that is in use");
    };
    assert!(
        matches!(error, StartError::Node(OpenError::Store(_))),
        "{error}"
    );
}

/// A folder whose disk is not mounted is empty.
#[test]
fn a_folder_without_a_store_is_refused_where_data_is_expected() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let start = |expect_data| {
        let mut config = config();
        config.node.expect_data = expect_data;
        Server::start_with(config, seams(Arc::clone(&disk)))
    };
    for _ in 0..2 {
        let Err(error) = start(true) else {
            panic!("started without a store");
        };
        let is_refused = matches!(error, StartError::Node(OpenError::NoStore(_)));
        assert!(is_refused, "{error}");
    }
    let created = |node: &Server| {
        let status = Client::connect(node).get("/v0/status");
        let status: serde_json::Value = serde_json::from_slice(&status.body).unwrap();
        status["store"]["created_unix_ms"].as_u64().unwrap()
    };
    let node = start(false).unwrap();
    let first = created(&node);
    node.shutdown().unwrap();
    drop(node);
    let node = start(true).unwrap();
    assert_eq!(created(&node), first);
}
