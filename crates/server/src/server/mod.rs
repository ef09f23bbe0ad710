//! A server from start to stop.
//!
//! Start: the server binds its addresses, opens the store, then listens. The port is
//! closed until then, so a client that reaches a node also reaches its store.
//!
//! Stop, in this order: the server accepts no more connections; the requests that
//! were admitted end, then their connections, within the configured drain timeout;
//! the threads of the read pool end, the store is flushed and closed, and its threads
//! end, within [`CLOSE_MAX`].

mod check;
mod open_files;

pub use check::{Checked, Outcome, StartCheck};

use crate::config::ServerConfig;
use crate::logs::line_writer::LineWriter;
use crate::net::ListenerShared;
use crate::start_error::{FewOpenFiles, StartError, is_no_such_address};
use crate::status;
use crate::threads::executor::ThreadExecutor;
use crate::threads::read_threads::ReadThreads;
use crate::threads::runtime;
use crate::traces::Traces;
use crate::trust::Trust;
use crate::trust::reloading::{Reload, Reloader};
use crate::trust::tls_files::{self, TlsReload};
use cluster::NodeUrl;
use lsm::Disk;
use node::{ConfigError, Node, Seams};
use open_files::OpenFileBounds;
use peer::LinkFaults;
use profile::lock;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::sync::watch;

/// How long closing the store may take. A store that is not closed by then loses
/// nothing: the next start replays its log.
const CLOSE_MAX: Duration = Duration::from_secs(2);

/// How many ports are tried when several addresses need the same free port.
const PORT_ATTEMPTS: usize = 16;

/// What a node has that its configuration does not know.
#[derive(Default)]
pub struct Extras {
    /// Further sources, which [`Server::reload`] also reads again.
    pub sources: Vec<Arc<dyn Reload>>,
    /// Faults of the links to its peers. Only a node of `kvorum dev` has them.
    pub link_faults: Option<Arc<LinkFaults>>,
    /// What writes the log, if its metrics are to be shown.
    pub log: Option<Arc<LineWriter>>,
}

/// A node that serves. It stops on [`Server::shutdown`], or when it is dropped.
pub struct Server {
    addresses: Vec<SocketAddr>,
    shared: Arc<ListenerShared>,
    executor: Arc<ThreadExecutor>,
    stop: watch::Sender<bool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    read_threads: Mutex<Option<ReadThreads>>,
    reloader: Reloader,
    state: Mutex<RunState>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunState {
    Serving,
    Stopping,
    Stopped,
}

impl Server {
    /// Starts a node on this machine, and returns when it listens.
    ///
    /// # Errors
    /// See [`StartError`]; then nothing of the node is left running.
    pub fn start(config: ServerConfig) -> Result<Self, StartError> {
        Self::start_with(config, Seams::real()?)
    }

    /// Starts a node with these seams, and returns when it listens.
    ///
    /// # Errors
    /// See [`StartError`]; then nothing of the node is left running.
    pub fn start_with(config: ServerConfig, seams: Seams) -> Result<Self, StartError> {
        Self::start_with_extras(config, seams, Extras::default())
    }

