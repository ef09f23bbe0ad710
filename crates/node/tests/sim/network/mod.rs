//! The simulated network: connections between hosts as streams of bytes.
//!
//! A connection is two pipes, one for each direction. Bytes that are written into a pipe
//! are in flight for a seeded delay, then arrive in order, in pieces of random lengths.
//! Faults:
//! - A path (from one host to another) can be *cut*: bytes in flight stall until the path
//!   is healed, and no connection is made, because that takes both directions.
//! - A connection can be *lost*: bytes in flight are gone, and both ends get an error.
//! - A host can have no power: nothing answers, and streams end silently.
//! - A host can have no process: connections are refused.
//!
//! One task ([`Network::run`]) delivers bytes. It sees all pipes and delivers in the order
//! of time and connection number.

mod connection;
mod stream;

#[cfg(test)]
mod tests;

pub(crate) use stream::SimStream;

use crate::dice::Dice;
use crate::trace::Trace;
use connection::{Connection, Side};
use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

/// How many connections to a host may wait to be accepted; more are refused.
const BACKLOG: usize = 64;

/// How long a host without an answer waits before it tries to connect again, in
/// milliseconds.
const CONNECT_AGAIN: RangeInclusive<u64> = 10..=1_000;

/// The index of a host.
pub(crate) type HostNumber = usize;

/// The network of all hosts. Clones share one network.
#[derive(Clone)]
pub(crate) struct Network {
    inner: Arc<NetworkInner>,
}

struct NetworkInner {
    state: Mutex<NetworkState>,
    /// Notified when bytes are in flight, or their delay changes.
    changed: Notify,
    /// Notified when a path or a host is back.
    healed: Notify,
    trace: Trace,
}

struct NetworkState {
    dice: Dice,
    hosts: Vec<Host>,
    /// By the sending host, then by the receiving host.
    paths: Vec<Vec<Path>>,
    /// By number, in the order of their creation.
    connections: BTreeMap<u64, Connection>,
    made: u64,
    /// With how many of a million arriving pieces the connection is lost.
    losses_per_million: u64,
}

struct Host {
    /// How often it has moved, which is a part of its address.
    moves: u8,
    condition: Condition,
    /// Accepts connections; `None` if no process listens.
    listener: Option<mpsc::Sender<SimStream>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// The host has power.
    Alive,
    /// The host has no power.
    Dead,
}

struct Path {
    /// How many faults cut it.
    cuts: usize,
    /// How long bytes are in flight, in milliseconds.
    delay_ms: RangeInclusive<u64>,
}

/// What a host meets that wants to connect.
enum Reach {
    /// A process that listens.
    Listener,
    /// A host on which no process listens.
    Nobody,
    /// No answer.
    Silence,
}

impl Network {
    /// A network of hosts without processes.
    pub(crate) fn new(
        hosts: usize,
        delay_ms: &RangeInclusive<u64>,
        losses_per_million: u64,
        dice: Dice,
        trace: Trace,
    ) -> Self {
        let path = || Path {
            cuts: 0,
            delay_ms: delay_ms.clone(),
        };
        let host = || Host {
            moves: 0,
            condition: Condition::Alive,
            listener: None,
        };
        Self {
            inner: Arc::new(NetworkInner {
                state: Mutex::new(NetworkState {
                    dice,
                    hosts: (0..hosts).map(|_| host()).collect(),
                    paths: (0..hosts)
                        .map(|_| (0..hosts).map(|_| path()).collect())
                        .collect(),
                    connections: BTreeMap::new(),
                    made: 0,
                    losses_per_million,
                }),
                changed: Notify::new(),
                healed: Notify::new(),
                trace,
            }),
        }
    }

