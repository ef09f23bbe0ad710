//! Requests over TLS: the same port, the same answers, and who is refused.

use crate::support::authority::{Authority, write};
use crate::support::{
    Client, begin_shutdown, config, gated_disk, seams, start_with, wait_for_metric, wait_until,
};
use cluster::{Member, Members, NodeUrl};
use lsm_testing::MemoryDisk;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, StreamOwned};
use server::{AuditTarget, Server, ServerConfig, StartError, TlsConfig};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A node alone that speaks TLS.
pub(crate) fn with_tls(authority: &Authority, is_optional: bool) -> ServerConfig {
    let mut config = config();
    let url: NodeUrl = "https://127.0.0.1:0".parse().unwrap();
    config.node.members = Members::from(url);
    config.tls = Some(TlsConfig {
        files: authority.issue("node", "127.0.0.1"),
        is_optional,
    });
    config
}

pub(crate) fn tls_stream(node: &Server, config: Arc<ClientConfig>) -> TlsStream {
    let socket = TcpStream::connect(node.addresses()[0]).unwrap();
    tls_stream_over(socket, config)
}

pub(crate) fn tls_stream_over(socket: TcpStream, config: Arc<ClientConfig>) -> TlsStream {
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let host = ServerName::try_from("127.0.0.1").unwrap();
    StreamOwned::new(ClientConnection::new(config, host).unwrap(), socket)
}

pub(crate) fn connect(node: &Server, config: Arc<ClientConfig>) -> Client {
    Client::over(tls_stream(node, config))
}

#[test]
fn requests_over_tls_are_answered_as_without() {
    let authority = Authority::new();
    let node = start_with(with_tls(&authority, false));
    assert!(node.url().is_https());
    let mut client = connect(&node, authority.client(None));
    let long = vec![b'v'; 3 << 20];
    for (id, value) in [("short", &b"value"[..]), ("empty", b""), ("long", &long)] {
        let target = format!("/v0/entity?id={id}");
        assert_eq!(client.put(&target, value).status, 201, "{id}");
        assert!(client.get(&target).body == value, "{id}");
    }
    // Requests that come together are answered together.
    let get = "GET /v0/entity?id=short HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.send(get.repeat(100));
    for _ in 0..100 {
        assert_eq!(client.reply_to("GET").text(), "value");
    }
    let scan = client.get("/v0/entities?start=a");
    assert_eq!(scan.status, 200);
    // A client that closes its side still gets its answer, and TLS ends in order.
    client.send(get);
    client.finish();
    assert_eq!(client.reply_to("GET").text(), "value");
    client.assert_closed();
}

#[test]
fn a_stop_does_not_wait_for_the_first_byte_of_a_client() {
    let authority = Authority::new();
    let (disk, gate) = gated_disk();
    let node = Server::start_with(with_tls(&authority, true), seams(disk));
    let node = Arc::new(node.unwrap());
    let mut silent = TcpStream::connect(node.addresses()[0]).unwrap();
    gate.close();
    let mut client = Client::connect(&node);
    client.send("PUT /v0/entity?id=a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nv");
    wait_for_metric(&node, "kvorum_requests_in_flight", "1.0");
    let stopping = begin_shutdown(&node);
    // It ends while the stop waits for the request, and not with it.
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    gate.open();
    assert_eq!(client.reply_to("PUT").status, 201);
    stopping.join().unwrap().unwrap();
}

/// A handshake that has arrived is completed although the node has not read any of it yet.
#[test]
fn a_stop_answers_the_requests_behind_handshakes_that_have_begun() {
    let authority = Authority::new();
    for round in 0..4 {
        let mut config = with_tls(&authority, false);
        // So that no handshake is shed for another.
        config.set_memory_bytes(4 << 30);
        let node = Arc::new(start_with(config));
        let client = authority.client(None);
        let begun: Vec<_> = (0..100)
            .map(|_| {
                let mut stream = tls_stream(&node, Arc::clone(&client));
                // It follows in the same bytes as the end of the handshake.
                let request = b"GET /v0/entity?id=b HTTP/1.1\r\nhost: localhost\r\n\r\n";
                stream.conn.writer().write_all(request).unwrap();
                stream.conn.write_tls(&mut stream.sock).unwrap();
                stream
            })
            .collect();
        let stopping = begin_shutdown(&node);
        for stream in begun {
            let mut client = Client::over(stream);
            assert_eq!(client.reply_to("GET").status, 404, "{round}");
        }
        stopping.join().unwrap().unwrap();
    }
}

