//! When the requests of a connection reached their steps, while a recording of spans asks
//! for it: `profile` keeps them.
//!
//! The steps, in the order of the record: its first bytes were read, its head was complete,
//! its body, it had its permit, its answer was made, its answer was written; then the answers
//! of the first nodes by number, each at its own place. A connection with requests that are
//! pipelined has no time of reading for those behind the first.

use crate::logs::slow_requests::Timeline;
use base::Clock;
use profile::{STEPS, monotonic_ns, record_steps, records_spans};
use std::cell::Cell;
use std::time::Duration;

/// The place of the step at which the answer was written.
const WRITTEN: usize = 5;

/// The place of the first answer of a replica.
const REPLICAS: usize = 6;

/// The steps of the request of a connection.
#[derive(Default)]
pub(crate) struct RecordedSteps {
    /// When the first bytes since the last request were read; 0 for never.
    read_ns: Cell<u64>,
    /// A request whose answer waits to be written.
    answered: Cell<Option<AnsweredSteps>>,
}

#[derive(Clone, Copy)]
struct AnsweredSteps {
    client_port: u16,
    version: u64,
    at_ns: [u64; STEPS],
}

impl RecordedSteps {
    /// Notes that bytes were read.
    pub(crate) fn received(&self) {
        if records_spans() && self.read_ns.get() == 0 {
            self.read_ns.set(monotonic_ns());
        }
    }

    /// When the request was read whose head is complete.
    pub(crate) fn take_read(&self) -> u64 {
        self.read_ns.take()
    }

    /// Notes the steps of a request whose answer is made now. `read_ns` is from
    /// [`RecordedSteps::take_read`].
    pub(crate) fn answered(
        &self,
        client_port: u16,
        read_ns: u64,
        began: Duration,
        timeline: &Timeline,
        clock: &dyn Clock,
    ) {
        // What was read meanwhile was the body.
        self.read_ns.set(0);
        let (ended_ns, ended) = (monotonic_ns(), clock.monotonic());
        let at = |time: Duration| {
            let ago = ended.saturating_sub(time).as_nanos();
            ended_ns.saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
        };
        // The two clocks are not read at the same moment.
        let head_ns = at(began).max(read_ns);
        let body_ns = timeline.body().map_or(head_ns, at).max(head_ns);
        let admitted_ns = timeline.admission().map_or(body_ns, at).max(body_ns);
        let mut at_ns = [0; STEPS];
        at_ns[..WRITTEN].copy_from_slice(&[read_ns, head_ns, body_ns, admitted_ns, ended_ns]);
        for (node, answered) in timeline.replicas.answers() {
            if let Some(place) = at_ns.get_mut(REPLICAS + node.index())
                && *place == 0
            {
                *place = at(answered);
            }
        }
        self.answered.set(Some(AnsweredSteps {
            client_port,
            version: timeline.version(),
            at_ns,
        }));
    }

    /// Notes that everything that was answered is written.
    #[inline]
    pub(crate) fn written(&self) {
        if let Some(mut steps) = self.answered.take() {
            steps.at_ns[WRITTEN] = monotonic_ns();
            record_steps(steps.client_port, steps.version, steps.at_ns);
        }
    }
}
