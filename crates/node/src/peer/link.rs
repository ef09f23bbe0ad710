//! The connection of one runtime to one peer.

use super::{PeerAddress, PeerAnswer, PeerEnvironment, PeerRequest, Transport};
use cluster::Miss;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Who gets the answers of a link.
pub(crate) trait Answers {
    /// The answer to the call with this ticket; exactly one a call.
    fn answer(&self, ticket: u64, answer: PeerAnswer);
}

/// What a link is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// It is being set up; calls wait for it.
    Connecting,
    /// It works.
    Up,
    /// The peer has been silent; calls fail at once.
    Suspected,
    /// The peer could not be reached; calls fail at once.
    Down,
}

/// What is known of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkStatus {
    /// What it is about.
    pub(crate) state: LinkState,
    /// Calls that wait for an answer.
    pub(crate) in_flight: usize,
    /// How far the peer's clock is ahead of ours, in milliseconds.
    pub(crate) drift_ms: Option<i64>,
}

/// The connection of one runtime to one peer.
pub(crate) struct Link {
    _name: String,
}

impl Link {
    /// A link to the node `name` at `address`.
    pub(crate) fn new(
        name: String,
        _address: PeerAddress,
        _transport: Arc<dyn Transport>,
        _environment: PeerEnvironment,
        _answers: Rc<dyn Answers>,
    ) -> Rc<Self> {
        Rc::new(Self { _name: name })
    }

    /// Keeps the link up, for as long as the runtime lives.
    pub(crate) async fn run_forever(self: Rc<Self>) {}

    /// Asks the peer. The answer comes under `ticket`, from another turn of the runtime.
    ///
    /// # Errors
    /// Why the peer is not asked.
    pub(crate) fn call(
        &self,
        _request: PeerRequest,
        _deadline: Duration,
        _ticket: u64,
    ) -> Result<(), Miss> {
        Err(Miss::Refused)
    }

    /// Whether a call would fail at once.
    pub(crate) fn is_down(&self) -> bool {
        true
    }

    /// Ends the calls whose deadline is not after `now`.
    pub(crate) fn expire(&self, _now: Duration) {}

    /// The peer has shown that it is up: do not wait to dial it.
    pub(crate) fn nudge(&self) {}

    /// After how long a read is slow at this peer.
    pub(crate) fn hedge_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// How far the peer's clock is ahead of ours, in milliseconds.
    pub(crate) fn drift_ms(&self) -> Option<i64> {
        None
    }

    /// What is known of the link.
    pub(crate) fn status(&self) -> LinkStatus {
        LinkStatus {
            state: LinkState::Down,
            in_flight: 0,
            drift_ms: None,
        }
    }
}