    /// Starts a node with these seams and `extras`, and returns when it listens.
    ///
    /// # Errors
    /// See [`StartError`]; then nothing of the node is left running.
    pub fn start_with_extras(
        mut config: ServerConfig,
        seams: Seams,
        extras: Extras,
    ) -> Result<Self, StartError> {
        let Extras {
            sources: others,
            link_faults,
            log,
        } = extras;
        config.validate()?;
        take_stored_members(&mut config, &*seams.disk);
        let trust = Arc::new(Trust::new(&config.trust, &config.node.data, &seams)?);
        let node_tls = tls_files::load(&config, &*seams.clock)?;
        // The tokens come first: if another source hangs, the disk of a file for example, a
        // token that is revoked meanwhile was seen at least once more.
        let mut sources = trust.sources();
        sources.extend(others);
        if let Some(node_tls) = &node_tls {
            sources.push(TlsReload::new(
                Arc::clone(node_tls),
                Arc::clone(&seams.clock),
            ));
        }
        let bounds = open_file_bounds(&mut config)?;
        warn_of_file_size();
        let sockets = bind_all(&config)?;
        let addresses = addresses_of(&sockets)?;
        config.check_exposure(&addresses)?;
        config.set_port(addresses.first().map_or(0, SocketAddr::port));

        let executor = Arc::new(ThreadExecutor::start(&seams.clock)?);
        let (stop, stopped) = watch::channel(false);
        let (clock, random) = (Arc::clone(&seams.clock), Arc::clone(&seams.random));
        let store_executor = Arc::clone(&executor) as Arc<dyn lsm::Executor>;
        let opened = Node::open(
            config.node.clone(),
            config.resources(),
            seams,
            &store_executor,
        )
        .map_err(StartError::from);
        let started = opened.and_then(|node| {
            let node = Arc::new(node);
            let read_threads = ReadThreads::start(&node, config.read_threads)?;
            let reloader = Reloader::start(sources)?;
            let traces = Traces::start(&config, &clock, &random)?;
            let shared = Arc::new(ListenerShared::new(
                config, node, trust, node_tls, log, traces, &clock,
            ));
            status::report_by(&shared, &clock);
            let threads = runtime::start(
                &shared,
                sockets,
                bounds.unauthenticated,
                link_faults.as_ref(),
                &stopped,
            )?;
            Ok((shared, threads, read_threads, reloader))
        });
        let (shared, threads, read_threads, reloader) = match started {
            Ok(started) => started,
            Err(error) => {
                // Dropping `stop` ends the runtimes that have started.
                executor.stop();
                return Err(error);
            }
        };
        let listed: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        tracing::info!(url = %shared.config().node.url(), addresses = listed.join(","), "the node is serving");
        Ok(Self {
            addresses,
            shared,
            executor,
            stop,
            threads: Mutex::new(threads),
            read_threads: Mutex::new(Some(read_threads)),
            reloader,
            state: Mutex::new(RunState::Serving),
            changed: Condvar::new(),
        })
    }

    /// The addresses that the node listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The node's URL, with the port that it really has.
    #[must_use]
    pub fn url(&self) -> &NodeUrl {
        self.shared.config().node.url()
    }

    /// Waits until this node, which waits to join a cluster, is in the list of its members: then stop
    /// it, and start it anew. Waits for ever if it does not wait to join.
    pub async fn joined(&self) {
        self.shared.node.member_changes().joined().await;
    }

    /// Reads again what may change while the node runs, without waiting for it: the
    /// tokens file, the audit log's file, which may have been renamed, the files of TLS, and
    /// what [`Extras::sources`] has.
    pub fn reload(&self) {
        self.reloader.order();
    }

    /// Stops the node: lets the requests that were admitted end, and closes the store.
    /// Blocks for the drain timeout and two seconds at most (ten seconds by default).
    /// A second call waits for the first.
    ///
    /// # Errors
    /// Closing the store failed. The node has stopped all the same.
    pub fn shutdown(&self) -> Result<(), lsm::Error> {
        {
            let mut state = lock(&self.state);
            if *state != RunState::Serving {
                drop(state);
                self.wait();
                return Ok(());
            }
            *state = RunState::Stopping;
        }
        let result = self.stop_all();
        *lock(&self.state) = RunState::Stopped;
        self.changed.notify_all();
        result
    }

    /// Waits until the node has stopped.
    pub fn wait(&self) {
        let mut state = lock(&self.state);
        while *state != RunState::Stopped {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop_all(&self) -> Result<(), lsm::Error> {
        tracing::info!("the node is stopping");
        self.stop.send_replace(true);
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the node panicked");
            }
        }
        // Reads and the store may wait for a disk that hangs, so a thread of its own
        // closes them: this one waits for it only for a while.
        let (sender, closed) = mpsc::channel();
        let (shared, executor) = (Arc::clone(&self.shared), Arc::clone(&self.executor));
        let read_threads = lock(&self.read_threads).take();
        let closer = std::thread::Builder::new()
            .name("closer".to_owned())
            .spawn(move || {
                drop(read_threads);
                let result = shared.node.close();
                executor.stop();
                // Before it is told: the last owner writes the end of the audit log, and the
                // process may end as soon as this one knows.
                drop(shared);
                // Fails when closing took too long and the receiver is gone.
                let _sent = sender.send(result).is_ok();
            });
        if let Err(error) = closer {
            tracing::error!(%error, "cannot start a thread to close the store: the next start will replay its log");
            return Ok(());
        }
        let result = match closed.recv_timeout(CLOSE_MAX) {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!(
                    close_max_ms = CLOSE_MAX.as_millis(),
                    "the store was not closed in time: the next start will replay its log"
                );
                Ok(())
            }
        };
        tracing::info!("the node has stopped");
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.shutdown() {
            tracing::error!(%error, "closing the store failed: the next start will replay its log");
        }
    }
}

