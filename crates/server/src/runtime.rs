//! Runtimes, and the acceptor that feeds them.
//!
//! A runtime is a thread with a single-threaded scheduler: its connections
//! share nothing with those of others but the store, the pools and the
//! budgets. One acceptor hands each connection to the runtime that has the
//! fewest; to let the kernel spread them would leave few connections uneven.

use crate::door::places::{Place, Places};
use crate::door::{Common, Door};
use crate::http::connection;
use peer::{TcpTransport, Transport};
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

/// Connections that wait to be accepted, per address.
const LISTEN_QUEUE: u32 = 4096;

/// Accepted connections that wait for their runtime.
const ARRIVALS_MAX: usize = 256;

/// How long the acceptor rests when the system gives it no connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// A connection on its way from the acceptor to a runtime.
struct Arrival {
    stream: std::net::TcpStream,
    /// The connection's place among all, until it ends.
    place: Place,
    /// Counts at its runtime, until it ends.
    _load: Load,
}

/// Counts one at a runtime until it is dropped.
struct Load(Arc<AtomicUsize>);

impl Load {
    fn on(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A runtime as the acceptor sees it.
struct Target {
    arrivals: mpsc::Sender<Arrival>,
    connections: Arc<AtomicUsize>,
}

/// Starts the runtimes and the acceptor, which listens on `sockets` when this
/// returns. All of them end once `stop` says so.
///
/// # Errors
/// Those of the system: no thread, or an address that cannot be listened on.
pub(crate) fn start(
    common: &Arc<Common>,
    sockets: Vec<TcpSocket>,
    stop: &watch::Receiver<bool>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    let mut targets = Vec::new();
    for number in 0..common.config().threads {
        let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
        targets.push(Target {
            arrivals: sender,
            connections: Arc::default(),
        });
        let (common, stop) = (Arc::clone(common), stop.clone());
        threads.push(spawn(
            format!("runtime-{number}"),
            || Ok(()),
            move |scheduler, ()| run(scheduler, common, number, arrivals, stop),
        )?);
    }
    let places = Places::new(common.config());
    let stop = stop.clone();
    threads.push(spawn(
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
            scheduler.block_on(accept_all(listeners, targets, places, stop));
        },
    )?);
    Ok(threads)
}

/// Starts a thread with a scheduler of its own, which cannot leave its thread:
/// there it prepares, which may fail, and then works. Returns once prepared.
fn spawn<T>(
    name: String,
    prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    work: impl FnOnce(&LocalRuntime, T) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (sender, prepared) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let scheduler = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default());
        let ready = scheduler.and_then(|scheduler| {
            let prepared = {
                let _entered = scheduler.enter();
                prepare()?
            };
            Ok((scheduler, prepared))
        });
        let (told, ready) = match ready {
            Ok(ready) => (Ok(()), Some(ready)),
            Err(error) => (Err(error), None),
        };
        // The starter waits for this, so it is there to hear it.
        if sender.send(told).is_ok()
            && let Some((scheduler, prepared)) = ready
        {
            work(&scheduler, prepared);
        }
    })?;
    match prepared.recv() {
        Ok(result) => result.map(|()| thread),
        Err(_) => Err(io::Error::other("a thread ended before it began")),
    }
}

/// Makes a socket for an address and takes the address, without listening yet:
/// until then a client that connects is refused.
///
/// # Errors
/// Those of the system: the address is in use, or none of this machine.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A node that restarts must not wait for the connections of its forerunner.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Runs one runtime until it has stopped and its connections have ended.
fn run(
    scheduler: &LocalRuntime,
    common: Arc<Common>,
    number: usize,
    mut arrivals: mpsc::Receiver<Arrival>,
    mut stop: watch::Receiver<bool>,
) {
    let drain_timeout = common.config().drain_timeout;
    let transport: Arc<dyn Transport> = Arc::new(TcpTransport);
    let door = Door::new(common, number, &transport);
    scheduler.block_on(async {
        door.spawn_upkeep();
        loop {
            tokio::select! {
                arrival = arrivals.recv() => match arrival {
                    Some(arrival) => begin(&door, arrival),
                    None => break,
                },
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        drop(arrivals);
        if tokio::time::timeout(drain_timeout, door.drain())
            .await
            .is_err()
        {
            tracing::warn!("some requests did not end in time: their connections are closed");
        }
    });
}

/// Starts to serve a connection.
fn begin(door: &Rc<Door>, arrival: Arrival) {
    let door = Rc::clone(door);
    tokio::task::spawn_local(async move {
        // Moved in whole, so that it counts until the connection has ended.
        let Arrival {
            stream,
            place,
            _load,
        } = arrival;
        match TcpStream::from_std(stream) {
            Ok(stream) => tokio::select! {
                biased;
                () = connection::serve(door, stream, &place) => {}
                () = place.wanted() => tracing::debug!("a stranger made room for another"),
            },
            Err(error) => tracing::warn!(%error, "cannot take a connection"),
        }
    });
}

/// Accepts connections on all listeners until the node stops.
async fn accept_all(
    listeners: Vec<TcpListener>,
    targets: Vec<Target>,
    places: Places,
    mut stop: watch::Receiver<bool>,
) {
    let targets = Rc::new(targets);
    for listener in listeners {
        tokio::task::spawn_local(accept(listener, Rc::clone(&targets), places.clone()));
    }
    // An error means that the node is gone, which stops it as well. The
    // listeners are closed as the tasks are dropped, with the runtime.
    let _stopped = stop.wait_for(|stop| *stop).await.is_ok();
}

async fn accept(listener: TcpListener, targets: Rc<Vec<Target>>, places: Places) {
    loop {
        // First, so that what a node without peers cannot serve stays with the kernel.
        places.ready().await;
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let Some(place) = places.take(address.ip()).await else {
            return;
        };
        if let Err(error) = hand_over(stream, place, &targets).await {
            tracing::debug!(%error, "a connection was lost on its way in");
        }
    }
}

async fn hand_over(stream: TcpStream, place: Place, targets: &[Target]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let least = targets
        .iter()
        .min_by_key(|target| target.connections.load(Ordering::Relaxed));
    let Some(target) = least else {
        return Ok(());
    };
    let arrival = Arrival {
        stream: stream.into_std()?,
        place,
        _load: Load::on(&target.connections),
    };
    target
        .arrivals
        .send(arrival)
        .await
        .map_err(|_| io::Error::other("the runtime has ended"))
}
