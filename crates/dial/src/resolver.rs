//! Looks up the addresses of hosts.
//!
//! The system's look-up blocks, for as long as its servers are silent, and cannot be ended. So
//! each runs on a thread of its own, one at a time for each host, and nobody has to wait for
//! its end: neither an attempt to connect, nor a process that stops.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a look-up has to find other addresses than the last ones.
const REUSE_AFTER: Duration = Duration::from_millis(200);

/// Looks up a host; blocks.
pub type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The addresses of hosts: what the system finds, and what it found last. It is for the few
/// hosts that a configuration names, and forgets none of them.
pub struct Resolver {
    lookup: Arc<Lookup>,
    hosts: Mutex<BTreeMap<String, Arc<Host>>>,
}

/// What is known of one host.
#[derive(Default)]
struct Host {
    state: Mutex<HostState>,
    /// Notified when a look-up has ended.
    ended: Notify,
}

#[derive(Default)]
struct HostState {
    is_running: bool,
    /// How many look-ups have ended.
    ended: u64,
    /// Why the last one failed, if it did.
    problem: Option<(io::ErrorKind, String)>,
    /// What was found last.
    addresses: Vec<IpAddr>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(Arc::new(|host: &str| {
            let found = (host, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        }))
    }
}

impl Resolver {
    /// A resolver that looks hosts up in this way.
    #[must_use]
    pub fn new(lookup: Arc<Lookup>) -> Self {
        Self {
            lookup,
            hosts: Mutex::default(),
        }
    }

    /// The addresses of a host, with this port. If some are known from before, it waits only
    /// briefly for others. If none is, it waits for as long as the look-up takes; when the
    /// caller gives up, the look-up goes on for the next call.
    ///
    /// # Errors
    /// The host was not found, and never before.
    pub async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let known = self.host(host);
        let awaited = known.begin(host, &self.lookup);
        let are_known = !known.lock().addresses.is_empty();
        if are_known {
            // What was found last is good enough.
            drop(tokio::time::timeout(REUSE_AFTER, known.wait_for(awaited)).await);
        } else {
            known.wait_for(awaited).await;
        }
        let found = known.found()?;
        Ok(found.into_iter().map(|ip| (ip, port).into()).collect())
    }

    fn host(&self, host: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(host.to_owned()).or_default())
    }
}

impl Host {
    fn lock(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a look-up, unless one is running. Returns how many will have ended with it.
    fn begin(self: &Arc<Self>, name: &str, lookup: &Arc<Lookup>) -> u64 {
        let mut state = self.lock();
        let awaited = state.ended + 1;
        if std::mem::replace(&mut state.is_running, true) {
            return awaited;
        }
        drop(state);
        let (host, name, lookup) = (Arc::clone(self), name.to_owned(), Arc::clone(lookup));
        let thread = std::thread::Builder::new().name("look-up".to_owned());
        if let Err(error) = thread.spawn(move || host.end(lookup(&name))) {
            self.end(Err(error));
        }
        awaited
    }

    fn end(&self, found: io::Result<Vec<IpAddr>>) {
        {
            let mut state = self.lock();
            state.is_running = false;
            state.ended += 1;
            match found {
                Ok(addresses) if !addresses.is_empty() => {
                    state.addresses = addresses;
                    state.problem = None;
                }
                Ok(_) => {
                    let what = "the host has no address".to_owned();
                    state.problem = Some((io::ErrorKind::NotFound, what));
                }
                Err(error) => state.problem = Some((error.kind(), error.to_string())),
            }
        }
        self.ended.notify_waiters();
    }

    /// Waits until so many look-ups have ended.
    async fn wait_for(&self, awaited: u64) {
        loop {
            let mut ended = pin!(self.ended.notified());
            // Enabled before the check, so that no notification is missed.
            ended.as_mut().enable();
            if self.lock().ended >= awaited {
                return;
            }
            ended.await;
        }
    }

    fn found(&self) -> io::Result<Vec<IpAddr>> {
        let state = self.lock();
        match &state.problem {
            Some((kind, what)) if state.addresses.is_empty() => {
                Err(io::Error::new(*kind, what.clone()))
            }
            _ => Ok(state.addresses.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Context, Poll, Waker};

    type Answer = io::Result<Vec<IpAddr>>;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn at(last: u8) -> Vec<SocketAddr> {
        vec![(ip(last), 7).into()]
    }

    /// A resolver whose look-ups end when the test says how.
    fn resolver() -> (Resolver, Sender<Answer>) {
        let (answers, asked) = channel::<Answer>();
        let asked = Mutex::new(asked);
        let lookup = move |host: &str| {
            assert_eq!(host, "host.test");
            asked.lock().unwrap().recv().unwrap()
        };
        (Resolver::new(Arc::new(lookup)), answers)
    }

    #[tokio::test]
    async fn a_look_up_that_is_slow_is_there_for_the_next_attempt() {
        let (resolver, answers) = resolver();
        {
            // The caller gives up before the answer.
            let mut first = pin!(resolver.addresses("host.test", 7));
            let polled = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending));
        }
        // One answer is enough for both, because they wait for one look-up.
        answers.send(Ok(vec![ip(1)])).unwrap();
        assert_eq!(resolver.addresses("host.test", 7).await.unwrap(), at(1));
    }

    #[tokio::test]
    async fn the_last_good_addresses_stay_in_use_while_the_resolver_is_slow_or_fails() {
        let (resolver, answers) = resolver();
        answers.send(Ok(vec![ip(1)])).unwrap();
        assert_eq!(resolver.addresses("host.test", 7).await.unwrap(), at(1));
        // No answer comes.
        assert_eq!(resolver.addresses("host.test", 7).await.unwrap(), at(1));
        let failed = io::Error::other("no server answers");
        answers.send(Err(failed)).unwrap();
        assert_eq!(resolver.addresses("host.test", 7).await.unwrap(), at(1));
        answers.send(Ok(Vec::new())).unwrap();
        assert_eq!(resolver.addresses("host.test", 7).await.unwrap(), at(1));
        // Another address comes into use.
        answers.send(Ok(vec![ip(2)])).unwrap();
        while resolver.addresses("host.test", 7).await.unwrap() != at(2) {}
    }

    #[tokio::test]
    async fn a_host_that_was_never_found_is_an_error_until_it_is() {
        let (resolver, answers) = resolver();
        let failed = io::Error::other("no such host");
        answers.send(Err(failed)).unwrap();
        let error = resolver.addresses("host.test", 7).await.unwrap_err();
        assert_eq!(error.to_string(), "no such host");
        answers.send(Ok(Vec::new())).unwrap();
        let error = resolver.addresses("host.test", 7).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        answers.send(Ok(vec![ip(1)])).unwrap();
        assert_eq!(resolver.addresses("host.test", 7).await.unwrap(), at(1));
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        let resolver = Resolver::new(Arc::new(|_: &str| panic!("it is an address")));
        let found = resolver.addresses("::1", 7).await.unwrap();
        assert_eq!(found, ["[::1]:7".parse().unwrap()]);
    }
}
