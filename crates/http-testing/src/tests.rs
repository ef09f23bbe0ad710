//! What is read of a connection whose other side sends bytes and closes it.

use crate::{Connection, Reply};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::panic::catch_unwind;

/// The two ends of a connection.
fn pair() -> [Connection; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = Connection::connect(listener.local_addr().unwrap()).unwrap();
    [one, Connection::over(listener.accept().unwrap().0).unwrap()]
}

/// A connection on which a response with this head comes, what follows it, and the end.
fn told(head: &str, rest: &str) -> Connection {
    let [connection, mut other] = pair();
    other.send(format!("{head}\r\n\r\n{rest}")).unwrap();
    connection
}

fn reply(head: &str, rest: &str) -> io::Result<Reply> {
    told(head, rest).reply_to("GET")
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked";

#[test]
fn responses_are_read_as_their_heads_say() {
    for (method, head, after, body, rest) in [
        ("GET", "200 OK\r\nContent-Length: 2", "abc", "ab", "c"),
        ("GET", "200 OK\r\nA:  b", "abc", "abc", ""),
        ("HEAD", "200 OK\r\nContent-Length: 2", "abc", "", "abc"),
        ("GET", "204 No", "next", "", "next"),
        ("GET", "304 No\r\ncontent-length: 9", "next", "", "next"),
        ("PUT", "100 Continue", "next", "", "next"),
    ] {
        let mut connection = told(&format!("HTTP/1.1 {head}"), after);
        let reply = connection.reply_to(method).unwrap();
        assert_eq!(reply.status.to_string(), head[..3]);
        assert_eq!((reply.text(), reply.chunks.len()), (body, 0), "{head:?}");
        assert_eq!(connection.rest().unwrap(), rest.as_bytes(), "{head:?}");
    }
    let chunks = "2\r\nab\r\n1\r\nc\r\n0\r\n";
    let answer = reply(CHUNKED, &format!("{chunks}X: 1\r\n\r\n")).unwrap();
    assert_eq!((answer.text(), answer.chunks.len()), ("abc", 2));
    assert_eq!(answer.trailer("x"), Some("1"));
    let mut by_chunk = told(CHUNKED, &format!("{chunks}\r\nnext"));
    assert_eq!(by_chunk.head().unwrap().0, 200);
    let chunks: Vec<_> = std::iter::from_fn(|| by_chunk.chunk().unwrap()).collect();
    assert_eq!(chunks, [b"ab".to_vec(), b"c".to_vec()]);
    assert_eq!(by_chunk.rest().unwrap(), b"next");
}

#[test]
fn what_ends_early_is_an_error_and_what_is_malformed_a_panic() {
    let length = "HTTP/1.1 200 OK\r\ncontent-length: ";
    for (head, rest) in [
        (&*format!("{length}2"), "a"),
        (CHUNKED, "2\r\nab\r\n"),
        (CHUNKED, "0\r\n"),
        (CHUNKED, "0\r\nx: 1\r"),
    ] {
        let error = reply(head, rest).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{head:?} {rest:?}");
    }
    for (head, rest) in [
        ("HTTP/2.0 200 OK", ""),
        ("HTTP/1.1 2000 OK", ""),
        ("HTTP/1.1 abc OK", ""),
        ("HTTP/1.1 200 OK\n", ""),
        ("HTTP/1.1 200 OK\r\nno colon", ""),
        (&*format!("{length}x"), ""),
        (&*format!("{length}0\r\nContent-Length: 0"), ""),
        (&*format!("{CHUNKED}\r\ncontent-length: 1"), "0\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip", ""),
        (CHUNKED, "x\r\n"),
        (CHUNKED, "1\r\nabc\r\n0\r\n\r\n"),
    ] {
        let read = catch_unwind(|| reply(head, rest));
        assert!(read.is_err(), "{head:?} {rest:?}");
    }
}

#[test]
fn a_request_is_received_as_it_was_sent() {
    let [mut client, mut server] = pair();
    let chunked = "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
    client.send(chunked).unwrap();
    server.send("HTTP/1.1 201 \r\nA: b\r\n\r\n").unwrap();
    server.finish().unwrap();
    let reply = client.request("POST", "/b?c", "D: e\r\n", b"f").unwrap();
    assert_eq!((reply.status, reply.header("a")), (201, Some("b")));
    client.finish().unwrap();
    let first = server.receive().unwrap();
    assert_eq!((&*first.method, &*first.target), ("PUT", "/a"));
    assert_eq!(first.body, b"ab");
    let second = server.receive().unwrap();
    assert_eq!((&*second.target, &*second.body), ("/b?c", &b"f"[..]));
    assert_eq!(second.header("d"), Some("e"));
    let end = server.receive().unwrap_err();
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
}
