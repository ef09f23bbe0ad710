//! Clients that write and read with 2 of 3 replicas without a pause, and what
//! happens to their requests.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests observe other processes, which have clocks and files of their own"
)]

use crate::cluster::TIMEOUT_SECONDS;
use crate::ledger::Ledger;
use crate::support::{HttpConnection, wait_until};
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PARAMETERS: &str = "&ack=2&from=3";

/// A request that took this long has waited for an unavailable node.
const SLOW: Duration = Duration::from_secs(TIMEOUT_SECONDS / 2);

/// How long requests may fail after a node has become unavailable.
const GRACE: Duration = Duration::from_secs(1);

/// What failed for a client.
enum ClientFailure {
    /// A request was refused or took too long.
    Failed { at: Instant, what: String },
    /// The connection broke, and the client stopped.
    Broken(io::Error),
}

/// The running clients and their failures.
pub(crate) struct ClientLoad {
    is_over: AtomicBool,
    requests: AtomicU64,
    troubles: Mutex<Vec<ClientFailure>>,
}

/// Stops the clients, also if the test panics meanwhile.
struct EndOfWork<'a>(&'a ClientLoad);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Relaxed);
    }
}

/// Runs a client for each ledger during `meanwhile`. The clients are spread
/// over the nodes at `addresses`.
pub(crate) fn under_load(
    ledgers: &mut [Ledger],
    addresses: &[SocketAddr],
    meanwhile: impl FnOnce(&ClientLoad),
) -> ClientLoad {
    let watch = ClientLoad {
        is_over: AtomicBool::new(false),
        requests: AtomicU64::new(0),
        troubles: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for (ledger, address) in ledgers.iter_mut().zip(addresses.iter().cycle()) {
            let watch = &watch;
            scope.spawn(move || {
                if let Err(error) = work(ledger, *address, watch) {
                    watch.note(ClientFailure::Broken(error));
                }
            });
        }
        let _end = EndOfWork(&watch);
        meanwhile(&watch);
    });
    watch
}

/// Writes and reads in turn. Only every other key is ever read: a node that
/// missed the other ones can get them by hints only.
fn work(ledger: &mut Ledger, address: SocketAddr, watch: &ClientLoad) -> io::Result<()> {
    let mut connection = HttpConnection::open(address)?;
    let mut place = 0;
    while !watch.is_over.load(Relaxed) {
        let write = ledger.next_write();
        let target = format!("/v0/entity?id={}{PARAMETERS}", write.key);
        watch.request("PUT", || {
            let answer = connection.exchange("PUT", &target, write.value.as_bytes())?;
            if answer.status != 201 {
                return Ok(Some(answer.status));
            }
            ledger.acknowledge(&write, answer.version.unwrap());
            Ok(None)
        })?;
        place = (place + 2) % ledger.len();
        watch.request("GET", || ledger.read(&mut connection, place, PARAMETERS))?;
    }
    Ok(())
}

impl ClientLoad {
    /// Runs a request, which returns its status if it failed.
    fn request(
        &self,
        method: &str,
        request: impl FnOnce() -> io::Result<Option<u16>>,
    ) -> io::Result<()> {
        let begin = Instant::now();
        let failure = request()?;
        let (at, took) = (Instant::now(), begin.elapsed());
        if failure.is_some() || took > SLOW {
            let what = format!("{method}: {failure:?} after {took:?}");
            self.note(ClientFailure::Failed { at, what });
        }
        self.requests.fetch_add(1, Relaxed);
        Ok(())
    }

    fn note(&self, trouble: ClientFailure) {
        self.troubles.lock().unwrap().push(trouble);
    }

    /// Lets the clients run for at least this long and send at least this many
    /// requests.
    pub(crate) fn go_on(&self, time: Duration, requests: u64) {
        let begin = Instant::now();
        let before = self.requests.load(Relaxed);
        wait_until("requests to be answered", || {
            let done = self.requests.load(Relaxed) - before;
            (begin.elapsed() >= time && done >= requests).then_some(())
        });
    }

    /// Fails unless every request succeeded, except in the first second after
    /// `disturbed`.
    pub(crate) fn assert_served(&self, disturbed: Instant) {
        let troubles = self.troubles.lock().unwrap();
        let unexcused: Vec<_> = troubles
            .iter()
            .filter_map(|trouble| match trouble {
                ClientFailure::Failed { at, what } => {
                    (*at < disturbed || *at > disturbed + GRACE).then(|| what.clone())
                }
                ClientFailure::Broken(error) => Some(format!("a connection broke: {error}")),
            })
            .collect();
        let requests = self.requests.load(Relaxed);
        assert!(
            unexcused.is_empty(),
            "{} of {requests} requests failed, such as {:?}",
            unexcused.len(),
            &unexcused[..unexcused.len().min(5)]
        );
    }
}
