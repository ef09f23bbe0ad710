//! An incoming connection.

use super::{PeerAnswer, PeerEnvironment, PeerRequest, Stream};
use crate::admission::Share;
use std::rc::Rc;
use std::time::Duration;

/// Where the requests of peers go.
pub(crate) trait Replica {
    /// Does as asked and replies, now or later.
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply);
}

/// The way back for one answer. Dropped without one it answers that the
/// replica failed.
pub(crate) struct Reply {
    deadline: Duration,
}

impl Reply {
    /// Until when the other side waits, on the monotonic clock.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Answers.
    pub(crate) fn send(self, answer: PeerAnswer) {
        self.send_holding(answer, None);
    }

    /// Answers; `share` is given back once the answer is written.
    pub(crate) fn send_holding(self, _answer: PeerAnswer, _share: Option<Share>) {}
}

/// Serves a connection until it ends. `leftover` are bytes that were read
/// behind the upgrade.
pub(crate) async fn serve<R: Replica>(
    _stream: Box<dyn Stream>,
    _leftover: bytes::Bytes,
    _environment: PeerEnvironment,
    _replica: Rc<R>,
) {
}
