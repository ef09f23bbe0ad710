use super::*;
use crate::testing::certificates::pair;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::net::TcpListener;
use std::time::Duration;

/// How long a test waits for the other side. It is long, because only a test that fails waits
/// for all of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket and the server at its other end, once they have shaken hands.
fn connected(
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
) -> (Socket, StreamOwned<ServerConnection, TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    // They end a test that would wait for ever.
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let tls = TargetTls::new(client, "127.0.0.1").unwrap();
    let mut socket = Socket::new(stream, Some(&tls)).unwrap();
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let connection = ServerConnection::new(server).unwrap();
            let accepted = listener.accept().unwrap().0;
            accepted.set_read_timeout(Some(PATIENCE)).unwrap();
            accepted.set_write_timeout(Some(PATIENCE)).unwrap();
            let mut stream = StreamOwned::new(connection, accepted);
            stream.write_all(b"hello").unwrap();
            stream
        });
        assert!(socket.shake_hands().unwrap());
        let mut hello = [0; 5];
        socket.read_exact(&mut hello).unwrap();
        (socket, accepted.join().unwrap())
    })
}

#[test]
fn bytes_that_the_system_has_handed_over_are_still_there() {
    let (server, client) = pair();
    let (mut socket, mut server) = connected(server, client);
    assert!(!socket.has_unread());
    server.write_all(b"abc").unwrap();
    for (letter, has_unread) in [(b'a', true), (b'b', true), (b'c', false)] {
        let mut read = [0];
        assert_eq!(socket.read(&mut read).unwrap(), 1);
        assert_eq!((read, socket.has_unread()), ([letter], has_unread));
    }
}

#[test]
fn what_was_taken_is_sent_once_there_is_room() {
    let (server, client) = pair();
    let (mut socket, mut server) = connected(server, client);
    socket.stream.set_nonblocking(true).unwrap();
    let is_full = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let bytes = [7; 10_000];
    let mut taken = 0;
    loop {
        match socket.write(&bytes) {
            Ok(more) => taken += more,
            Err(error) => break assert!(is_full(&error), "{error}"),
        }
    }
    assert!(socket.has_unsent());
    assert!(is_full(&socket.flush().unwrap_err()));
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; taken];
        server.read_exact(&mut received).unwrap();
        received
    });
    socket.stream.set_nonblocking(false).unwrap();
    socket.flush().unwrap();
    assert!(!socket.has_unsent());
    assert!(reader.join().unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn a_cut_connection_is_no_end() {
    let (server, client) = pair();
    let (mut socket, mut stream) = connected(server, client);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    let (server, client) = pair();
    let (mut socket, stream) = connected(server, client);
    drop(stream);
    let error = socket.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}
