//! TLS at the listeners of a node: handshakes, how many there may be, and who may pass as a
//! peer.
//!
//! The node looks at the first byte of a connection: TLS begins with 0x16, HTTP never does. A
//! handshake may take as long as the head of a request. Each runtime has a bounded number of them
//! under way (`shedding`); a further one is always accepted, and the oldest of the address with the
//! most is shed. So neither a client that does not go on nor a flood from one address takes
//! anything from others. Honest handshakes, which take two turns of the network, are safe unless
//! more addresses than there may be handshakes begin one within that time.
//!
//! Peers have quotas of their own, which other clients do not take: some for connections
//! from addresses from which a peer has come before or at which this node has reached one,
//! and some for those that arrive when all slots of clients are taken, so that they may only
//! become a peer's. Where clients share the address of a peer, as on one machine, they use
//! those of all clients as well.

use super::connection_slots::ConnectionScope;
use super::slow_clients::{ConnectionProgress, Phase};
use super::wire::{CountedStream, RecordMemory, Wire};
use crate::admission::owners::owner_of;
use crate::admission::shedding::{ConnectionQuota, Shed};
use crate::config::{ServerConfig, TlsConfig};
use crate::metrics::TlsMetrics;
use base::{LogLimiter, LogRate};
use cluster::Members;
use profile::lock;
use rustix::net::{RecvFlags, recv};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tls::{HandshakeFailure, NodeTls, explain, is_for_any};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::HandshakeKind;

/// The first byte of a TLS connection: the type of a handshake's record.
const TLS_FIRST_BYTE: u8 = 0x16;

/// How many handshakes of probes each runtime of a node without peers may have under way when
/// clients have taken all slots.
const PROBE_HANDSHAKES_MAX: usize = 2;

/// How many reads discard what a client sends after its handshake has failed.
const LINGER_READS_MAX: usize = 64;

/// How many lines about handshakes are logged, so that nobody who can open connections fills
/// the log.
const LOGGED: LogRate = LogRate {
    burst: 10,
    period: Duration::from_secs(1),
};

/// TLS as the listeners of all runtimes share it.
pub(crate) struct ListenerTls {
    /// The certificates.
    pub(crate) node_tls: Arc<NodeTls>,
    /// Whether connections without TLS are accepted, too.
    is_optional: bool,
    /// The hosts of the other members, for which their certificates are.
    hosts: Mutex<Vec<String>>,
    /// The addresses from which peers have come lately, or at which they were reached.
    peer_addresses: Mutex<PeerAddresses>,
    log_limiter: Mutex<LogLimiter>,
}

/// The addresses of connections whose other side proved to be a peer, whoever of the two has
/// dialled: a few for each peer, the latest at the end.
#[derive(Default)]
struct PeerAddresses {
    addresses: VecDeque<IpAddr>,
    max: usize,
}

/// How many addresses are remembered for each peer: it may have moved, or have several.
const ADDRESSES_A_PEER: usize = 2;

/// What the TLS connections of one runtime share.
pub(crate) struct TlsQuotas {
    /// Handshakes under way, of clients.
    clients: Rc<ConnectionQuota>,
    /// Handshakes under way of connections that may only become a peer's, or ask for health.
    upgrades: Rc<ConnectionQuota>,
    /// Handshakes under way, from addresses of peers.
    peers: Rc<ConnectionQuota>,
    /// Bytes of records that are not complete.
    records: Rc<ConnectionQuota>,
}

/// A handshake that is under way. One that is shed is dropped at once, because the task of
/// the connection may have its turn late: in a flood, that would be many times the memory
/// of the handshakes that may be under way.
struct Handshake<F> {
    /// None once it is shed.
    accepting: RefCell<Option<Pin<Box<F>>>>,
    progress: Rc<ConnectionProgress>,
}

impl<F: Future> Handshake<F> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut *self.accepting.borrow_mut() {
            Some(accepting) => accepting.as_mut().poll(cx),
            // The connection is cut.
            None => Poll::Pending,
        }
    }
}

impl<F> Shed for Handshake<F> {
    fn shed(&self) {
        drop(self.accepting.take());
        self.progress.cut();
    }
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

impl ListenerTls {
    /// TLS for the listeners of a server with this configuration.
    pub(crate) fn new(config: &ServerConfig, tls: &TlsConfig, node_tls: Arc<NodeTls>) -> Self {
        let listener_tls = Self {
            node_tls,
            is_optional: tls.is_optional,
            hosts: Mutex::default(),
            peer_addresses: Mutex::default(),
            log_limiter: Mutex::new(LogLimiter::new(LOGGED)),
        };
        listener_tls.follow(&config.node.members);
        listener_tls
    }

