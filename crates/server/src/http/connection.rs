//! Drives hyper over a connection until it ends, or until it becomes a peer's.

use crate::http::problem::Problem;
use crate::http::request::head::{FIELD_BYTES_MAX, TARGET_BYTES_MAX};
use crate::net::channel::{Channel, SCRATCH_BYTES, Socket};
use crate::net::connection_slots::ConnectionSlot;
use crate::net::slow_clients::{ConnectionProgress, Phase};
use crate::net::tls::Entered;
use crate::net::wire::Wire;
use crate::net::{LAST_REQUESTS, Listener, Registered};
use crate::trust::audit::{Event, EventKind};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll, ready};
use tokio::net::TcpStream;

/// Hyper's bound for its own buffers: the longest head, which holds two keys
/// with every byte escaped (2 x 12 KiB) and leaves room for headers.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How many fields a head may have: hyper's bound.
const HEAD_FIELDS_MAX: usize = 100;

/// The answer to a client that begins with the preface of HTTP/2 (RFC 9113), in HTTP/2:
/// the server's preface, an empty SETTINGS frame, and a GOAWAY frame with
/// `HTTP_1_1_REQUIRED`, which makes the client give up at once.
const HTTP_1_1_REQUIRED: [u8; 26] = [
    0, 0, 0, 4, 0, 0, 0, 0, 0, // SETTINGS: no bytes, no flags, stream 0.
    0, 0, 8, 7, 0, 0, 0, 0, 0, // GOAWAY: 8 bytes, no flags, stream 0.
    0, 0, 0, 0, // No stream was processed.
    0, 0, 0, 0x0d, // HTTP_1_1_REQUIRED
];

/// Where connections of peers begin.
const PEER_PATH: &str = "/v0/peer";

/// How HTTP ended on a connection.
enum End {
    /// In order, or because the client closed the connection.
    Closed,
    /// The connection becomes a peer's, which has already sent these bytes.
    Upgraded(Bytes),
    /// With an error of hyper.
    Failed(hyper::Error),
    /// With a head that is too long, or that announces too long a body.
    TooLong {
        /// Whether it is the head.
        is_head: bool,
    },
    /// With an error of the socket.
    Broken,
    /// The node gave the connection up.
    Cut,
}

