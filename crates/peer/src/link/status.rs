//! The state of a link, and what can be seen of it from outside.

use crate::LinkProblem;
use crate::wire::contact::Contact;
use cluster::ReplicaState;
use std::time::Duration;

/// The state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// It connects for the first time, or to a peer that has just shown that it is up; calls
    /// wait for it.
    #[default]
    Connecting,
    /// It works.
    Up,
    /// The peer is silent; calls end at once.
    Suspected,
    /// The peer could not be reached; calls are refused at once.
    Down,
}

impl LinkState {
    /// The word for it on the status page.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Suspected => "suspected",
            Self::Down => "down",
        }
    }
}

/// What a link has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Calls that were accepted.
    pub calls: u64,
    /// Accepted calls that the peer answered, whatever the answer was.
    pub answered: u64,
    /// Accepted calls whose deadline passed, or that waited when the peer fell silent.
    pub timeouts: u64,
    /// Accepted calls that were lost because a connection broke or could not be made.
    pub lost: u64,
    /// Calls that were not accepted because too many are in flight.
    pub overloaded: u64,
    /// Handshakes that succeeded.
    pub connects: u64,
    /// How often the peer was suspected.
    pub suspicions: u64,
    /// Bytes of all requests, as of the last time that the peer was heard.
    pub sent_bytes: u64,
    /// Bytes of all answers.
    pub received_bytes: u64,
    /// Bytes of the requests of repairs, repair writes included.
    pub repair_sent_bytes: u64,
    /// Bytes of the answers to them.
    pub repair_received_bytes: u64,
}

/// What is known of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkStatus {
    /// Its state.
    pub state: LinkState,
    /// For how long there has been no connection; `None` while there is one.
    pub down_for: Option<Duration>,
    /// Why there is none, if one of the two nodes has said so, or TLS shows it.
    pub problem: Option<LinkProblem>,
    /// For how long there has been one, without a break; `None` while there is none.
    pub up_for: Option<Duration>,
    /// How the peer deals with this node, as the peer says; `None` while there is no
    /// connection. A peer that has not said it yet is taken to do nothing.
    pub contact: Option<Contact>,
    /// Calls that wait for an answer.
    pub in_flight: usize,
    /// How the peer's store stands, as the peer says; `None` while there is no
    /// connection.
    pub replica_state: Option<ReplicaState>,
    /// How far the peer's clock is ahead of this node's, in milliseconds.
    pub drift_ms: Option<i64>,
    /// How long reads take, smoothed.
    pub read_latency: Option<Duration>,
    /// How long writes take, smoothed.
    pub write_latency: Option<Duration>,
    /// What it has done so far.
    pub counts: LinkCounts,
}
