use super::*;
use crate::net::connection_slots::ConnectionScope;
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A socket that notes how much room hyper has for what it reads.
struct NotedSocket {
    socket: Socket,
    room: Rc<Cell<usize>>,
}

impl hyper::rt::Read for NotedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.room.set(self.room.get().max(buffer.remaining()));
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for NotedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// A channel, and the other end of its connection.
async fn connected(progress: &Rc<ConnectionProgress>) -> (Rc<Channel>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let buffers = Rc::new(Buffers::new(
        Quota::new(0),
        crate::net::unsent_answers::unsent_answers(0),
    ));
    let channel = Channel::new(Wire::Plain(stream), buffers, Rc::clone(progress));
    (channel, client)
}

/// Hyper keeps its buffer until the connection ends, and no quota counts it.
#[tokio::test]
async fn a_long_body_leaves_hyper_with_a_small_buffer() {
    const BODY_BYTES: usize = 4 << 20;
    let progress = Rc::new(ConnectionProgress::new(
        Rc::default(),
        ConnectionScope::AnyRequest,
    ));
    let (channel, mut client) = connected(&progress).await;
    let (room, received) = (Rc::<Cell<usize>>::default(), Cell::new(0));
    let socket = NotedSocket {
        socket: Socket(channel),
        room: Rc::clone(&room),
    };
    let service = service_fn(|request: Request<Incoming>| {
        progress.request_begins();
        async {
            let mut body = request.into_body();
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                let piece = frame.unwrap().into_data().unwrap();
                received.set(received.get() + piece.len());
            }
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let served = http1::Builder::new().serve_connection(socket, service);
    let sent = async {
        let head =
            format!("PUT / HTTP/1.1\r\nconnection: close\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(&vec![b'v'; BODY_BYTES]).await.unwrap();
    };
    let (served, ()) = tokio::join!(served, sent);
    served.unwrap();
    assert_eq!(received.get(), BODY_BYTES);
    assert!(
        (1..=2 * READ_BUFFER_BYTES).contains(&room.get()),
        "{}",
        room.get()
    );
}

/// What a channel does with a write of many short parts, which are longer than an answer that
/// it gathers.
#[tokio::test]
async fn of_a_scan_more_is_gathered_than_of_other_answers() {
    let progress = Rc::new(ConnectionProgress::new(
        Rc::default(),
        ConnectionScope::AnyRequest,
    ));
    let (channel, mut client) = connected(&progress).await;
    let part = [b'v'; 1 << 10];
    let parts = [IoSlice::new(&part); 20];
    let bytes = parts.len() * part.len();
    let write = |channel: &Channel| {
        let written =
            channel.poll_write(&mut task::Context::from_waker(task::Waker::noop()), &parts);
        assert!(matches!(written, Poll::Ready(Ok(written)) if written == bytes));
        channel.gathered.borrow().len()
    };
    assert_eq!(write(&channel), 0, "a long answer is written through");
    let gathering = channel.gather_scan();
    assert_eq!(
        [(); 4].map(|()| write(&channel)),
        [bytes, 2 * bytes, 3 * bytes, bytes]
    );
    drop(gathering);
    assert_eq!(write(&channel), 0, "the scan has ended");
    let mut received = vec![0; 6 * bytes];
    client.read_exact(&mut received).await.unwrap();
    assert!(received.iter().all(|byte| *byte == b'v'));
}
