//! The node's hybrid logical clock: it allocates the timestamps of writes, and refuses to do so
//! while its clock cannot be trusted.
//!
//! # What a timestamp must be
//!
//! - **Unique.** A timestamp is above all timestamps that the node issued before, even if the
//!   node crashed or its clock stepped since. Therefore the node allocates timestamps only up
//!   to a durable *timestamp bound* (`bound_file`), and after a start only above the timestamp
//!   bound that it finds. A job raises the timestamp bound before timestamps reach it
//!   (`raising`). A store without a timestamp bound may replace one that was lost, so it first
//!   asks all peers which timestamps they have seen. A request waits for the job only if the
//!   clock has leapt beyond the timestamp bound, for example after a pause of the process.
//! - **Near the time.** A wrong clock would timestamp versions that nobody can overwrite until
//!   their time comes. Therefore a node with peers allocates no timestamp after a start until a
//!   peer whose clock is near has confirmed this node's clock and has said what timestamps it has
//!   seen (`confirmation`). The same holds after its clock was set by more than the clock bound. It allocates
//!   no timestamp while its clock is far from the clocks of most peers
//!   ([`ClockBound::may_allocate_timestamps`]), and no timestamp that a peer would refuse
//!   ([`ClockBound::accepts`]). A node alone has no peers to ask, and none to mislead.
//!
//! # The bound for tombstones
//!
//! A timestamp is *pending* from when it is issued until its write is in the engine
//! (`pending`). The engine may drop tombstones below the least pending timestamp, or
//! below the greatest timestamp if none is pending: later writes are given a timestamp above
//! that bound, and the engine already has all writes below it. A node without peers
//! needs no other bound.

mod allocate;
mod bound_file;
mod confirmation;
mod peer_clocks;
mod pending;
mod raising;
mod refusal;
mod status;

#[cfg(test)]
mod tests;

pub use bound_file::{TIMESTAMP_BOUND_VERSIONS, fuzz_timestamp_bound};
pub use pending::AllocatedTimestamp;
pub use refusal::NoTimestamp;
pub use status::TimestampStatus;

use base::{Clock, Timestamp};
use bound_file::TimestampBoundFile;
use cluster::{ClockBound, HybridClock, Members, NodeId, TimestampReservation};
use lsm::{Disk, Error, Executor};
use peer_clocks::{ClockReading, PeerClocks};
use pending::PendingTimestamps;
use profile::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// The farthest that the timestamp bound is ahead. A crash skips the timestamps up to it.
const RESERVATION_MAX: Duration = Duration::from_secs(10);

/// The reservation is at most the bound on clocks divided by this, because a start
/// after a crash must not find its timestamps beyond the bound.
const RESERVATION_PART: u32 = 4;

/// How long after a start writes wait for a first peer. Later they are refused at
/// once, because a peer may take hours to come back.
const FIRST_MEETING_MAX: Duration = Duration::from_secs(2);

/// Issues the timestamps of a node.
pub struct TimestampAllocator {
    clock: Arc<dyn Clock>,
    executor: Arc<dyn Executor>,
    bound: ClockBound,
    /// This node's ID, which all its timestamps carry.
    id: u8,
    is_single_node: bool,
    /// How far clocks may differ.
    drift_max: Duration,
    reservation_max: Duration,
    peer_clocks: PeerClocks,
    /// Whether another process may issue the same timestamps.
    is_outdated: Arc<AtomicBool>,
    state: Mutex<AllocatorState>,
    /// `None` until the store is open, and after it was closed.
    bound_file: Mutex<Option<TimestampBoundFile>>,
    /// Notified when a timestamp that was refused may be issued.
    changed: Notify,
    own: Weak<Self>,
}

struct AllocatorState {
    /// `None` until the store is open, because before that nobody knows which
    /// timestamps it holds.
    hybrid: Option<HybridClock>,
    pending: PendingTimestamps,
    /// The last timestamp issued; before the first one the timestamp bound that the start found.
    last_issued: Timestamp,
    /// When the last timestamp was issued, on the monotonic clock.
    last_issued_at: Duration,
    /// Has the durable timestamp bound.
    reservation: TimestampReservation,
    /// Whether a job raises the timestamp bound or is about to.
    is_raising: bool,
    /// Until when writes wait for a first peer, on the monotonic clock.
    first_peer_deadline: Duration,
    /// How far the wall clock was ahead of the monotonic clock when a peer last
    /// confirmed it, in milliseconds.
    confirmed_ahead_ms: Option<i64>,
    /// The greatest timestamps that peers have issued or seen. A peer's timestamp waits here
    /// until this clock can judge it, and is observed then.
    greatest_seen_by_peers: BTreeMap<NodeId, Timestamp>,
    /// The peers of which such a timestamp was observed.
    observed_peers: BTreeSet<NodeId>,
    /// When this store was opened, on the monotonic clock, if it has never issued a timestamp: a
    /// store that was lost may have.
    new_since: Option<Duration>,
    /// The refusal that was logged last, if the node has not recovered from it.
    logged: Option<NoTimestamp>,
}