/// Serves a connection, which is registered at its listener, until it ends.
///
/// A panic in here is a bug that ends only this connection: tokio catches it, the
/// panic hook logs it, and every guard that the request holds (its permit, its reservation
/// of the memory, its place in the queue) frees what it took when it is dropped. State
/// that connections share changes only in steps that cannot panic half way.
pub(crate) async fn serve(
    listener: Rc<Listener>,
    stream: TcpStream,
    slot: &ConnectionSlot,
    progress: Rc<ConnectionProgress>,
    registered: Registered,
) {
    let new_channel = |wire| Channel::new(wire, Rc::clone(&listener.buffers), Rc::clone(&progress));
    let channel = match listener.enter(stream, &progress).await {
        Entered::Wire(wire) => new_channel(wire),
        Entered::RefusedPlain(stream) => {
            let channel = new_channel(Wire::Plain(stream));
            let problem = Problem::tls_required();
            listener
                .metrics
                .requests
                .answered_unparsed(problem.status());
            channel.gather(&problem.into_last_bytes());
            return close(&channel, true).await;
        }
        Entered::Ended => return,
    };
    let _shed = channel
        .wire
        .borrow()
        .tls()
        .map(|_| listener.metrics.tls.count_connection());
    match drive(&listener, &channel).await {
        // More requests may have arrived behind the last one that a node answers that stops.
        End::Closed => {
            let lingers =
                progress.is_lingering() || (listener.is_stopping() && channel.has_unread());
            close(&channel, lingers).await;
        }
        End::TooLong { is_head } => {
            let problem = too_long(&listener, channel.take_bare_answer(), is_head);
            listener
                .metrics
                .requests
                .answered_unparsed(problem.status());
            channel.gather(&problem.into_last_bytes());
            close(&channel, true).await;
        }
        End::Failed(error) if error.is_parse() => {
            if error.is_parse_version_h2() {
                channel.gather(&HTTP_1_1_REQUIRED);
            } else {
                let status = StatusCode::BAD_REQUEST;
                listener.metrics.requests.answered_unparsed(status);
            }
            close(&channel, true).await;
        }
        End::Upgraded(received) => {
            let written = run_until_cut(&channel, Channel::poll_flush).await;
            let client = channel.client();
            let is_peer = Cell::new(false);
            // A peer's connection has timeouts of its own, and a node that stops does
            // not wait for its end.
            drop(registered);
            if let (Ok(()), Some(channel)) = (written, Rc::into_inner(channel)) {
                listener
                    .worker
                    .welcome(
                        channel.into_stream(),
                        received,
                        progress.is_for_lists(),
                        || {
                            is_peer.set(true);
                            slot.promote_to_peer();
                            listener.remember_peer(client);
                        },
                    )
                    .await;
                if let Some(audit) = listener.trust().audit().filter(|_| !is_peer.get()) {
                    let event = Event {
                        client,
                        path: Some(PEER_PATH),
                        ..Event::default()
                    };
                    audit.note(EventKind::NoPeer, &event);
                }
            }
        }
        // Another answer that is half sent must not be continued by this one.
        End::Failed(_) if channel.is_head_refused() && !progress.is_blocked() => {
            let problem = Problem::overloaded();
            listener
                .metrics
                .requests
                .answered_unparsed(problem.status());
            channel.gather(&problem.into_last_bytes());
            close(&channel, true).await;
        }
        End::Failed(error) => {
            tracing::debug!(%error, "a connection ended early");
            // Sends the answers that are gathered, as far as the kernel takes them now.
            poll_fn(|cx| Poll::Ready(channel.poll_flush(cx).is_ready())).await;
        }
        End::Broken => tracing::debug!("a connection broke"),
        End::Cut => {
            // The reset also discards what the kernel still holds of the answer.
            if progress.is_blocked() {
                let reset = channel.wire.borrow().socket().set_zero_linger();
                if let Err(error) = reset {
                    tracing::debug!(%error, "cannot reset a connection");
                }
            }
        }
    }
}

/// The problem in place of hyper's own answer to what is too long. Hyper tells a long target
/// apart, but gives `431` to a length of a body above its own bound of 2^64 - 3.
fn too_long(listener: &Listener, answered: Option<StatusCode>, is_head: bool) -> Problem {
    match answered {
        Some(StatusCode::URI_TOO_LONG) => Problem::target_too_long(TARGET_BYTES_MAX),
        _ if is_head => Problem::fields_too_long(FIELD_BYTES_MAX),
        _ => Problem::value_too_long(listener.value_bytes_max()),
    }
}

/// Whether hyper has not taken a head as a whole, because of its length: it leaves such a head
/// in its buffer, and takes it out before it looks at the fields. Then the buffer begins with
/// the body, which has no bound but the buffer's.
fn is_long_head(buffer: &[u8]) -> bool {
    let lines = buffer.trim_ascii_start();
    let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
    let is_request = lines.next().is_some_and(|line| {
        let method = memchr::memchr(b' ', line).and_then(|end| line.get(..end));
        let has_method = method.is_some_and(|method| method.iter().all(u8::is_ascii_uppercase));
        let has_version =
            |line: &[u8]| line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0");
        has_method && whole_line(line).is_none_or(has_version)
    });
    let fields = lines
        .take_while(|line| whole_line(line) != Some(b""))
        .count();
    is_request && (buffer.len() >= HEAD_BYTES_MAX || fields >= HEAD_FIELDS_MAX)
}

/// A line without its end; `None` if that is not here.
fn whole_line(line: &[u8]) -> Option<&[u8]> {
    line.strip_suffix(b"\n").map(<[u8]>::trim_ascii_end)
}

