//! The counters of a worker about coordinated requests and links to peers.

use super::Cell;
use base::Timestamp;
use cluster::Miss;
use peer::{LinkState, LinkStatus};

/// The reasons why a request may have had too few replicas.
pub(crate) const MISSES: [Miss; 10] = [
    Miss::Timeout,
    Miss::Suspected,
    Miss::Refused,
    Miss::Unsupported,
    Miss::Overloaded,
    Miss::Full,
    Miss::Failed,
    Miss::Learner,
    Miss::Undecided,
    Miss::Obsolete {
        below: Timestamp::ZERO,
    },
];

/// The counters of one runtime about the requests that it coordinates.
#[derive(Default)]
pub(crate) struct CoordinationMetrics {
    /// Writes that got a second timestamp.
    pub(crate) pushes: Cell,
    /// Versions that reads wrote to stale replicas.
    pub(crate) repairs: Cell,
    /// Reads that asked one more replica because one was slow.
    pub(crate) hedges: Cell,
    /// Keys of scans that were read singly, because their replicas differed.
    pub(crate) scan_reads: Cell,
    /// Requests that too few replicas answered, by the reason of the first replica that failed
    /// outright.
    pub(crate) not_enough: [Cell; MISSES.len()],
}

impl CoordinationMetrics {
    /// Counts a request that too few replicas answered.
    pub(crate) fn not_enough(&self, why: Miss) {
        for (miss, cell) in MISSES.iter().zip(&self.not_enough) {
            if std::mem::discriminant(miss) == std::mem::discriminant(&why) {
                cell.add(1);
            }
        }
    }
}

/// The counters of one runtime about its conditional writes.
#[derive(Default)]
pub(crate) struct ConditionalMetrics {
    /// Those whose version was written.
    pub(crate) applied: Cell,
    /// Those whose condition did not hold.
    pub(crate) not_matched: Cell,
    /// Those that had no effect for lack of replicas, timestamps or time.
    pub(crate) not_applied: Cell,
    /// Those that may have had an effect.
    pub(crate) unknown: Cell,
    /// The ballots that they tried.
    pub(crate) ballots: Cell,
    /// Keys that were settled.
    pub(crate) settled: Cell,
    /// Attempts to settle a key that failed.
    pub(crate) unsettled: Cell,
}

/// The numbers of one runtime's link to a peer, as the runtime's last check for what is
/// overdue published them.
#[derive(Default)]
pub(crate) struct LinkMetrics {
    /// 1 if the link is up.
    pub(crate) is_up: Cell,
    /// Calls that wait for an answer.
    pub(crate) in_flight: Cell,
    /// Calls that were answered.
    pub(crate) answered: Cell,
    /// Calls that timed out.
    pub(crate) timeouts: Cell,
    /// Calls that were lost with the connection.
    pub(crate) lost: Cell,
    /// Calls that were not sent or were refused because there were too many.
    pub(crate) overloaded: Cell,
    /// Handshakes.
    pub(crate) connects: Cell,
    /// How often the peer was suspected.
    pub(crate) suspicions: Cell,
    /// Bytes of all requests.
    pub(crate) sent_bytes: Cell,
    /// Bytes of all answers to them.
    pub(crate) received_bytes: Cell,
    /// Bytes of the requests of repairs.
    pub(crate) repair_sent_bytes: Cell,
    /// Bytes of the answers to them.
    pub(crate) repair_received_bytes: Cell,
    /// One more than the code of the replica state that the peer reports; 0 while it is not
    /// connected.
    pub(crate) replica_state: Cell,
    /// One more than the place of what keeps the two nodes apart among
    /// [`LinkProblem::WORDS`](peer::LinkProblem::WORDS); 0 if nothing is known to do so.
    pub(crate) problem: Cell,
    /// The smoothed latency of reads.
    pub(crate) read_us: Cell,
    /// The smoothed latency of writes.
    pub(crate) write_us: Cell,
    /// How far the peer's clock is ahead, in milliseconds: a signed number by its bits.
    pub(crate) clock_ahead_ms: Cell,
}

impl LinkMetrics {
    /// Publishes the numbers of a link.
    pub(crate) fn publish(&self, status: &LinkStatus) {
        let counts = status.counts;
        self.is_up.set(u64::from(status.state == LinkState::Up));
        self.in_flight.set(status.in_flight as u64);
        self.answered.set(counts.answered);
        self.timeouts.set(counts.timeouts);
        self.lost.set(counts.lost);
        self.overloaded.set(counts.overloaded);
        self.connects.set(counts.connects);
        self.suspicions.set(counts.suspicions);
        self.sent_bytes.set(counts.sent_bytes);
        self.received_bytes.set(counts.received_bytes);
        self.repair_sent_bytes.set(counts.repair_sent_bytes);
        self.repair_received_bytes.set(counts.repair_received_bytes);
        for (cell, latency) in [
            (&self.read_us, status.read_latency),
            (&self.write_us, status.write_latency),
        ] {
            let micros = latency.unwrap_or_default().as_micros();
            cell.set(u64::try_from(micros).unwrap_or(u64::MAX));
        }
        let replica_state = status
            .replica_state
            .map_or(0, |replica_state| 1 + replica_state as u64);
        self.replica_state.set(replica_state);
        let problem = status.problem.as_ref();
        self.problem
            .set(problem.map_or(0, |problem| 1 + problem.index() as u64));
        let ahead_ms = status.drift_ms.unwrap_or_default();
        self.clock_ahead_ms.set(ahead_ms.cast_unsigned());
    }
}