    /// Knows these nodes from now on.
    pub(crate) fn follow(&self, members: &Members) {
        let hosts = members.others().map(|(_, peer)| peer.url().host());
        *lock(&self.hosts) = hosts.map(str::to_owned).collect();
        lock(&self.peer_addresses).max = members.peers().count() * ADDRESSES_A_PEER;
    }

    /// Whether connections without TLS are accepted, too.
    pub(crate) fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// Notes that a peer has come from this address, or was reached there.
    pub(crate) fn remember_peer(&self, address: IpAddr) {
        lock(&self.peer_addresses).remember(owner_of(address));
    }

    /// Whether a connection may become a peer's. Where nodes verify each other, that
    /// takes a certificate for the host of a member, shown in the handshake of this
    /// connection and not of one that it resumes. For lists of members any certificate of the
    /// authorities will do: a node that waits to join is at a host that nobody knows.
    pub(crate) fn may_be_peer(&self, wire: &Wire, is_for_lists: bool) -> bool {
        match wire.tls() {
            None => self.is_optional,
            Some(_) if !self.node_tls.verifies_peers() => true,
            Some(tls) => {
                let shown = tls.peer_certificates().unwrap_or_default();
                let is_known = || is_for_any(shown, lock(&self.hosts).iter());
                tls.handshake_kind() != Some(HandshakeKind::Resumed)
                    && (is_for_lists && !shown.is_empty() || is_known())
            }
        }
    }

    /// Begins a connection: finds out whether it speaks TLS, and does the handshake.
    pub(crate) async fn enter(
        &self,
        stream: TcpStream,
        progress: &Rc<ConnectionProgress>,
        quotas: &TlsQuotas,
        metrics: &TlsMetrics,
        now: &Cell<Duration>,
    ) -> Entered {
        let first = run_until_cut(progress, first_byte(&stream)).await;
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
        let address = stream.peer_addr().map(|address| address.ip());
        let owner = owner_of(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let is_peers = lock(&self.peer_addresses).addresses.contains(&owner);
        let handshakes = quotas.handshakes(progress.scope(), is_peers);
        let acceptor = TlsAcceptor::from(self.node_tls.server());
        let accepting = acceptor.accept(CountedStream::new(stream)).into_fallible();
        let handshake = Rc::new(Handshake {
            accepting: RefCell::new(Some(Box::pin(accepting))),
            progress: Rc::clone(progress),
        });
        let holder: Rc<dyn Shed> = Rc::<Handshake<_>>::clone(&handshake);
        let usage = handshakes.take(owner, 1, Rc::downgrade(&holder));
        let accepted = run_until_cut(progress, poll_fn(|cx| handshake.poll(cx))).await;
        let is_shed = usage.is_shed();
        drop(usage);
        match accepted {
            Some(Ok(stream)) => {
                progress.enter(Phase::Idle);
                metrics.done();
                let records = RecordMemory::new(Rc::clone(&quotas.records), owner, progress);
                Entered::Wire(Wire::encrypted(stream, records))
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
                metrics.failed(if is_shed {
                    HandshakeFailure::Shed
                } else {
                    HandshakeFailure::Slow
                });
                Entered::Ended
            }
        }
    }

    /// Logs why a handshake failed. A client that leaves, or that sends no TLS, is of no
    /// interest.
    fn log(&self, failure: HandshakeFailure, error: &io::Error, socket: &TcpStream, now: Duration) {
        let problem = explain(error);
        let (ip, address) = names_of(socket);
        let is_of_interest = matches!(
            failure,
            HandshakeFailure::Certificate
                | HandshakeFailure::Refused
                | HandshakeFailure::Incompatible
        );
        let text = format!("{ip} {problem}");
        if is_of_interest && let Some(left_out) = self.admits_line(&text, now) {
            tracing::warn!(
                address,
                problem,
                left_out,
                "a TLS handshake with a client failed"
            );
        } else {
            tracing::debug!(address, problem, "a TLS handshake with a client failed");
        }
    }

    /// Whether a line that says this may be logged: how many were left out before it. A node that
    /// dials again and again repeats its failure.
    fn admits_line(&self, text: &str, now: Duration) -> Option<u64> {
        let mut limiter = lock(&self.log_limiter);
        let is_admitted = limiter.admits_failure(text, now);
        is_admitted.then(|| limiter.take_left_out())
    }

    /// Logs that a connection wanted to become a peer's and could not.
    pub(crate) fn log_refused_peer(&self, wire: &Wire, now: Duration) {
        let (ip, address) = names_of(wire.socket());
        if let Some(left_out) = self.admits_line(&ip, now) {
            tracing::warn!(
                address,
                left_out,
                "refused a peer connection without a certificate for a host of --cluster: name \
                 that node's URL in --cluster of this node, and give that node --tls-cert, \
                 --tls-key and --tls-peer-ca, with a certificate for the host of its URL"
            );
        }
    }
}

/// The address of the other side, without its port and with it.
fn names_of(socket: &TcpStream) -> (String, String) {
    let address = socket.peer_addr().ok();
    let ip = address.map(|address| address.ip().to_string());
    let address = address.map(|address| address.to_string());
    (ip.unwrap_or_default(), address.unwrap_or_default())
}

/// The first byte of a connection, which stays unread; `None` if the connection ends. What the
/// kernel holds is there, whatever the events of the runtime have said so far.
async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    let bytes = poll_fn(|cx| {
        if let Poll::Ready(peeked) = stream.poll_peek(cx, &mut ReadBuf::new(&mut first)) {
            return Poll::Ready(peeked);
        }
        match recv(stream, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, bytes)) => Poll::Ready(Ok(bytes)),
            // An error comes with the next event.
            Err(_) => Poll::Pending,
        }
    })
    .await?;
    Ok((bytes > 0).then_some(first[0]))
}