async fn drive(listener: &Rc<Listener>, channel: &Rc<Channel>) -> End {
    let progress = &channel.progress;
    let service = service_fn(|request| {
        let (listener, channel) = (Rc::clone(listener), Rc::clone(channel));
        async move {
            let response = crate::http::answer(&listener, &channel, request).await;
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        // A client may close its side once it has sent its request (as `nc` does) and
        // still wait for the answer.
        .half_close(true)
        .max_buf_size(HEAD_BYTES_MAX)
        .header_read_timeout(None)
        .serve_connection(Socket(Rc::clone(channel)), service);
    let mut connection = connection;
    let mut is_shut = false;
    // A connection that comes while the node stops has as long for its request as the others.
    let fresh = listener
        .is_stopping()
        .then(|| tokio::time::sleep(LAST_REQUESTS));
    let mut fresh = pin!(fresh);
    let end = poll_fn(|cx| {
        progress.remember(cx.waker());
        if progress.is_cut() {
            return Poll::Ready(End::Cut);
        }
        loop {
            match Pin::new(&mut connection).poll(cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(End::Closed),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Failed(error)),
                Poll::Pending => {}
            }
            if let Poll::Ready(Err(_)) = channel.poll_flush(cx) {
                return Poll::Ready(End::Broken);
            }
            if is_shut || !listener.is_closing() || !channel.is_at_rest() {
                return Poll::Pending;
            }
            if let Some(fresh) = fresh.as_mut().as_pin_mut() {
                ready!(fresh.poll(cx));
            }
            is_shut = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
    })
    .await;
    match end {
        End::Closed if progress.is_upgraded() => End::Upgraded(connection.into_parts().read_buf),
        End::Failed(error) if error.is_parse_too_large() => End::TooLong {
            is_head: is_long_head(&connection.into_parts().read_buf),
        },
        end => end,
    }
}

/// Closes a connection in order. Hyper does so in most cases, but not when a client
/// asked for an upgrade and did not get it.
async fn close(channel: &Channel, lingers: bool) {
    match run_until_cut(channel, Channel::poll_shutdown).await {
        Ok(()) if lingers => linger(channel).await,
        Ok(()) => {}
        Err(error) => tracing::debug!(%error, "a connection ended before its last answer"),
    }
}

/// Polls work that may wait for the client, until the node gives the connection up.
async fn run_until_cut(
    channel: &Channel,
    poll: impl Fn(&Channel, &mut task::Context<'_>) -> Poll<io::Result<()>>,
) -> io::Result<()> {
    poll_fn(|cx| {
        channel.progress.remember(cx.waker());
        if channel.progress.is_cut() {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        } else {
            poll(channel, cx)
        }
    })
    .await
}

/// Reads and discards what a client still sends after its request was refused. Closing
/// at once would reset the connection, and the client might lose the answer with it.
/// The check for slow clients bounds the time, and the time bounds the bytes.
async fn linger(channel: &Channel) {
    channel.progress.enter(Phase::Lingering);
    poll_fn(|cx| {
        channel.progress.remember(cx.waker());
        // A fast sender must not keep other connections waiting.
        for _ in 0..16 {
            if channel.progress.is_cut() {
                return Poll::Ready(());
            }
            match channel.poll_read(cx, SCRATCH_BYTES, |_| {}) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_refused_request_is_its_head_only_if_it_was_too_long() {
        let fields = "a: b\r\n".repeat(HEAD_FIELDS_MAX);
        let long = "a".repeat(HEAD_BYTES_MAX);
        for (buffer, expected) in [
            (format!("GET / HTTP/1.1\r\n{fields}\r\n"), true),
            (format!("GET / HTTP/1.0\n{fields}a: b\r\n"), true),
            (format!("GET / HTTP/1.1\r\na: {long}"), true),
            (format!("\r\nGET /{long}"), true),
            (String::new(), false),
            ("\n".repeat(HEAD_BYTES_MAX), false),
            ("a line\n".repeat(HEAD_BYTES_MAX), false),
            ("GET a line\n".repeat(HEAD_BYTES_MAX), false),
            (format!("{fields}\r\n"), false),
            (format!("{long}\n"), false),
            (format!("GET / HTTP/1.1\r\n\r\n{fields}"), false),
        ] {
            let begin = &buffer[..buffer.len().min(30)];
            assert_eq!(is_long_head(buffer.as_bytes()), expected, "{begin}");
        }
    }
}
