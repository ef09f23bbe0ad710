//! Clients that leave TLS handshakes and records incomplete, beside clients and peers that
//! do not.

use crate::support::authority::Authority;
use crate::support::{Client, connected_from, start_with, wait_for_metric, wait_until};
use crate::trust::tls::{TlsStream, tls_stream, tls_stream_over, with_tls};
use base::{Clock, SystemClock};
use cluster::{Member, Members, NodeUrl};
use http_testing::Connection;
use rustls::{ServerConnection, StreamOwned};
use server::{Server, ServerConfig};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tls::{Expected, NodeTls};

/// How many handshakes of clients a node with the least memory and one runtime takes.
const PLACES: usize = 16;

/// The head of a record of a handshake, and the first bytes of what it is to hold.
const BEGUN: [u8; 6] = [0x16, 3, 1, 0, 200, 1];

/// A connection from an address that has sent the beginning of a handshake.
fn begun_from(address: Ipv4Addr, node: SocketAddr) -> TcpStream {
    let mut stream = connected_from(address, node);
    stream.write_all(&BEGUN).unwrap();
    stream
}

/// Sends the first message of a handshake, and waits until the node has begun it.
fn begin(stream: &mut TlsStream) {
    stream.conn.write_tls(&mut stream.sock).unwrap();
}

fn complete(mut stream: TlsStream) -> Client {
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    Client::over(stream)
}

#[test]
fn a_flood_of_handshakes_from_one_address_cuts_off_no_other_client() {
    let authority = Authority::new();
    let mut config = with_tls(&authority, true);
    config.threads = 1;
    config.head_timeout = Duration::from_secs(3600);
    config.set_memory_bytes(128 << 20);
    let node = start_with(config);
    let mut honest = tls_stream(&node, authority.client(None));
    begin(&mut honest);
    wait_for_metric(&node, "kvorum_tls_handshakes_in_flight", "1.0");
    let flood: Vec<_> = (0..3 * PLACES)
        .map(|_| begun_from(Ipv4Addr::new(127, 0, 0, 2), node.addresses()[0]))
        .collect();
    let shed = "kvorum_tls_handshakes_failed_total{reason=\"shed\"}";
    let cut = flood.len() + 1 - PLACES;
    wait_for_metric(&node, shed, &cut.to_string());
    assert_eq!(complete(honest).get("/v0/status").status, 200);
    wait_for_metric(&node, shed, &cut.to_string());
}

/// Waits for a metric on a connection that is there already.
fn wait_for_metric_on(client: &mut Client, line: &str) {
    wait_until(line, || {
        let metrics = client.get("/metrics");
        metrics.text().lines().any(|found| found == line)
    });
}

/// A node with a peer at this URL.
fn with_peer(authority: &Authority, peer: &str) -> ServerConfig {
    let urls: [NodeUrl; 2] = ["https://127.0.0.1:7307", peer].map(|url| url.parse().unwrap());
    let members = urls.clone().map(Member::unnamed).to_vec();
    let mut config = with_tls(authority, true);
    config.node.members = Members::new(members, &urls[0]).unwrap();
    config.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.threads = 1;
    config.head_timeout = Duration::from_secs(3600);
    config.set_memory_bytes(128 << 20);
    config
}

/// Lets a node that dials reach a peer: upgrades its connection, and waits until it goes on.
fn be_reached(listener: &TcpListener, peer: &NodeTls) -> io::Result<Connection> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(false)?;
    let tls = ServerConnection::new(peer.server()).map_err(io::Error::other)?;
    let mut connection = Connection::over(StreamOwned::new(tls, socket))?;
    connection.receive()?;
    connection.send("HTTP/1.1 101 Switching Protocols\r\nupgrade: kvorum-peer/1\r\n\r\n")?;
    connection.take(1)?;
    Ok(connection)
}

