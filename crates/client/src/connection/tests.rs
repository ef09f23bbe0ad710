//! TLS and tokens, with nodes that do and do not speak TLS.

use super::*;
use crate::testing::tls::{TestAuthority, trusting_nobody};
use crate::testing::{PATIENCE, SETTINGS, Script, TestNode};
use crate::{Remedy, Settings, SingleRequest, SingleResponse, Token, fetch};
use rustls::{ClientConfig, HandshakeKind, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;

const ASKED: SingleRequest<'_> = SingleRequest {
    method: "GET",
    target: "/v0/status",
    headers: &[],
    limits: SETTINGS.limits,
    bytes_max: 1 << 20,
};

fn ok() -> Vec<Script> {
    vec![Script::status(200, "", "page")]
}

/// What a node answers to a client with this configuration.
async fn ask(node: &TestNode, config: Arc<ClientConfig>) -> Result<SingleResponse, Error> {
    fetch(&node.node.clone().with_tls(config).unwrap(), &ASKED).await
}

#[tokio::test]
async fn a_node_is_asked_over_tls() {
    let authority = TestAuthority::new();
    let identity = authority.identity("127.0.0.1", false);
    let long = "a".repeat(300_000);
    let script = vec![
        Script::status(200, "", "page"),
        Script::status(200, "", &long),
    ];
    let node = TestNode::with_tls(script, authority.server(&identity));
    let config = authority.client(None);
    assert_eq!(ask(&node, Arc::clone(&config)).await.unwrap().body, b"page");
    // The second connection resumes the session of the first.
    assert_eq!(ask(&node, config).await.unwrap().body, long.as_bytes());
    assert_eq!(node.lines(), ["GET /v0/status", "GET /v0/status"]);
}

#[tokio::test]
async fn a_client_resumes_its_sessions() {
    let authority = TestAuthority::new();
    let server = authority.server(&authority.identity("127.0.0.1", false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, kinds) = channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let connection = ServerConnection::new(Arc::clone(&server)).unwrap();
            let mut stream = StreamOwned::new(connection, listener.accept().unwrap().0);
            let mut head = [0; 1024];
            let _bytes = stream.read(&mut head).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).unwrap();
            sender.send(stream.conn.handshake_kind().unwrap()).unwrap();
        }
    });
    let node = Node::new("127.0.0.1", port)
        .with_tls(authority.client(None))
        .unwrap();
    for _ in 0..2 {
        fetch(&node, &ASKED).await.unwrap();
    }
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        assert_eq!(kinds.recv_timeout(PATIENCE), Ok(kind));
    }
}

#[tokio::test]
async fn nodes_that_are_not_trusted_are_not_asked_again() {
    let authority = TestAuthority::new();
    let server = authority.server(&authority.identity("127.0.0.1", false));
    let node = TestNode::with_tls(ok(), server);
    let patient = Settings {
        retries: u32::MAX,
        ..SETTINGS
    };
    let node = node.node.clone().with_tls(trusting_nobody()).unwrap();
    let client = crate::testing::client_of(vec![node.clone(), node], patient);
    let read = client.get(b"k", crate::Replicas::default()).await;
    assert_eq!(read.unwrap_err().remedy(), Remedy::Identify);
    let mut scan = client.scan(crate::ScanRequest::all(crate::Scope::Cluster));
    assert_eq!(scan.next().await.unwrap_err().remedy(), Remedy::Identify);
}

#[tokio::test]
async fn a_node_that_is_not_trusted_gets_no_request() {
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    for (identity, config, words) in [
        (
            authority.identity("127.0.0.1", false),
            trusting_nobody(),
            "not from an authority that is trusted here",
        ),
        (
            authority.identity("localhost", false),
            authority.client(None),
            "for localhost, not for 127.0.0.1",
        ),
        (
            authority.identity("127.0.0.1", true),
            authority.client(None),
            "has expired",
        ),
        // The node refuses the client.
        (
            authority.identity("127.0.0.1", false),
            authority.client(Some(&other.identity("client", false))),
            "refuses this side's certificate",
        ),
    ] {
        let node = TestNode::with_tls(ok(), authority.server(&identity));
        let error = ask(&node, config).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(error, Error::Distrusted { .. }), "{error:?}");
        assert_eq!(error.remedy(), Remedy::Identify);
        assert_eq!(node.lines(), [""; 0], "{words}");
    }
}

#[tokio::test]
async fn a_client_may_show_a_certificate() {
    let authority = TestAuthority::new();
    let node = authority.identity("127.0.0.1", false);
    let node = TestNode::with_tls(ok(), authority.server(&node));
    let config = authority.client(Some(&authority.identity("client", false)));
    assert_eq!(ask(&node, config).await.unwrap().status, 200);
}

#[tokio::test]
async fn the_wrong_scheme_is_told() {
    let authority = TestAuthority::new();
    let identity = authority.identity("127.0.0.1", false);
    let with_tls = TestNode::with_tls(ok(), authority.server(&identity));
    let error = fetch(&with_tls.node, &ASKED).await.unwrap_err();
    assert!(error.to_string().contains("write https://"), "{error}");
    // A server of HTTP refuses what it cannot read.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut some = [0; 16];
        let _ = stream.read(&mut some);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let node = Node::new("127.0.0.1", port)
        .with_tls(authority.client(None))
        .unwrap();
    let error = fetch(&node, &ASKED).await.unwrap_err();
    assert!(error.to_string().contains("http:// for others"), "{error}");
}

#[tokio::test]
async fn each_request_shows_the_token() {
    let node = TestNode::new(ok());
    let token = Token::parse("kvorum_x").unwrap();
    let showing = node.node.clone().with_token(token);
    fetch(&showing, &ASKED).await.unwrap();
    fetch(&node.node, &ASKED).await.unwrap();
    let client = crate::testing::client_of(vec![showing], SETTINGS);
    // The page is no value, but the request was sent.
    client
        .get(b"k", crate::Replicas::default())
        .await
        .unwrap_err();
    let shown: Vec<bool> = node
        .requests()
        .map(|request| request.header("authorization") == Some("Bearer kvorum_x"))
        .collect();
    assert_eq!(shown, [true, false, true]);
}