#[test]
fn http_1_1_over_the_newest_tls_is_negotiated_and_nothing_else_is() {
    let authority = Authority::new();
    let node = start_with(with_tls(&authority, false));
    let mut stream = tls_stream(&node, authority.client(None));
    stream
        .write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(
        stream.conn.protocol_version(),
        Some(ProtocolVersion::TLSv1_3)
    );
    let mut other = ClientConfig::clone(&authority.client(None));
    other.alpn_protocols = vec![b"h2".to_vec()];
    let refused = tls_stream(&node, Arc::new(other))
        .write_all(b"PRI")
        .unwrap_err();
    assert!(
        refused.to_string().contains("NoApplicationProtocol"),
        "{refused}"
    );
    let mut client = connect(&node, authority.client(None));
    let metrics = client.get("/metrics");
    let failed = "kvorum_tls_handshakes_failed_total{reason=\"incompatible\"} 1";
    assert!(metrics.text().contains(failed), "{}", metrics.text());
    assert!(metrics.text().contains("kvorum_tls_handshakes_total 2"));
}

#[test]
fn a_request_without_tls_is_told_to_use_it_unless_it_is_optional() {
    let authority = Authority::new();
    let node = start_with(with_tls(&authority, false));
    for first in [
        "GET /v0/status HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n",
    ] {
        let mut client = Client::connect(&node);
        client.send(first);
        let reply = client.reply_to("GET");
        assert_eq!(reply.status, 400);
        let problem = reply.json();
        assert_eq!(problem["type"], "urn:kvorum:problem:tls-required");
        assert!(problem["detail"].as_str().unwrap().contains("https://"));
        client.finish();
        client.assert_closed();
    }
    let mut over_tls = connect(&node, authority.client(None));
    let metrics = over_tls.get("/metrics");
    let failed = "kvorum_tls_handshakes_failed_total{reason=\"plain\"} 2";
    assert!(metrics.text().contains(failed), "{}", metrics.text());

    let both = start_with(with_tls(&authority, true));
    assert_eq!(Client::connect(&both).get("/v0/status").status, 200);
    let mut over_tls = connect(&both, authority.client(None));
    assert_eq!(over_tls.get("/v0/status").status, 200);
    wait_for_metric(&both, "kvorum_tls_connections", "1.0");
}

#[test]
fn a_handshake_that_does_not_go_on_is_cut() {
    let authority = Authority::new();
    let mut config = with_tls(&authority, true);
    config.head_timeout = Duration::from_millis(50);
    let node = start_with(config);
    let mut silent = Client::connect(&node);
    // The head of a record, and the first bytes of what it is to hold.
    silent.send([0x16, 3, 1, 0, 200, 1]);
    silent.assert_closed();
    let slow = "kvorum_tls_handshakes_failed_total{reason=\"slow\"}";
    wait_for_metric(&node, slow, "1");
    wait_for_metric(&node, "kvorum_tls_handshakes_in_flight", "0.0");
}

#[test]
fn a_part_of_a_record_counts_as_the_head_of_a_request() {
    let authority = Authority::new();
    let mut config = with_tls(&authority, true);
    // The handshake has to be complete by then, on a busy machine, too.
    config.head_timeout = Duration::from_secs(2);
    let node = start_with(config);
    let mut stream = tls_stream(&node, authority.client(None));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    let half = [&[23, 3, 3, 0x3f, 0xff][..], &[0; 9 << 10]].concat();
    stream.sock.write_all(&half).unwrap();
    Client::over(stream.sock).rest();
    wait_for_metric(&node, "kvorum_tls_connections", "0.0");
    wait_for_metric(&node, "kvorum_tls_record_bytes", "0.0");
}