/// A flood from many addresses cuts the oldest handshake, whoever began it: but not that of a
/// peer which the node has reached and which has never come itself.
#[test]
fn a_peer_that_was_reached_is_not_kept_out() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let shown = authority.issue("peer", "127.0.0.2");
    let now_unix_s = SystemClock::new().unix_ms() / 1000;
    let peer = NodeTls::load(shown.clone(), Expected::default(), now_unix_s).unwrap();
    let node: Server = start_with(with_peer(&authority, &format!("https://{address}")));
    let mut reached = None;
    wait_until("the node dials", || {
        reached = be_reached(&listener, &peer).ok();
        reached.is_some()
    });
    let listener = node.addresses()[0];
    let socket = connected_from(Ipv4Addr::new(127, 0, 0, 2), listener);
    let mut coming = tls_stream_over(socket, authority.client(Some(&shown)));
    begin(&mut coming);
    wait_for_metric(&node, "kvorum_tls_handshakes_in_flight", "1.0");
    let flood: Vec<_> = (0..3 * PLACES as u8)
        .map(|last| begun_from(Ipv4Addr::new(127, 0, 1, last + 1), listener))
        .collect();
    let shed = "kvorum_tls_handshakes_failed_total{reason=\"shed\"}";
    let cut = flood.len() - PLACES;
    wait_for_metric(&node, shed, &cut.to_string());
    let mut coming = complete(coming);
    coming.send(
        "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
         upgrade: kvorum-peer/1\r\n\r\n",
    );
    assert_eq!(coming.head().0, 101);
}

#[test]
fn clients_that_take_all_handshakes_and_slots_keep_no_peer_out() {
    let authority = Authority::new();
    let mut config = with_peer(&authority, "https://127.0.0.2:7308");
    config.connections_max = PLACES + 1;
    let node: Server = start_with(config);
    let mut watching = Client::connect(&node);
    assert_eq!(watching.get("/v0/status").status, 200);
    let _flood: Vec<_> = (0..PLACES as u8)
        .map(|last| begun_from(Ipv4Addr::new(127, 0, 1, last + 1), node.addresses()[0]))
        .collect();
    let in_flight = |count: usize| format!("kvorum_tls_handshakes_in_flight {count}.0");
    wait_for_metric_on(&mut watching, &in_flight(PLACES));
    let shown = authority.issue("peer", "127.0.0.2");
    let peer = tls_stream(&node, authority.client(Some(&shown)));
    let mut peer = complete(peer);
    peer.send(
        "GET /v0/peer HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
         upgrade: kvorum-peer/1\r\n\r\n",
    );
    assert_eq!(peer.head().0, 101);
    wait_for_metric_on(&mut watching, &in_flight(PLACES));
    let none_cut = "kvorum_tls_handshakes_failed_total{reason=\"shed\"} 0";
    wait_for_metric_on(&mut watching, none_cut);
}

#[test]
fn clients_that_leave_records_incomplete_close_no_connection_that_uploads() {
    let authority = Authority::new();
    let mut config = with_tls(&authority, true);
    config.threads = 1;
    config.head_timeout = Duration::from_secs(3600);
    config.body_timeout = Duration::from_secs(3600);
    config.set_memory_bytes(128 << 20);
    let node = start_with(config);
    // A record of 16 KiB, of which 15 KiB are sent: 12 KiB count, and there is room for 85.
    let part = [&[23, 3, 3, 0x40, 0][..], &[0; 15 << 10]].concat();
    let stalled: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = tls_stream(&node, authority.client(None));
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock).unwrap();
            }
            stream.sock.write_all(&part).unwrap();
            stream
        })
        .collect();
    wait_for_metric(&node, "kvorum_tls_records_cut_total", "15");
    // A body that comes in parts of records.
    let mut upload = tls_stream(&node, authority.client(None));
    while upload.conn.is_handshaking() {
        upload.conn.complete_io(&mut upload.sock).unwrap();
    }
    let head = "PUT /v0/entity?id=k HTTP/1.1\r\nhost: localhost\r\ncontent-length: 65536\r\n\r\n";
    upload.conn.writer().write_all(head.as_bytes()).unwrap();
    upload.conn.writer().write_all(&[b'v'; 60 << 10]).unwrap();
    let mut encrypted = Vec::new();
    while upload.conn.wants_write() {
        upload.conn.write_tls(&mut encrypted).unwrap();
    }
    let (first, rest) = encrypted.split_at(14 << 10);
    upload.sock.write_all(first).unwrap();
    wait_for_metric(&node, "kvorum_tls_records_cut_total", "16");
    upload.sock.write_all(rest).unwrap();
    upload.conn.writer().write_all(&[b'v'; 4 << 10]).unwrap();
    let mut client = complete(upload);
    assert_eq!(client.reply_to("PUT").status, 201);
    drop(stalled);
    wait_for_metric(&node, "kvorum_tls_record_bytes", "0.0");
}
