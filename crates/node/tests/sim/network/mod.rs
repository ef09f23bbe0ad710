//! The simulated network: connections between hosts as streams of bytes.
//!
//! A connection is two pipes, one each way. What is written into a pipe is in
//! flight for a seeded delay, then arrives, in order, in pieces cut at random.
//! Faults:
//! - a path (one host to another, one way) can be *cut*: what is in flight
//!   there stalls until it is mended, and nobody can connect, since that takes
//!   both ways;
//! - a connection can be *lost*: what is in flight is gone, both ends get an error;
//! - a host can be *dead* (no power: nothing answers, streams end without a
//!   word) or *deaf* (no process: connections are refused).
//!
//! One task ([`Network::run`]) lets bytes arrive; it sees all pipes, and where
//! bytes of several are due, the order is that of their time and number.

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

/// How many connections of one host wait to be taken; more are refused.
const BACKLOG: usize = 64;

/// How long a host that got no answer waits before it tries to connect once more.
const CONNECT_AGAIN: RangeInclusive<u64> = 10..=1_000;

/// A host's place in the list of all.
pub(crate) type HostNumber = usize;

/// The network that all hosts share. Cheap to clone; the clones are one network.
#[derive(Clone)]
pub(crate) struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when something is in flight, or moves on.
    changed: Notify,
    /// Told when a path or a host comes back.
    mended: Notify,
    trace: Trace,
}

struct State {
    dice: Dice,
    hosts: Vec<Host>,
    /// By the host that sends, then the one that receives.
    paths: Vec<Vec<Path>>,
    /// By number, in the order in which they were made.
    connections: BTreeMap<u64, Connection>,
    made: u64,
    /// In how many of a million pieces that arrive the connection is lost.
    losses_per_million: u64,
}

struct Host {
    condition: Condition,
    /// Takes connections; `None` when no process listens.
    listener: Option<mpsc::Sender<SimStream>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// It has power.
    Alive,
    /// It has none.
    Dead,
}

struct Path {
    /// How many faults cut it.
    cuts: usize,
    /// How long bytes are in flight, in milliseconds.
    delay_ms: RangeInclusive<u64>,
}

/// What somebody meets who wants to connect.
enum Reach {
    /// A process that listens.
    Listener,
    /// A host on which nobody listens.
    Nobody,
    /// Nothing at all.
    Silence,
}

impl Network {
    /// A network of so many hosts on which nobody listens yet.
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
            condition: Condition::Alive,
            listener: None,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
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
                mended: Notify::new(),
                trace,
            }),
        }
    }

    /// Lets bytes arrive when they are due, for as long as it is polled.
    pub(crate) async fn run(self) {
        loop {
            // Asked for before looking, so that no change is missed.
            let changed = self.shared.changed.notified();
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

    /// Starts to take connections at a host, which has power from now on. What
    /// is left of connections of its past is lost.
    pub(crate) fn listen(&self, host: HostNumber) -> mpsc::Receiver<SimStream> {
        let (sender, arrivals) = mpsc::channel(BACKLOG);
        let mut state = self.lock();
        let State {
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
        self.shared.mended.notify_waiters();
        self.shared.changed.notify_one();
        arrivals
    }

    /// Takes no more connections at a host whose process ends. Its streams end
    /// as they are dropped.
    pub(crate) fn deafen(&self, host: HostNumber) {
        let listener = self.lock().hosts[host].listener.take();
        drop(listener);
    }

    /// Cuts a host's power: its streams will end without a word.
    pub(crate) fn kill(&self, host: HostNumber) {
        let mut state = self.lock();
        state.hosts[host].condition = Condition::Dead;
        let listener = state.hosts[host].listener.take();
        drop(state);
        drop(listener);
    }

    /// Cuts the path from one host to another. Cuts add up.
    pub(crate) fn cut(&self, from: HostNumber, to: HostNumber) {
        self.lock().paths[from][to].cuts += 1;
    }

    /// Takes one cut back. What stalled goes on after a new delay.
    pub(crate) fn mend(&self, from: HostNumber, to: HostNumber) {
        let mut state = self.lock();
        let path = &mut state.paths[from][to];
        path.cuts = path.cuts.saturating_sub(1);
        let delay_ms = path.delay_ms.clone();
        let State {
            dice, connections, ..
        } = &mut *state;
        let again = Instant::now() + Duration::from_millis(dice.within(&delay_ms));
        for connection in connections.values_mut() {
            connection.delay_pipe(from, to, again);
        }
        drop(state);
        self.shared.mended.notify_waiters();
        self.shared.changed.notify_one();
    }

    /// Sets how long bytes are in flight between two hosts, both ways.
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
        self.shared.changed.notify_one();
    }

    /// From now on no connection is lost by chance.
    pub(crate) fn stop_losses(&self) {
        self.lock().losses_per_million = 0;
    }

    /// Connects two hosts.
    ///
    /// # Errors
    /// `ConnectionRefused` where nobody listens. Where nothing answers, it
    /// waits until something does.
    pub(crate) async fn dial(&self, from: HostNumber, to: HostNumber) -> io::Result<SimStream> {
        loop {
            let mended = self.shared.mended.notified();
            let (reach, there, back) = {
                let state = self.lock();
                let there = state.delay(from, to);
                (state.reach(from, to), there, state.delay(to, from))
            };
            match reach {
                Reach::Silence => {
                    mended.await;
                    let again_ms = self.lock().dice.within(&CONNECT_AGAIN);
                    sleep(Duration::from_millis(again_ms)).await;
                }
                Reach::Nobody => {
                    sleep(there + back).await;
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Reach::Listener => {
                    sleep(there).await;
                    // What was true when it was sent need not be so any more.
                    if let Some(stream) = self.connect(from, to) {
                        sleep(back).await;
                        return stream;
                    }
                }
            }
        }
    }

    /// Makes a connection where that is possible now; `None` where nothing answers.
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
        // Dropping a stream takes the lock, so it is free from here on.
        drop(state);
        self.shared
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

    /// Lets arrive what is due, and says when the next is.
    fn arrive(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        loop {
            let next = state.next_due();
            let Some((due, number, side)) = next.filter(|(due, ..)| *due <= now) else {
                return next.map(|(due, ..)| due);
            };
            let State {
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
                self.shared
                    .trace
                    .note(format_args!("net  {from}>{to} #{number} is lost"));
                continue;
            }
            let what = connection.arrive(side);
            self.shared
                .trace
                .note(format_args!("net  {from}>{to} #{number} {what}"));
            if connection.is_over() {
                connections.remove(&number);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What is first to arrive of all that can: when, and where.
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
