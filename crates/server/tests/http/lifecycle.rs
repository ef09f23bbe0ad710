//! Start and stop.

use crate::support::{Client, begin_shutdown, config, gated_disk, seams, start, wait_for_metric};
use cluster::NodeUrl;
use lsm::{Disk, RealDisk};
use lsm_testing::MemoryDisk;
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
    // Idle connections end soon, which shows that the stop has begun.
    idle.assert_closed();
    gate.open();
    let reply = client.reply_to("PUT");
    assert_eq!(reply.status, 201);
    client.assert_closed();
    stopping.join().unwrap().unwrap();
    node.wait();
    assert!(TcpStream::connect(address).is_err(), "the port is closed");
}

/// A request that has arrived is answered although the node has not read it yet: on
/// connections that were idle, on new ones, and on those that only the system has accepted.
#[test]
fn a_stop_answers_the_requests_that_have_arrived() {
    let (disk, gate) = gated_disk();
    let node = Arc::new(Server::start_with(config(), seams(disk)).unwrap());
    let mut idle: Vec<_> = (0..20).map(|_| Client::connect(&node)).collect();
    for client in &mut idle {
        assert_eq!(client.get("/v0/entity?id=b").status, 404);
    }
    gate.close();
    let mut running = Client::connect(&node);
    running.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nv");
    wait_for_metric(&node, "kvorum_requests_in_flight", "1.0");
    // They come while the node stops, and it may find them before or after that.
    let mut new: Vec<_> = (0..20).map(|_| Client::connect(&node)).collect();
    for client in idle.iter_mut().chain(&mut new) {
        client.send("GET /v0/entity?id=b HTTP/1.1\r\nhost: localhost\r\n\r\n");
    }
    let stopping = begin_shutdown(&node);
    for client in idle.iter_mut().chain(&mut new) {
        let reply = client.reply_to("GET");
        assert_eq!(reply.status, 404);
        if reply.header("connection").is_none() {
            // It was answered before the stop.
            continue;
        }
        assert_eq!(reply.header("connection"), Some("close"));
        client.assert_closed();
    }
    gate.open();
    assert_eq!(running.reply_to("PUT").status, 201);
    stopping.join().unwrap().unwrap();
}

/// Nothing keeps such a node, so it waits for the connections that it has not looked at yet.
#[test]
fn a_stop_right_after_requests_on_new_connections_answers_them() {
    for round in 0..10 {
        let node = Arc::new(start());
        let mut clients: Vec<_> = (0..50).map(|_| Client::connect(&node)).collect();
        for client in &mut clients {
            client.send("GET /v0/entity?id=b HTTP/1.1\r\nhost: localhost\r\n\r\n");
        }
        let stopping = begin_shutdown(&node);
        for client in &mut clients {
            assert_eq!(client.reply_to("GET").status, 404, "{round}");
        }
        stopping.join().unwrap().unwrap();
    }
}

/// A client that sends more behind its last request still gets the answer, not a reset.
#[test]
fn requests_behind_the_last_answer_of_a_node_that_stops_take_it_from_nobody() {
    let (disk, gate) = gated_disk();
    let node = Arc::new(Server::start_with(config(), seams(disk)).unwrap());
    let mut idle = Client::connect(&node);
    assert_eq!(idle.get("/v0/status").status, 200);
    gate.close();
    let mut client = Client::connect(&node);
    let put = "PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nv";
    client.send(put);
    wait_for_metric(&node, "kvorum_requests_in_flight", "1.0");
    let stopping = begin_shutdown(&node);
    idle.assert_closed();
    client.send(put.repeat(1000));
    gate.open();
    let reply = client.reply_to("PUT");
    assert_eq!(
        (reply.status, reply.header("connection")),
        (201, Some("close"))
    );
    client.assert_closed();
    stopping.join().unwrap().unwrap();
}

#[test]
fn a_node_listens_on_all_addresses_of_both_families_and_once_on_each() {
    let mut config = config();
    config.trust.open = true;
    config.listen = ["0.0.0.0:0", "[::]:0", "0.0.0.0:0", "127.0.0.1:0"]
        .map(|address| address.parse().unwrap())
        .to_vec();
    let node = match Server::start_with(config, seams(Arc::new(MemoryDisk::new()))) {
        Ok(node) => node,
        Err(StartError::Address { source, .. })
            if source.kind() == std::io::ErrorKind::AddrNotAvailable
                || source.raw_os_error() == Some(97) =>
        {
            return eprintln!("this machine has no IPv6");
        }
        Err(error) => panic!("{error}"),
    };
    let port = node.addresses()[0].port();
    assert_eq!(node.addresses().len(), 2);
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let Ok(stream) = TcpStream::connect(&address) else {
            assert!(address.starts_with("[::1]"), "{address}");
            continue;
        };
        assert_eq!(
            Client::over(stream).get("/health/live").status,
            200,
            "{address}"
        );
    }
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

/// What is wrong with a folder is not said of what it lacks.
#[test]
fn a_folder_that_others_may_write_to_is_refused_before_anything_in_it_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let temporary = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut config = config();
    config.node.data = temporary.path().to_owned();
    config.node.expect_data = true;
    let Err(error) = Server::start_with(config, seams(Arc::new(RealDisk::default()))) else {
        panic!("started in a folder that others may write to");
    };
    assert!(error.to_string().contains("chmod 700"), "{error}");
    assert!(error.is_refusal(), "a restart changes nothing");
}
