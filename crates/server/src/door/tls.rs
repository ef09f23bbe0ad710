//! TLS at the doors of a node: handshakes, how many there may be, and who may pass as a
//! peer.
//!
//! A connection is looked at before it is read: the first byte of TLS is 0x16, which no
//! request of HTTP begins with. A handshake may take as long as the head of a request.
//! Each runtime has a bounded number of them under way; a further one is always begun,
//! and the oldest gives way. So a client that does not go on takes no place from others,
//! and honest handshakes, which take two turns of the network, are safe unless there are
//! more of them than the bound within that time.

use super::slow_clients::{Phase, Progress};
use super::wire::{CountedStream, Wire};
use crate::config::{ServerConfig, TlsConfig};
use crate::metrics::TlsMetrics;
use base::Budget;
use profile::lock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};
use std::time::Duration;
use tls::{HandshakeFailure, NodeTls, explain, is_for_any};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::HandshakeKind;

/// The first byte of a TLS connection: the type of a handshake's record.
const TLS_FIRST_BYTE: u8 = 0x16;

/// How many reads discard what a client sends after its handshake has failed.
const LINGER_READS_MAX: usize = 64;

/// How many lines about handshakes are logged before they are rationed.
const LOGGED_AT_ONCE_MAX: u32 = 10;

/// How often one more line may be logged then.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// TLS as the doors of all runtimes share it.
pub(crate) struct DoorTls {
    /// The certificates.
    pub(crate) node_tls: Arc<NodeTls>,
    /// Whether connections without TLS are accepted, too.
    is_optional: bool,
    /// The hosts of the other members, for which their certificates are.
    hosts: Vec<String>,
    /// Budget for records that are not complete, in bytes.
    records: Arc<Budget>,
    log_ration: Mutex<LogRation>,
}

/// Keeps anybody who can open connections from filling the log.
#[derive(Default)]
struct LogRation {
    /// How many lines were logged lately.
    lines: u32,
    /// Until when that was counted, on the monotonic clock.
    counted: Duration,
}

/// What became of a new connection.
pub(crate) enum Entered {
    /// It is served.
    Wire(Wire),
    /// It speaks plain HTTP to a node that speaks only TLS.
    RefusedPlain(TcpStream),
    /// It has ended.
    Ended,
}

impl DoorTls {
    /// TLS for the doors of a server with this configuration.
    pub(crate) fn new(config: &ServerConfig, tls: &TlsConfig, node_tls: Arc<NodeTls>) -> Self {
        let members = &config.node.members;
        Self {
            node_tls,
            is_optional: tls.is_optional,
            hosts: members
                .peers()
                .map(|peer| members.url(peer).host().to_owned())
                .collect(),
            records: Budget::new(config.memory_split().tls.records_bytes),
            log_ration: Mutex::default(),
        }
    }

    /// Whether connections without TLS are accepted, too.
    pub(crate) fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// How many bytes of incomplete records are held.
    pub(crate) fn record_bytes(&self) -> usize {
        self.records.used()
    }

    /// Whether a connection may become a peer's. Where nodes verify each other, that
    /// takes a certificate for the host of a member, shown in the handshake of this
    /// connection and not of one that it resumes.
    pub(crate) fn may_be_peer(&self, wire: &Wire) -> bool {
        match wire.tls() {
            None => self.is_optional,
            Some(_) if !self.node_tls.verifies_peers() => true,
            Some(tls) => {
                let shown = tls.peer_certificates().unwrap_or_default();
                tls.handshake_kind() != Some(HandshakeKind::Resumed)
                    && is_for_any(shown, self.hosts.iter())
            }
        }
    }

    /// Begins a connection: finds out whether it speaks TLS, and does the handshake.
    pub(crate) async fn enter(
        &self,
        stream: TcpStream,
        progress: &Rc<Progress>,
        handshakes: &Rc<Handshakes>,
        metrics: &TlsMetrics,
        now: &Cell<Duration>,
    ) -> Entered {
        let first = unless_cut(progress, first_byte(&stream)).await;
        match first {
            // A supervisor that only looks whether the port is open is no failure.
            Some(Ok(None) | Err(_)) | None => return Entered::Ended,
            Some(Ok(Some(TLS_FIRST_BYTE))) => {}
            Some(Ok(Some(_))) if self.is_optional => return Entered::Wire(Wire::Plain(stream)),
            Some(Ok(Some(_))) => {
                metrics.failed(HandshakeFailure::Plain);
                return Entered::RefusedPlain(stream);
            }
        }
        progress.enter(Phase::Handshake);
        let place = handshakes.begin(progress);
        let acceptor = TlsAcceptor::from(self.node_tls.server());
        let accepting = acceptor.accept(CountedStream::new(stream)).into_fallible();
        let accepted = unless_cut(progress, accepting).await;
        drop(place);
        match accepted {
            Some(Ok(stream)) => {
                progress.enter(Phase::Idle);
                metrics.done();
                Entered::Wire(Wire::sealed(stream, Arc::clone(&self.records)))
            }
            Some(Err((error, stream))) => {
                let failure = HandshakeFailure::of(&error);
                metrics.failed(failure);
                self.log(failure, &error, stream.socket(), now.get());
                if failure != HandshakeFailure::Closed {
                    linger(stream, progress).await;
                }
                Entered::Ended
            }
            None => {
                metrics.failed(HandshakeFailure::Slow);
                Entered::Ended
            }
        }
    }