impl TimestampAllocator {
    /// The clock of this node. It allocates no timestamps before [`TimestampAllocator::open`].
    pub fn new(
        clock: Arc<dyn Clock>,
        executor: Arc<dyn Executor>,
        members: &Members,
        clock_drift_max: Duration,
    ) -> Arc<Self> {
        let is_single_node = members.is_single_node();
        let reservation_max = if is_single_node {
            RESERVATION_MAX
        } else {
            RESERVATION_MAX.min(clock_drift_max / RESERVATION_PART)
        };
        Arc::new_cyclic(|own| Self {
            clock,
            executor,
            bound: ClockBound::new(clock_drift_max),
            id: members.id_in_timestamps(),
            is_single_node,
            drift_max: clock_drift_max,
            reservation_max,
            peer_clocks: PeerClocks::new(members),
            is_outdated: Arc::default(),
            state: Mutex::new(AllocatorState {
                hybrid: None,
                pending: PendingTimestamps::default(),
                last_issued: Timestamp::ZERO,
                last_issued_at: Duration::ZERO,
                reservation: TimestampReservation::new(reservation_max, Timestamp::ZERO),
                is_raising: false,
                first_peer_deadline: Duration::ZERO,
                confirmed_ahead_ms: None,
                greatest_seen_by_peers: BTreeMap::new(),
                observed_peers: BTreeSet::new(),
                new_since: None,
                logged: None,
            }),
            bound_file: Mutex::new(None),
            changed: Notify::new(),
            own: Weak::clone(own),
        })
    }

    /// Begins to allocate timestamps, above the timestamp bound in the store's folder and above
    /// `greatest_stored`. If `greatest_stored` is further ahead than a peer would
    /// accept, it is ignored, because this clock must not follow it. `drop_above`:
    /// the engine has dropped all versions above this timestamp, so a higher timestamp bound
    /// is lowered to it. `accept_data_loss`: an operator answers for timestamps that a lost store
    /// has given. Blocks.
    ///
    /// # Errors
    /// The timestamp bound cannot be read, or a first one cannot be written.
    pub fn open(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        greatest_stored: Timestamp,
        drop_above: Option<Timestamp>,
        accept_data_loss: bool,
    ) -> Result<(), Error> {
        let (mut file, mut found) = TimestampBoundFile::open(disk, folder)?;
        let is_new = found == Timestamp::ZERO && !accept_data_loss;
        if let Some(limit) = drop_above.filter(|limit| *limit < found) {
            file.set(limit)?;
            found = limit;
        }
        let mut hybrid = HybridClock::new(self.id, found);
        if self.accepts(greatest_stored) {
            hybrid.observe(greatest_stored);
        } else {
            tracing::error!(
                timestamp = %greatest_stored,
                "the store holds versions from the future, which cannot be overwritten until \
                 their time has come: if this node's clock is right, start it with \
                 --drop-future-versions"
            );
        }
        {
            let mut state = lock(&self.state);
            let now = self.clock.monotonic();
            state.hybrid = Some(hybrid);
            state.last_issued = found;
            state.last_issued_at = now;
            state.new_since = is_new.then_some(now);
            state.reservation = TimestampReservation::new(self.reservation_max, found);
            state.first_peer_deadline = now.saturating_add(FIRST_MEETING_MAX);
            state.is_raising = true;
        }
        *lock(&self.bound_file) = Some(file);
        // So that the first write of a node alone need not wait. A node with peers
        // has to meet one of them first.
        self.raise();
        Ok(())
    }

    /// Stops issuing timestamps and lowers the timestamp bound to the last one issued, so that
    /// the next start skips none. Blocks.
    pub fn close(&self) {
        let Some(mut file) = lock(&self.bound_file).take() else {
            return;
        };
        let last_issued = {
            let mut state = lock(&self.state);
            // A store that has heard from all peers is new no more, even if it has issued none.
            let next = match state.last_issued {
                Timestamp::ZERO => self.next(&state, ClockReading::now(&*self.clock)).ok(),
                last_issued => Some(last_issued),
            };
            state.hybrid = None;
            next.unwrap_or(Timestamp::ZERO)
        };
        if let Err(error) = file.set(last_issued) {
            tracing::warn!(
                %error,
                "the timestamp bound could not be lowered: the next start skips the timestamps \
                 that were reserved"
            );
        }
        self.changed.notify_waiters();
    }

    /// Takes note of the nodes of a layout before it is in force: nothing is known of the clocks of
    /// those that have joined, and those that have left have no say any more.
    pub fn follow(&self, members: &Members) {
        let mut state = lock(&self.state);
        if state.observed_peers.len() >= self.peer_clocks.peers() {
            // All have said what they have seen: a node that joins has only seen what one of them has.
            state.new_since = None;
        }
        self.peer_clocks.follow(members);
        let is_member = |node: &NodeId| members.contains(*node);
        state
            .greatest_seen_by_peers
            .retain(|node, _| is_member(node));
        state.observed_peers.retain(is_member);
    }

    /// While it is set, no timestamps are issued: the store is an older state of a store
    /// that a peer knows, or a copy of it, so another process may have issued the same
    /// timestamps, or may still issue them.
    pub fn outdated_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_outdated)
    }

    /// Whether this node accepts versions with this timestamp, wherever they come from.
    pub fn accepts(&self, timestamp: Timestamp) -> bool {
        self.is_single_node || self.bound.accepts(timestamp, self.clock.unix_ms())
    }

    /// Observes a timestamp that another node issued, so that the next timestamp is above
    /// it. Returns `false` if this node does not accept it, and before
    /// [`TimestampAllocator::open`].
    pub fn observe(&self, seen: Timestamp) -> bool {
        if !self.accepts(seen) {
            return false;
        }
        let mut state = lock(&self.state);
        let Some(hybrid) = &mut state.hybrid else {
            return false;
        };
        hybrid.observe(seen);
        true
    }
}
