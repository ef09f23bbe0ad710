//! Runtimes, and the acceptor that feeds them.
//!
//! A runtime is a thread with a single-threaded scheduler. Its connections share
//! only the store, the pools and the quotas with those of other runtimes. One
//! acceptor hands each connection to the runtime that has the fewest. The kernel
//! would spread a small number of connections unevenly.

use crate::http::connection;
use crate::net::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::net::slow_clients::ConnectionProgress;
use crate::net::{Listener, ListenerShared};
use base::LimitedLog;
use peer::{LinkFaults, TcpTransport, Transport};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, watch};

/// How many connections may wait to be accepted, per address.
const LISTEN_QUEUE: u32 = 4096;

/// How many accepted connections may wait for their runtime.
const ACCEPTED_QUEUE_MAX: usize = 256;

/// How long the acceptor waits after the system failed to accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A connection on its way from the acceptor to a runtime.
struct AcceptedConnection {
    stream: std::net::TcpStream,
    /// Held until the connection ends.
    slot: ConnectionSlot,
    /// Counts the connection at its runtime, until it ends.
    _count: CountedConnection,
}

/// Counts one connection at a runtime until it is dropped.
struct CountedConnection(Arc<AtomicUsize>);

impl CountedConnection {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the acceptor knows of a runtime.
struct Target {
    accepted: mpsc::Sender<AcceptedConnection>,
    connections: Arc<AtomicUsize>,
}

/// Starts the acceptor, which listens on `sockets` when this returns, and the runtimes. All of
/// them end once `stop` is true. `unauthenticated_max` bounds the connections beyond those of
/// clients. `link_faults` are those of a node of `kvorum dev`.
///
/// The node listens before its runtimes dial any peer. So of two nodes that are started
/// together one finds the other listening, and knows that it has to wait for it.
///
/// # Errors
/// The system cannot start a thread, or cannot listen on an address.
pub(crate) fn start(
    shared: &Arc<ListenerShared>,
    sockets: Vec<TcpSocket>,
    unauthenticated_max: usize,
    link_faults: Option<&Arc<LinkFaults>>,
    stop: &watch::Receiver<bool>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let channels = (0..shared.config().threads).map(|_| mpsc::channel(ACCEPTED_QUEUE_MAX));
    let (senders, accepted): (Vec<_>, Vec<_>) = channels.unzip();
    let targets = senders.into_iter().map(|sender| Target {
        accepted: sender,
        connections: Arc::default(),
    });
    let acceptor = Acceptor {
        targets: targets.collect(),
        slots: ConnectionSlots::new(
            shared.config(),
            Arc::clone(&shared.peer_slots),
            unauthenticated_max,
        ),
        log: Arc::clone(shared.node.log()),
    };
    let mut threads = vec![spawn_acceptor(acceptor, sockets, stop)?];
    let transport = transport_of(shared, link_faults);
    for (number, accepted) in accepted.into_iter().enumerate() {
        let (shared, stop) = (Arc::clone(shared), stop.clone());
        let transport = Arc::clone(&transport);
        threads.push(spawn(
            format!("runtime-{number}"),
            || Ok(()),
            move |scheduler, ()| {
                let listener = Listener::new(shared, number, &transport);
                run(scheduler, &listener, number, accepted, stop);
            },
        )?);
    }
    Ok(threads)
}

/// Starts the acceptor, and returns when it listens.
fn spawn_acceptor(
    acceptor: Acceptor,
    sockets: Vec<TcpSocket>,
    stop: &watch::Receiver<bool>,
) -> io::Result<JoinHandle<()>> {
    let stop = stop.clone();
    spawn(
        "acceptor".to_owned(),
        move || {
            let listen = |socket: TcpSocket| {
                let address = socket.local_addr()?;
                socket.listen(LISTEN_QUEUE).map_err(|error| {
                    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
                })
            };
            sockets.into_iter().map(listen).collect()
        },
        move |scheduler, listeners| {
            scheduler.block_on(accept_all(listeners, acceptor, stop));
        },
    )
}

/// Starts a thread, which creates a scheduler of its own (it cannot leave the thread),
/// calls `prepare`, which may fail, and then `work`. Returns once `prepare` has.
fn spawn<T>(
    name: String,
    prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    work: impl FnOnce(&LocalRuntime, T) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (sender, prepared) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let scheduler = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(yield_before_sleep)
            .on_thread_unpark(profile::thread_wakes)
            .build_local(LocalOptions::default());
        let ready = scheduler.and_then(|scheduler| {
            let prepared = {
                let _entered = scheduler.enter();
                prepare()?
            };
            Ok((scheduler, prepared))
        });
        let (result, ready) = match ready {
            Ok(ready) => (Ok(()), Some(ready)),
            Err(error) => (Err(error), None),
        };
        // Sending cannot fail, because the starter waits for the result.
        if sender.send(result).is_ok()
            && let Some((scheduler, prepared)) = ready
        {
            work(&scheduler, prepared);
        }
    })?;
    match prepared.recv() {
        Ok(result) => result.map(|()| thread),
        Err(_) => Err(io::Error::other("a thread panicked while it was starting")),
    }
}

/// What a scheduler does when no task is left to poll. It yields once to other threads
/// before it sleeps: what they send meanwhile is there when it looks for events, so it need
/// not be woken, and serves more requests a turn. Where no thread waits for the processor,
/// that ends at once.
fn yield_before_sleep() {
    profile::thread_parks();
    std::thread::yield_now();
}

