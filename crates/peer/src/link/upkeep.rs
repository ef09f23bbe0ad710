//! Keeps a link connected: dials, shakes hands, runs the connection, and dials again.

use super::clock_offset;
use super::dialler_side::DiallerSide;
use super::failure_detector::HEARTBEAT;
use super::{Link, LinkState};
use crate::connection::{Connection, End};
use crate::handshake::{self, HANDSHAKE_BYTES_MAX, HandshakeError, Session};
use crate::log_limiter::Direction;
use crate::transport::tls_failure;
use crate::wire::frame::{Decoder, PAYLOAD_BYTES_MAX};
use crate::{CONTACT, Contact, LinkProblem, NegotiatedProtocol};
use base::Backoff;
use cluster::Miss;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long dialling and the handshake may take together.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// The longest that the first wait before a peer is dialled again can be.
const BACKOFF_MIN: Duration = Duration::from_millis(10);

/// The longest that any such wait can be: a peer that is back is found within this
/// time even if it does not dial first.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// For how long nothing is logged about a peer that has not been reached yet: the
/// nodes of a cluster are started one after another.
pub(crate) const START_PATIENCE: Duration = Duration::from_secs(3);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("cannot connect: {0}")]
    Dial(std::io::Error),
    #[error("no handshake: {0}")]
    Handshake(#[from] HandshakeError),
    #[error("no connection within {CONNECT_MAX:?}")]
    Late,
}

impl ConnectError {
    /// What is wrong between the two nodes, if one of them has said so or TLS shows it.
    fn problem(&self) -> Option<LinkProblem> {
        match self {
            Self::Handshake(error) => error.problem(),
            Self::Dial(error) => {
                let failure = tls_failure(error)?;
                Some(LinkProblem::Tls(Arc::new(failure.clone())))
            }
            Self::Late => None,
        }
    }

    /// Whether one node refuses the other for a reason that goes away by itself.
    fn is_temporary(&self) -> bool {
        matches!(self, Self::Handshake(error) if error.is_temporary())
    }
}

impl Link {
    /// Closes the link, because the peer has left the cluster or has moved: calls that wait end,
    /// and so do new ones at once.
    pub fn close(&self) {
        self.is_closed.set(true);
        self.closed.notify_one();
        self.disconnect();
    }

    /// Keeps the link connected until it is closed.
    pub async fn run(self: Rc<Self>) {
        tokio::select! {
            biased;
            () = self.closed.notified() => self.disconnect(),
            () = self.stay_connected() => {}
        }
    }

    async fn stay_connected(&self) {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let patient_until = self.environment.clock.monotonic() + START_PATIENCE;
        loop {
            let mut longest = BACKOFF_MAX;
            // What an attempt that failed has taken counts as waiting: one that hung was cut
            // off, and nothing but the next one shows when that is over.
            let mut waited = Duration::ZERO;
            let began = self.environment.clock.monotonic();
            let (connected, has_dialled) = self.attempt().await;
            match connected {
                Ok((connection, negotiated)) => {
                    let up_since = self.environment.clock.monotonic();
                    self.run_connection(connection, negotiated).await;
                    let up_for = self.environment.clock.monotonic().saturating_sub(up_since);
                    // A link that is lost soon after each handshake backs off like one
                    // that cannot connect.
                    if up_for >= BACKOFF_MAX {
                        backoff.reset();
                    }
                    self.disconnect();
                }
                Err(error) => {
                    self.problem.replace(error.problem());
                    let may_be_starting = matches!(error, ConnectError::Dial(_))
                        && self.ahead_of_monotonic_ms.get().is_none()
                        && self.environment.clock.monotonic() < patient_until;
                    if !may_be_starting {
                        self.log_problem("cannot connect to a peer", &error.to_string());
                    }
                    if has_dialled {
                        // The attempt was too early, and the calls wait for the next one.
                        backoff.reset();
                        continue;
                    }
                    if self.is_joining() {
                        longest = HEARTBEAT;
                    } else {
                        self.disconnect();
                    }
                    if error.is_temporary() {
                        // The peer is up, and has yet to say what it remembers.
                        if !self.has_been_up.get() {
                            self.let_calls_wait();
                        }
                        longest = HEARTBEAT;
                    } else {
                        self.environment.policy.unreachable(&self.name);
                    }
                    waited = self.environment.clock.monotonic().saturating_sub(began);
                }
            }
            if self.is_redial_due.take() {
                self.note_peer_dial();
            }
            if self.is_peer_filled.take() {
                // It is up, and answers after the next handshake.
                self.let_calls_wait();
                continue;
            }
            backoff.fail();
            let wait = backoff
                .jittered_wait(&*self.environment.random)
                .min(longest);
            tokio::select! {
                biased;
                () = self.redial.notified() => {
                    backoff.reset();
                    self.let_calls_wait();
                }
                () = tokio::time::sleep(wait.saturating_sub(waited)) => {}
            }
        }
    }