/// Takes the members of the list in the folder, if that has changed: there is memory for its peers, and
/// there are files and connections.
fn take_stored_members(config: &mut ServerConfig, disk: &dyn Disk) {
    if !config.node.is_alone()
        && let Some(members) = node::stored_members(&config.node, disk)
        && members.own_url() == config.node.url()
    {
        config.node.members = members;
    }
}

/// The addresses of sockets that are bound.
fn addresses_of(sockets: &[TcpSocket]) -> io::Result<Vec<SocketAddr>> {
    sockets.iter().map(TcpSocket::local_addr).collect()
}

/// Binds all addresses. If the configuration asks for any free port, all addresses get
/// the same one.
fn bind_all(config: &ServerConfig) -> Result<Vec<TcpSocket>, StartError> {
    let addresses = config.addresses()?;
    let wants_one_port = addresses.len() > 1 && addresses.iter().all(|each| each.port() == 0);
    let mut attempts = if wants_one_port { PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        match bind_once(&addresses, wants_one_port, config.listen.is_empty()) {
            Err(StartError::Address { source, .. })
                if attempts > 0 && source.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
}

/// Binds all addresses once. `is_derived`: they are the addresses of the URL's host, and
/// one of them suffices, because `localhost` is also ::1, which not every machine has.
fn bind_once(
    addresses: &[SocketAddr],
    wants_one_port: bool,
    is_derived: bool,
) -> Result<Vec<TcpSocket>, StartError> {
    let mut sockets: Vec<TcpSocket> = Vec::with_capacity(addresses.len());
    let has_ipv4 = |port: u16| {
        let mut all = addresses.iter();
        all.any(|address| address.is_ipv4() && address.port() == port)
    };
    for address in addresses {
        let mut address = *address;
        let only_ipv6 = has_ipv4(address.port());
        if let Some(first) = sockets.first().filter(|_| wants_one_port) {
            address.set_port(first.local_addr()?.port());
        }
        match runtime::bind(address, only_ipv6) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_derived && addresses.len() > 1 && is_no_such_address(&error) => {
                tracing::warn!(%address, %error, "this machine lacks an address of the URL's \
                 host: the node listens on the others");
            }
            Err(source) => return Err(StartError::Address { address, source }),
        }
    }
    if sockets.is_empty() {
        return Err(ConfigError::new("url", "this machine has no address of its host").into());
    }
    Ok(sockets)
}

/// How many connections and tables the limit of open files allows, which `config` has from then on.
fn open_file_bounds(config: &mut ServerConfig) -> Result<OpenFileBounds, FewOpenFiles> {
    let limit = open_files::raise_limit();
    let bounds = OpenFileBounds::within(limit, config)?;
    if bounds.clients < config.connections_max {
        tracing::warn!(
            open_files = limit,
            connections = bounds.clients,
            connections_max = config.connections_max,
            "the limit of open files is too low for --connections-max and the files of the store: \
             raise the limit (LimitNOFILE= of a service, ulimit -n)"
        );
        config.connections_max = bounds.clients;
    }
    config.node.tables_open_max = bounds.tables;
    Ok(bounds)
}

/// Says that the system limits the size of files, beyond which writes fail.
fn warn_of_file_size() {
    if let Some(bytes) = getrlimit(Resource::Fsize).current {
        tracing::warn!(
            bytes,
            "the size of files is limited, and writes beyond it will fail: remove the limit \
             (LimitFSIZE=infinity of a service, ulimit -f unlimited)"
        );
    }
}