#[test]
fn only_a_node_with_its_certificate_becomes_a_peer() {
    let authority = Authority::new();
    let urls: [NodeUrl; 2] =
        ["https://127.0.0.1:7301", "https://127.0.0.2:7302"].map(|url| url.parse().unwrap());
    let members = urls.clone().map(Member::unnamed).to_vec();
    let mut config = with_tls(&authority, false);
    config.node.members = Members::new(members, &urls[0]).unwrap();
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let log = authority.file("audit.ndjson");
    config.trust.audit_log = Some(AuditTarget::File(log.clone()));
    let node = start_with(config);
    let peer = authority.issue("peer", "127.0.0.2");
    let stranger = authority.issue("stranger", "127.0.0.3");
    let upgrade = "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
                   upgrade: kvorum-peer/1\r\n\r\n";
    for (shown, status) in [(None, 403), (Some(&stranger), 403), (Some(&peer), 101)] {
        let mut client = connect(&node, authority.client(shown));
        // A client may show a certificate, or none, for anything else.
        assert_eq!(client.get("/v0/status").status, 200);
        client.send(upgrade);
        assert_eq!(client.head().0, status);
    }
    // A certificate that was verified for an earlier connection does not do.
    let mut resuming = ClientConfig::clone(&authority.client(Some(&peer)));
    resuming.resumption = rustls::client::Resumption::default();
    let resuming = Arc::new(resuming);
    for (session, status) in [(1, 101), (2, 403)] {
        let mut client = connect(&node, Arc::clone(&resuming));
        assert_eq!(client.get("/v0/status").status, 200, "session {session}");
        client.send(upgrade);
        assert_eq!(client.head().0, status, "session {session}");
    }
    let foreign = Authority::new();
    let other = foreign.issue("peer", "127.0.0.2");
    let mut stream = tls_stream(&node, authority.client(Some(&other)));
    // The node refuses the certificate after the client has finished its part.
    let written = stream.write_all(upgrade.as_bytes());
    let mut answer = Vec::new();
    let read = written.and_then(|()| stream.read_to_end(&mut answer));
    let error = read.unwrap_err().to_string();
    assert!(error.contains("received fatal alert"), "{error}");
    assert_eq!(answer, b"");
    drop(node);
    let log = std::fs::read_to_string(log).unwrap();
    let is_refusal = |line: &&str| line.contains("\"no-peer\"") && line.contains("\"status\":403");
    assert_eq!(log.lines().filter(is_refusal).count(), 3, "{log}");
}

#[test]
fn a_cluster_that_moves_to_tls_takes_peers_without_it() {
    let authority = Authority::new();
    let urls: [NodeUrl; 2] =
        ["http://127.0.0.1:7303", "http://127.0.0.2:7304"].map(|url| url.parse().unwrap());
    let members = urls.clone().map(Member::unnamed).to_vec();
    let mut config = with_tls(&authority, true);
    config.node.members = Members::new(members, &urls[0]).unwrap();
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let node = start_with(config);
    let upgrade = "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
                   upgrade: kvorum-peer/1\r\n\r\n";
    let mut plain = Client::connect(&node);
    plain.send(upgrade);
    assert_eq!(plain.head().0, 101);
    let mut unknown = connect(&node, authority.client(None));
    unknown.send(upgrade);
    assert_eq!(
        unknown.head().0,
        403,
        "who speaks TLS has to show a certificate"
    );
}

#[test]
fn new_files_are_used_by_new_connections_and_bad_ones_are_not() {
    let authority = Authority::new();
    let node = start_with(with_tls(&authority, false));
    let mut before = connect(&node, authority.client(None));
    assert_eq!(before.get("/v0/status").status, 200);
    let shown = |node: &Server| {
        let mut stream = tls_stream(node, authority.client(None));
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream.conn.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown(&node);
    authority.issue("node", "127.0.0.1");
    node.reload();
    let mut second = first.clone();
    wait_until("the new certificate", || {
        second = shown(&node);
        second != first
    });
    assert_eq!(before.get("/v0/status").status, 200, "a connection stays");
    write(&authority.file("node.key"), "no key");
    node.reload();
    let mut problem = String::new();
    wait_until("a problem with the files", || {
        let status = before.get("/v0/status").json();
        problem = status["tls"]["problem"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        !problem.is_empty()
    });
    assert!(problem.contains("node.key has no key"), "{problem}");
    assert_eq!(shown(&node), second);
    let metrics = before.get("/metrics");
    for line in ["kvorum_tls_reloads_total 1", "kvorum_tls_files_unusable 1"] {
        assert!(metrics.text().contains(line), "{line}");
    }
}

#[test]
fn a_node_does_not_start_with_files_that_cannot_be_used() {
    let authority = Authority::new();
    let start = |config: ServerConfig| {
        let started = Server::start_with(config, seams(Arc::new(MemoryDisk::new())));
        match started.map(drop) {
            Err(StartError::Tls(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let config = with_tls(&authority, false);
    write(&authority.file("node.pem"), "no certificate");
    assert!(start(config).contains("node.pem has no certificate"));
    // What peers would refuse is refused at once.
    let urls: [NodeUrl; 2] =
        ["https://127.0.0.1:7305", "https://127.0.0.2:7306"].map(|url| url.parse().unwrap());
    let mut config = with_tls(&authority, false);
    authority.issue("node", "127.0.0.9");
    let members = urls.clone().map(Member::unnamed).to_vec();
    config.node.members = Members::new(members, &urls[0]).unwrap();
    let line = start(config);
    assert!(
        line.contains("not for 127.0.0.1, the host of --url"),
        "{line}"
    );
    assert!(!line.contains('\n'), "{line}");
}