    /// Tries to connect once. Returns also whether the peer has dialled meanwhile.
    async fn attempt(&self) -> (Result<(Connection, NegotiatedProtocol), ConnectError>, bool) {
        let mut connected = pin!(tokio::time::timeout(CONNECT_MAX, self.connect()));
        let mut has_dialled = false;
        loop {
            let may_wait = self.state.get() == LinkState::Connecting && self.has_been_up.get();
            tokio::select! {
                biased;
                connected = &mut connected => {
                    return (connected.unwrap_or(Err(ConnectError::Late)), has_dialled);
                }
                () = self.redial.notified() => has_dialled = true,
                () = tokio::time::sleep_until(self.calls_wait_until.get()), if may_wait => {
                    self.refuse_calls();
                }
            }
        }
    }

    async fn connect(&self) -> Result<(Connection, NegotiatedProtocol), ConnectError> {
        let dialling = self.transport.dial(&self.url);
        let mut stream = dialling.await.map_err(ConnectError::Dial)?;
        let mut decoder = Decoder::new(&[], HANDSHAKE_BYTES_MAX);
        let environment = self.environment.handshake();
        let Session {
            peer,
            negotiated,
            start,
            is_dialler_outdated: _,
            is_for_lists: _,
        } = handshake::dial(&mut *stream, &mut decoder, environment, Some(&self.name)).await?;
        if self.ahead_of_monotonic_ms.get().is_none() {
            // An estimate until the first heartbeat, which measures the way.
            let now = self.environment.clock.monotonic();
            let ahead_ms = clock_offset::peer_ahead_ms(peer.unix_ms, now, Duration::ZERO);
            self.ahead_of_monotonic_ms.set(ahead_ms);
        }
        self.replica_state.set(Some(peer.replica_state));
        decoder.allow(PAYLOAD_BYTES_MAX);
        let connection = Connection {
            stream,
            decoder,
            start,
        };
        Ok((connection, negotiated))
    }

    /// Sends requests and takes answers until the connection ends.
    async fn run_connection(&self, connection: Connection, negotiated: NegotiatedProtocol) {
        let clock = &*self.environment.clock;
        let log = &self.environment.log;
        if log.clear(Direction::Outgoing, &self.name) {
            tracing::info!(name = self.name, "the peer is connected again");
        }
        // This connection is what earlier requests to redial asked for.
        self.is_redial_due.set(false);
        pin!(self.redial.notified()).enable();
        self.has_been_up.set(true);
        self.problem.take();
        self.down_since.set(None);
        self.up_since.set(Some(clock.monotonic()));
        self.contact.set(Some(if negotiated.has(CONTACT) {
            Contact::default()
        } else {
            // A peer of an older release does not say it.
            Contact::FULL
        }));
        self.state.set(LinkState::Up);
        self.negotiated.set(Some(negotiated));
        self.seed.set(self.environment.random.next_u64());
        self.count(|counts| counts.connects += 1);
        self.calls.borrow_mut().begin_all(clock.monotonic());
        let mut side = DiallerSide::new(self, negotiated, connection.start.clone());
        let end = connection.run(clock, &mut side).await;
        if matches!(end, End::Rebuilt) {
            tracing::info!(name = self.name, "the peer's store was rebuilt");
            self.is_peer_filled.set(true);
            return;
        }
        self.log_problem("the connection to a peer has ended", &end.to_string());
    }

    /// Logs a problem with the peer, unless it is the same as the last one.
    fn log_problem(&self, what: &str, problem: &str) {
        let (log, name) = (&self.environment.log, self.name.as_str());
        log.line(Direction::Outgoing, Some(name), problem, |left_out| {
            tracing::warn!(name, problem, left_out, "{what}");
        });
    }

    /// Ends the calls that wait, because there is no connection any more.
    fn disconnect(&self) {
        if self.down_since.get().is_none() {
            let now = self.environment.clock.monotonic();
            self.down_since.set(Some(now));
        }
        self.up_since.set(None);
        self.replica_state.set(None);
        self.contact.set(None);
        self.negotiated.set(None);
        self.refuse_calls();
    }

    /// Ends the calls that wait, and lets none wait.
    fn refuse_calls(&self) {
        self.state.set(LinkState::Down);
        self.outgoing.clear();
        let lost = self.calls.borrow_mut().remove_all();
        self.end(&lost, Miss::Refused);
    }
}