    /// Logs why a handshake failed. A client that leaves, or that sends no TLS, is of no
    /// interest.
    fn log(&self, failure: HandshakeFailure, error: &io::Error, socket: &TcpStream, now: Duration) {
        let problem = explain(error);
        let address = socket.peer_addr().map(|address| address.to_string());
        let address = address.unwrap_or_default();
        let is_of_interest = matches!(
            failure,
            HandshakeFailure::Certificate
                | HandshakeFailure::Refused
                | HandshakeFailure::Incompatible
        );
        if is_of_interest && lock(&self.log_ration).take(now) {
            tracing::warn!(address, problem, "a TLS handshake with a client failed");
        } else {
            tracing::debug!(address, problem, "a TLS handshake with a client failed");
        }
    }

    /// Logs that a connection wanted to become a peer's and could not.
    pub(crate) fn log_refused_peer(&self, wire: &Wire, now: Duration) {
        if lock(&self.log_ration).take(now) {
            let address = wire.socket().peer_addr().map(|address| address.to_string());
            let address = address.unwrap_or_default();
            tracing::warn!(
                address,
                "refused a connection as a peer's: it has shown no certificate for the host of a \
                 URL in --cluster; give that node --tls-cert, --tls-key and --tls-peer-ca, and a \
                 certificate for the host of its URL"
            );
        }
    }
}

impl LogRation {
    /// Whether one more line may be logged; `now` is on the monotonic clock.
    fn take(&mut self, now: Duration) -> bool {
        let periods = now.saturating_sub(self.counted).as_secs() / LOGGED_EVERY.as_secs();
        if periods > 0 {
            self.lines = self
                .lines
                .saturating_sub(u32::try_from(periods).unwrap_or(u32::MAX));
            self.counted = now;
        }
        if self.lines >= LOGGED_AT_ONCE_MAX {
            return false;
        }
        self.lines += 1;
        true
    }
}

/// The first byte of a connection, which stays unread; `None` if the connection ends.
async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    let bytes = poll_fn(|cx| stream.poll_peek(cx, &mut ReadBuf::new(&mut first))).await?;
    Ok((bytes > 0).then_some(first[0]))
}

/// Reads and discards what a client still sends after its handshake has failed. Closing at
/// once would reset the connection, and the client might lose the alert that says why.
async fn linger(mut stream: CountedStream, progress: &Progress) {
    progress.enter(Phase::Lingering);
    let discarding = async {
        let mut ignored = [0; 1 << 10];
        stream.shutdown().await?;
        for _ in 0..LINGER_READS_MAX {
            if stream.read(&mut ignored).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    // Whether the client has gone first is of no interest.
    let _ended = unless_cut(progress, discarding).await;
}

/// Does what may wait for the client, until the node gives the connection up; `None`
/// then.
async fn unless_cut<T>(progress: &Progress, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        progress.remember(cx.waker());
        if progress.is_cut() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(ready!(work.as_mut().poll(cx))))
    })
    .await
}

/// The handshakes of one runtime that are under way.
pub(crate) struct Handshakes {
    max: usize,
    /// By their numbers, which are in the order in which they began.
    oldest_first: RefCell<BTreeMap<u64, Weak<Progress>>>,
    number_next: Cell<u64>,
}

/// The place of a handshake, until this is dropped.
struct HandshakePlace {
    handshakes: Rc<Handshakes>,
    number: u64,
}

impl Handshakes {
    /// At most `max` handshakes at a time.
    pub(crate) fn new(max: usize) -> Rc<Self> {
        Rc::new(Self {
            max: max.max(1),
            oldest_first: RefCell::default(),
            number_next: Cell::new(0),
        })
    }

    /// How many handshakes are under way.
    pub(crate) fn count(&self) -> usize {
        self.oldest_first.borrow().len()
    }

    /// Begins a handshake. If there are too many, the oldest is cut.
    fn begin(self: &Rc<Self>, progress: &Rc<Progress>) -> HandshakePlace {
        let mut oldest_first = self.oldest_first.borrow_mut();
        if oldest_first.len() >= self.max
            && let Some((_, oldest)) = oldest_first.pop_first()
            && let Some(oldest) = oldest.upgrade()
        {
            tracing::debug!("too many TLS handshakes are under way: cutting the oldest");
            oldest.cut();
        }
        let number = self.number_next.get();
        self.number_next.set(number + 1);
        oldest_first.insert(number, Rc::downgrade(progress));
        HandshakePlace {
            handshakes: Rc::clone(self),
            number,
        }
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        let mut oldest_first = self.handshakes.oldest_first.borrow_mut();
        oldest_first.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::connection_slots::ConnectionScope;

    #[test]
    fn the_oldest_handshake_gives_way() {
        let handshakes = Handshakes::new(2);
        let clients: Vec<_> = (0..3)
            .map(|_| Rc::new(Progress::new(Rc::default(), ConnectionScope::AnyRequest)))
            .collect();
        let cut = || -> Vec<bool> { clients.iter().map(|client| client.is_cut()).collect() };
        let places: Vec<_> = clients[..2]
            .iter()
            .map(|client| handshakes.begin(client))
            .collect();
        assert_eq!((cut(), handshakes.count()), (vec![false; 3], 2));
        let third = handshakes.begin(&clients[2]);
        assert_eq!((cut(), handshakes.count()), (vec![true, false, false], 2));
        drop((places, third));
        assert_eq!(handshakes.count(), 0);
        let _again = handshakes.begin(&clients[0]);
        assert_eq!(cut(), [true, false, false], "there is room again");
    }

    #[test]
    fn lines_are_rationed() {
        let mut ration = LogRation::default();
        let logged = |ration: &mut LogRation, seconds| {
            (0..100)
                .filter(|_| ration.take(Duration::from_secs(seconds)))
                .count()
        };
        assert_eq!(logged(&mut ration, 0), 10);
        assert_eq!(logged(&mut ration, 0), 0);
        assert_eq!(logged(&mut ration, 3), 3);
        assert_eq!(logged(&mut ration, 1_000), 10);
    }
}