    /// Delivers bytes when they are due, while it is polled.
    pub(crate) async fn run(self) {
        loop {
            // Before the check, so that no change is missed.
            let changed = self.inner.changed.notified();
            let next_due = self.arrive(Instant::now());
            match next_due {
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = sleep_until(due) => {}
                        () = changed => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// Accepts connections at a host, which has power from now on. Connections from before a
    /// power cut are lost.
    pub(crate) fn listen(&self, host: HostNumber) -> mpsc::Receiver<SimStream> {
        let (sender, arrivals) = mpsc::channel(BACKLOG);
        let mut state = self.lock();
        let NetworkState {
            hosts, connections, ..
        } = &mut *state;
        hosts[host].condition = Condition::Alive;
        hosts[host].listener = Some(sender);
        for connection in connections.values_mut() {
            if connection.was_abandoned_by(host) {
                connection.lose();
            }
        }
        connections.retain(|_, connection| !connection.is_over());
        drop(state);
        self.inner.healed.notify_waiters();
        self.inner.changed.notify_one();
        arrivals
    }

    /// Accepts no more connections at a host, because its process ends. Its streams end when
    /// they are dropped.
    pub(crate) fn stop_listening(&self, host: HostNumber) {
        let listener = self.lock().hosts[host].listener.take();
        drop(listener);
    }

    /// Cuts the power of a host: its streams end silently.
    pub(crate) fn cut_power(&self, host: HostNumber) {
        let mut state = self.lock();
        state.hosts[host].condition = Condition::Dead;
        let listener = state.hosts[host].listener.take();
        drop(state);
        drop(listener);
    }

    /// How often a host has moved to another address.
    pub(crate) fn moves(&self, host: HostNumber) -> u8 {
        self.lock().hosts[host].moves
    }

    /// Gives a host the address that it has after so many moves. No process runs on it.
    pub(crate) fn move_host(&self, host: HostNumber, moves: u8) {
        self.lock().hosts[host].moves = moves;
    }

    /// Cuts the path from one host to another. Cuts add up.
    pub(crate) fn cut(&self, from: HostNumber, to: HostNumber) {
        self.lock().paths[from][to].cuts += 1;
    }

    /// Undoes one cut. Bytes that stalled arrive after a new delay.
    pub(crate) fn heal(&self, from: HostNumber, to: HostNumber) {
        let mut state = self.lock();
        let path = &mut state.paths[from][to];
        path.cuts = path.cuts.saturating_sub(1);
        let delay_ms = path.delay_ms.clone();
        let NetworkState {
            dice, connections, ..
        } = &mut *state;
        let again = Instant::now() + Duration::from_millis(dice.within(&delay_ms));
        for connection in connections.values_mut() {
            connection.delay_pipe(from, to, again);
        }
        drop(state);
        self.inner.healed.notify_waiters();
        self.inner.changed.notify_one();
    }

    /// Sets how long bytes are in flight between two hosts, in both directions.
    pub(crate) fn set_delay(&self, one: HostNumber, other: HostNumber, ms: &RangeInclusive<u64>) {
        let mut state = self.lock();
        state.paths[one][other].delay_ms = ms.clone();
        state.paths[other][one].delay_ms = ms.clone();
    }

    /// Loses all connections between two hosts.
    pub(crate) fn lose(&self, one: HostNumber, other: HostNumber) {
        for connection in self.lock().connections.values_mut() {
            if connection.is_between(one, other) {
                connection.lose();
            }
        }
        self.inner.changed.notify_one();
    }

    /// Stops the random loss of connections.
    pub(crate) fn stop_losses(&self) {
        self.lock().losses_per_million = 0;
    }

    /// Connects two hosts.
    ///
    /// # Errors
    /// `ConnectionRefused` if no process listens. If nothing answers, this waits until
    /// something does.
    pub(crate) async fn dial(&self, from: HostNumber, to: HostNumber) -> io::Result<SimStream> {
        loop {
            let healed = self.inner.healed.notified();
            let (reach, there, back) = {
                let state = self.lock();
                let there = state.delay(from, to);
                (state.reach(from, to), there, state.delay(to, from))
            };
            match reach {
                Reach::Silence => {
                    healed.await;
                    let again_ms = self.lock().dice.within(&CONNECT_AGAIN);
                    sleep(Duration::from_millis(again_ms)).await;
                }
                Reach::Nobody => {
                    sleep(there + back).await;
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Reach::Listener => {
                    sleep(there).await;
                    // The host may have changed while the request was in flight.
                    if let Some(stream) = self.connect(from, to) {
                        sleep(back).await;
                        return stream;
                    }
                }
            }
        }
    }

    /// Makes a connection, if possible now; `None` if nothing answers.
    fn connect(&self, from: HostNumber, to: HostNumber) -> Option<io::Result<SimStream>> {
        let mut state = self.lock();
        match state.reach(from, to) {
            Reach::Silence => return None,
            Reach::Nobody => return Some(Err(io::ErrorKind::ConnectionRefused.into())),
            Reach::Listener => {}
        }
        let number = state.made;
        state.made += 1;
        state.connections.insert(number, Connection::new(from, to));
        let listener = state.hosts[to].listener.clone();
        // Dropping a stream takes the lock, so it must be free from here on.
        drop(state);
        self.inner
            .trace
            .note(format_args!("net  {from}>{to} #{number} connects"));
        let dialer = SimStream::new(self.clone(), number, Side::Dialer);
        let accepter = SimStream::new(self.clone(), number, Side::Accepter);
        let taken = listener.is_some_and(|listener| listener.try_send(accepter).is_ok());
        Some(if taken {
            Ok(dialer)
        } else {
            Err(io::ErrorKind::ConnectionRefused.into())
        })
    }

    /// Delivers all bytes that are due, and returns when the next ones are.
    fn arrive(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        loop {
            let next = state.next_due();
            let Some((due, number, side)) = next.filter(|(due, ..)| *due <= now) else {
                return next.map(|(due, ..)| due);
            };
            let NetworkState {
                dice,
                connections,
                losses_per_million,
                ..
            } = &mut *state;
            let Some(connection) = connections.get_mut(&number) else {
                return Some(due);
            };
            let (from, to) = connection.hosts_from(side);
            if dice.below(1_000_000) < *losses_per_million {
                connection.lose();
                self.inner
                    .trace
                    .note(format_args!("net  {from}>{to} #{number} is lost"));
                continue;
            }
            let what = connection.arrive(side);
            self.inner
                .trace
                .note(format_args!("net  {from}>{to} #{number} {what}"));
            if connection.is_over() {
                connections.remove(&number);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl NetworkState {
    /// When and where the next bytes arrive.
    fn next_due(&self) -> Option<(Instant, u64, Side)> {
        let mut next: Option<(Instant, u64, Side)> = None;
        for (&number, connection) in &self.connections {
            for side in [Side::Dialer, Side::Accepter] {
                let (from, to) = connection.hosts_from(side);
                if self.paths[from][to].cuts > 0 || self.hosts[to].condition == Condition::Dead {
                    continue;
                }
                let due = connection.next_due(side);
                if let Some(due) = due.filter(|due| next.is_none_or(|(first, ..)| *due < first)) {
                    next = Some((due, number, side));
                }
            }
        }
        next
    }

    fn reach(&self, from: HostNumber, to: HostNumber) -> Reach {
        let is_cut = |from: usize, to: usize| self.paths[from][to].cuts > 0;
        if is_cut(from, to) || is_cut(to, from) || self.hosts[to].condition == Condition::Dead {
            Reach::Silence
        } else if self.hosts[to].listener.is_none() {
            Reach::Nobody
        } else {
            Reach::Listener
        }
    }

    fn delay(&self, from: HostNumber, to: HostNumber) -> Duration {
        Duration::from_millis(self.dice.within(&self.paths[from][to].delay_ms))
    }
}