/// Begins a connection, unless it is over before it has begun. What has arrived by then is looked
/// at first.
pub(super) async fn enter_unless_over(
    entering: impl Future<Output = Entered>,
    mut is_over: impl FnMut(&mut Context<'_>) -> Poll<()>,
) -> Entered {
    let mut entering = pin!(entering);
    poll_fn(|cx| match entering.as_mut().poll(cx) {
        Poll::Ready(entered) => Poll::Ready(entered),
        Poll::Pending => is_over(cx).map(|()| Entered::Ended),
    })
    .await
}

/// Reads and discards what a client still sends after its handshake has failed. Closing at
/// once would reset the connection, and the client might lose the alert that says why.
async fn linger(mut stream: CountedStream, progress: &ConnectionProgress) {
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
    let _ended = run_until_cut(progress, discarding).await;
}

/// Does what may wait for the client, until the node gives the connection up; `None`
/// then.
async fn run_until_cut<T>(
    progress: &ConnectionProgress,
    work: impl Future<Output = T>,
) -> Option<T> {
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

impl PeerAddresses {
    fn remember(&mut self, address: IpAddr) {
        self.addresses.retain(|known| *known != address);
        self.addresses.push_back(address);
        while self.addresses.len() > self.max {
            self.addresses.pop_front();
        }
    }
}

impl TlsQuotas {
    /// What the TLS connections of one runtime of a server with this configuration share.
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let split = config.memory_split().tls;
        let for_peers = split.peer_handshakes_max / config.threads;
        let beyond_slots = match for_peers {
            0 => PROBE_HANDSHAKES_MAX,
            for_peers => for_peers / 2,
        };
        Self {
            clients: ConnectionQuota::new(split.handshakes_max / config.threads, "TLS handshakes"),
            upgrades: ConnectionQuota::new(beyond_slots, "TLS handshakes beside the slots"),
            peers: ConnectionQuota::new(for_peers / 2, "TLS handshakes of peers"),
            records: ConnectionQuota::new(
                split.records_bytes / config.threads,
                "incomplete TLS records",
            ),
        }
    }

    /// The quota of a connection of this scope while its handshake is under way.
    /// `is_peers`: its address is known as a peer's.
    fn handshakes(&self, scope: ConnectionScope, is_peers: bool) -> &Rc<ConnectionQuota> {
        match scope {
            _ if is_peers && self.peers.is_free() => &self.peers,
            ConnectionScope::PeerOrProbe => &self.upgrades,
            ConnectionScope::AnyRequest => &self.clients,
        }
    }

    /// Publishes the gauges.
    pub(crate) fn publish(&self, metrics: &TlsMetrics) {
        let handshakes = self.clients.used() + self.upgrades.used() + self.peers.used();
        metrics.handshakes_in_flight.set(handshakes as u64);
        metrics.record_bytes.set(self.records.used() as u64);
        metrics.records_cut.set(self.records.sheds());
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionScope::{AnyRequest, PeerOrProbe};
    use super::*;
    use cluster::{Member, NodeUrl};
    use tls::TlsFiles;

    /// The runtime has had no events of such a connection when a node that stops looks at it.
    #[tokio::test]
    async fn what_has_arrived_of_a_connection_is_seen_before_it_is_over() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        for has_begun in [true, false] {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            if has_begun {
                // A local connection has it at once.
                io::Write::write_all(&mut client, &[TLS_FIRST_BYTE]).unwrap();
            }
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let stream = TcpStream::from_std(stream).unwrap();
            let entering = async {
                match first_byte(&stream).await {
                    Ok(Some(TLS_FIRST_BYTE)) => {}
                    other => panic!("{other:?}"),
                }
                Entered::Wire(Wire::Plain(stream))
            };
            let entered = enter_unless_over(entering, |_| Poll::Ready(())).await;
            assert_eq!(matches!(entered, Entered::Wire(_)), has_begun);
            drop(client);
        }
    }

    #[test]
    fn a_handshake_that_is_shed_holds_nothing_from_then_on() {
        let held = Rc::new(());
        let kept = Rc::clone(&held);
        let handshake = Handshake {
            accepting: RefCell::new(Some(Box::pin(async move {
                std::future::pending::<()>().await;
                drop(kept);
            }))),
            progress: Rc::new(ConnectionProgress::new(Rc::default(), AnyRequest)),
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(handshake.poll(&mut context).is_pending());
        assert_eq!(Rc::strong_count(&held), 2);
        handshake.shed();
        assert_eq!(Rc::strong_count(&held), 1);
        assert!(handshake.progress.is_cut() && handshake.poll(&mut context).is_pending());
    }

    #[test]
    fn clients_take_nothing_from_peers() {
        let urls = ["https://a:1", "https://b:1"].map(|url| url.parse::<NodeUrl>().unwrap());
        let members = urls.clone().map(Member::unnamed).to_vec();
        let mut config = ServerConfig::new(Members::new(members, &urls[0]).unwrap(), "store");
        config.threads = 2;
        config.set_memory_bytes(128 << 20);
        let files = TlsFiles {
            certificate: "c".into(),
            key: "k".into(),
            peer_ca: None,
        };
        config.tls = Some(TlsConfig {
            files,
            is_optional: false,
        });
        let quotas = TlsQuotas::new(&config);
        let connections: Vec<_> = (0..=255)
            .map(|last| (IpAddr::from([10, 0, 0, last]), AnyRequest, false))
            .chain((0..=255).map(|last| (IpAddr::from([10, 0, 1, last]), PeerOrProbe, false)))
            .collect();
        let peer = (IpAddr::from([10, 0, 2, 1]), AnyRequest, true);
        let upgrade = (IpAddr::from([10, 0, 2, 2]), PeerOrProbe, false);
        let enter = |(owner, scope, is_peers)| {
            let progress = Rc::new(ConnectionProgress::new(Rc::default(), scope));
            let holder: Rc<dyn Shed> = Rc::<ConnectionProgress>::clone(&progress);
            (
                quotas
                    .handshakes(scope, is_peers)
                    .take(owner, 1, Rc::downgrade(&holder)),
                progress,
            )
        };
        let of_peer = enter(peer);
        // Clients with the address of the peer take what is left, and then those of clients.
        let beside: Vec<_> = (0..11).map(|_| enter(peer)).collect();
        assert_eq!((quotas.peers.used(), quotas.clients.used()), (4, 8));
        assert!(beside.iter().all(|(usage, _)| !usage.is_shed()));
        // A flood from many addresses, while clients have slots.
        let of_clients: Vec<_> = connections[..256].iter().copied().map(enter).collect();
        let of_upgrade = enter(upgrade);
        let more_of_clients: Vec<_> = connections[..256].iter().copied().map(enter).collect();
        assert!(!of_peer.0.is_shed() && !of_upgrade.0.is_shed());
        // And while they have none.
        let of_upgrades: Vec<_> = connections[256..].iter().copied().map(enter).collect();
        assert!(!of_peer.0.is_shed() && of_upgrade.0.is_shed());
        let staying = |usages: &[(_, Rc<ConnectionProgress>)]| {
            usages
                .iter()
                .filter(|(_, progress)| !progress.is_cut())
                .count()
        };
        assert_eq!((staying(&of_clients), staying(&more_of_clients)), (0, 8));
        assert_eq!(staying(&of_upgrades), 4);
    }

    #[test]
    fn the_latest_addresses_of_peers_are_remembered() {
        let mut peers = PeerAddresses {
            addresses: VecDeque::new(),
            max: 2,
        };
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        for last in [1, 2, 2, 1, 3, 1] {
            peers.remember(address(last));
        }
        assert_eq!(peers.addresses, [3, 1].map(address));
    }
}
