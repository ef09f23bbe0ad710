//! Times those requests of peers that are part of a trace.
//!
//! The node that a client asks says which replica was slow. What the replica itself knows
//! of that is told under the same trace. Requests without a trace are not timed.

use base::{Clock, TraceId};
use bytes::Bytes;
use peer::{PeerRequest, Reply};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A request of a peer that is part of a trace, and that this node has answered.
#[derive(Clone, Copy, Debug)]
pub struct TracedRequest<'a> {
    /// The trace.
    pub trace: TraceId,
    /// What was asked for: `write`, `repair` or `read`.
    pub action: &'static str,
    /// The key.
    pub key: &'a [u8],
    /// When the request was here, on the monotonic clock.
    pub began: Duration,
    /// When it was answered.
    pub ended: Duration,
}

/// Who is told of such requests.
pub type SeeTraced = Box<dyn Fn(&TracedRequest<'_>) + Send + Sync>;

/// Times those requests, once somebody asks for it.
pub(crate) struct TracedRequests {
    clock: Arc<dyn Clock>,
    see: OnceLock<SeeTraced>,
}

impl TracedRequests {
    /// Times requests by this clock.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            see: OnceLock::new(),
        })
    }

    /// Says who is told.
    pub(crate) fn see_by(&self, see: SeeTraced) {
        // A second one would be a bug, and the first stays in force.
        let _first = self.see.set(see);
    }

    /// Times a request until its answer, if somebody asks for that.
    pub(crate) fn time(self: &Arc<Self>, trace: TraceId, request: &PeerRequest, reply: &mut Reply) {
        if self.see.get().is_none() {
            return;
        }
        let (action, key) = match request {
            PeerRequest::Write(entry) => ("write", Bytes::copy_from_slice(entry.key())),
            PeerRequest::Repair { entry, .. } => ("repair", Bytes::copy_from_slice(entry.key())),
            PeerRequest::Promise(request) => ("promise", request.key().clone()),
            PeerRequest::Accept { entry, .. } => ("accept", Bytes::copy_from_slice(entry.key())),
            PeerRequest::Read(key) | PeerRequest::ReadUnlessSame { key, .. } => {
                ("read", key.clone())
            }
            PeerRequest::RepairWrite { .. }
            | PeerRequest::Session(_)
            | PeerRequest::Page(_)
            | PeerRequest::Examine
            | PeerRequest::List(_)
            | PeerRequest::Backup(_) => return,
        };
        let (requests, began) = (Arc::clone(self), self.clock.monotonic());
        reply.call_on_answer(move || {
            if let Some(see) = requests.see.get() {
                see(&TracedRequest {
                    trace,
                    action,
                    key: &key,
                    began,
                    ended: requests.clock.monotonic(),
                });
            }
        });
    }
}
