//! Clients that write and read with 2 of 3 replicas without a rest, and what
//! becomes of their requests.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests watch other processes, which share no seam with them"
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

/// A request that took so long has waited for a node that is not there.
const SLOW: Duration = Duration::from_secs(TIMEOUT_SECONDS / 2);

/// How long requests may fail once a node has gone.
const GRACE: Duration = Duration::from_secs(1);

/// What went wrong for a client.
enum ClientFailure {
    /// A request was refused, or took very long.
    Failed { at: Instant, what: String },
    /// The connection broke, and the client gave up.
    Broken(io::Error),
}

/// The clients at work.
pub(crate) struct ClientLoad {
    is_over: AtomicBool,
    requests: AtomicU64,
    troubles: Mutex<Vec<ClientFailure>>,
}

/// Ends the work, also when what goes on meanwhile panics.
struct EndOfWork<'a>(&'a ClientLoad);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Relaxed);
    }
}

/// Lets a client for each ledger work while something goes on. The clients
/// share the nodes at `addresses` evenly.
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

/// Writes and reads in turn. Only every other key is ever read: the others can
/// come to a node that missed them by hints alone.
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
    /// Does a request that gives its status if that is a failure.
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

    /// Lets the clients work for so long and do so many requests at least.
    pub(crate) fn go_on(&self, time: Duration, requests: u64) {
        let begin = Instant::now();
        let before = self.requests.load(Relaxed);
        wait_until("requests to be answered", || {
            let done = self.requests.load(Relaxed) - before;
            (begin.elapsed() >= time && done >= requests).then_some(())
        });
    }

    /// Fails unless every request was answered as it should be, those of the
    /// first second after `disturbed` excepted.
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