/// Binds a socket to an address without listening yet: until the node listens, the
/// system refuses connections. `only_ipv6`: a socket for all IPv6 addresses is for no IPv4
/// address, because another socket is.
///
/// # Errors
/// The address is in use, or is not one of this machine.
pub(crate) fn bind(address: SocketAddr, only_ipv6: bool) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if address.is_ipv6() && only_ipv6 {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // A node that restarts must not wait for connections of the previous process.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// How the runtimes reach the other nodes, and they them.
fn transport_of(
    shared: &ListenerShared,
    link_faults: Option<&Arc<LinkFaults>>,
) -> Arc<dyn Transport> {
    let transport: Arc<dyn Transport> = match &shared.tls {
        None => Arc::new(TcpTransport::default()),
        Some(tls) => {
            let (node_tls, tls) = (Arc::clone(&tls.node_tls), Arc::clone(tls));
            let remember = Arc::new(move |address| tls.remember_peer(address));
            Arc::new(TcpTransport::new(Some(node_tls)).seen_by(remember))
        }
    };
    match link_faults {
        Some(faults) => faults.around(transport),
        None => transport,
    }
}

/// Runs one runtime until it has stopped and its connections have ended.
fn run(
    scheduler: &LocalRuntime,
    listener: &Rc<Listener>,
    number: usize,
    mut accepted: mpsc::Receiver<AcceptedConnection>,
    mut stop: watch::Receiver<bool>,
) {
    let drain_timeout = listener.shared().config().drain_timeout;
    scheduler.block_on(async {
        listener.spawn_upkeep();
        if number == 0 {
            listener.spawn_history();
        }
        loop {
            tokio::select! {
                connection = accepted.recv() => match connection {
                    Some(connection) => begin(listener, connection),
                    None => break,
                },
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        let stopping = async {
            listener.begin_to_stop();
            // The acceptor hands over what the system has accepted, and ends.
            while let Some(connection) = accepted.recv().await {
                begin(listener, connection);
            }
            listener.drain().await;
        };
        if tokio::time::timeout(drain_timeout, stopping).await.is_err() {
            tracing::warn!(
                drain_timeout_ms = drain_timeout.as_millis(),
                "some requests did not end within the drain timeout: closing their connections"
            );
        }
    });
}

/// Starts to serve a connection.
fn begin(listener: &Rc<Listener>, accepted: AcceptedConnection) {
    let listener = Rc::clone(listener);
    let progress = ConnectionProgress::new(Rc::clone(&listener.now), accepted.slot.scope());
    let progress = Rc::new(progress);
    // Now, because a node that stops waits for those that are registered.
    let registered = listener.register(&progress);
    tokio::task::spawn_local(async move {
        // The slot and the count move into the task, so that they last until the
        // connection has ended.
        let AcceptedConnection {
            stream,
            slot,
            _count,
        } = accepted;
        match TcpStream::from_std(stream) {
            Ok(stream) => tokio::select! {
                biased;
                () = connection::serve(listener, stream, &slot, progress, registered) => {}
                () = slot.evicted() => tracing::debug!(
                    "closing a connection that is not known to be a peer's: another one needs its \
                     slot"
                ),
            },
            Err(error) => listener
                .worker
                .node()
                .log()
                .line("failed connection", |left_out| {
                    tracing::warn!(%error, left_out, "cannot serve an accepted connection");
                }),
        }
    });
}

/// Accepts connections on all listeners until the node stops, and then those that the system
/// has accepted already: their clients may have sent requests.
async fn accept_all(listeners: Vec<TcpListener>, acceptor: Acceptor, stop: watch::Receiver<bool>) {
    let acceptor = Rc::new(acceptor);
    let accepting: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let (acceptor, stop) = (Rc::clone(&acceptor), stop.clone());
            tokio::task::spawn_local(async move {
                acceptor.accept_until(&listener, stop).await;
                acceptor.accept_rest(listener).await;
            })
        })
        .collect();
    for listener in accepting {
        // A panic ends only its listener, and the panic hook has logged it.
        let _ended = listener.await.is_ok();
    }
}

/// What accepts connections, on all listeners.
struct Acceptor {
    targets: Vec<Target>,
    slots: ConnectionSlots,
    log: Arc<LimitedLog>,
}

impl Acceptor {
    async fn accept_until(&self, listener: &TcpListener, mut stop: watch::Receiver<bool>) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // An error means that the server was dropped, which stops the node as well.
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, address)) => self.hand_over(stream.into_std(), address).await,
                // Those that the node has go on.
                Err(error) => {
                    self.log.line("failed accept", |left_out| {
                        tracing::warn!(%error, left_out, "cannot accept a connection: will try again");
                    });
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// Accepts what is in the queue of the system, and closes the listener. It asks the system
    /// itself, because the events of the runtime may come later.
    async fn accept_rest(&self, listener: TcpListener) {
        let Ok(listener) = listener.into_std() else {
            return;
        };
        for _ in 0..LISTEN_QUEUE {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // There are no more.
                Err(_) => return,
            };
            let stream = stream.set_nonblocking(true).map(|()| stream);
            self.hand_over(stream, address).await;
        }
    }

    /// Hands a connection to the runtime that has the fewest.
    async fn hand_over(&self, stream: io::Result<std::net::TcpStream>, address: SocketAddr) {
        let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        let least = self
            .targets
            .iter()
            .min_by_key(|target| target.connections.load(Ordering::Relaxed));
        let (Ok(stream), Some(target)) = (stream, least) else {
            return tracing::debug!("a connection was lost before a runtime could serve it");
        };
        let accepted = AcceptedConnection {
            stream,
            slot: self.slots.take(address.ip()),
            _count: CountedConnection::new(&target.connections),
        };
        // Fails when the runtime has ended.
        let _handed_over = target.accepted.send(accepted).await.is_ok();
    }
}
