//! The node's hybrid logical clock: what its stamps are, and when it gives none.
//!
//! # What a stamp must be
//!
//! - **Its own.** It is above all stamps given before, also before a crash or
//!   a step of the clock: stamps are given only up to a durable *ceiling*
//!   ([`ceiling`]), and a start begins above the one that it finds. The ceiling
//!   is raised by a job ([`Lane::Owner`]) before it is reached; a request waits
//!   for it only where the clock has leapt beyond it, as after a pause.
//! - **Near the time.** A clock that is wrong would stamp versions that nobody
//!   can overwrite until their time has come. So a start gives no stamp before
//!   a peer whose clock is near has vouched for this node's, and has told what
//!   it has seen; nor does a node whose clock was set since then, by more than
//!   the bound, before one has again. A node gives none while its clock is far from those of most
//!   peers ([`ClockBound::may_stamp`]), and none that a peer would not take
//!   ([`ClockBound::takes`]). A node alone has nobody to ask or to mislead.
//!
//! # The bound that follows
//!
//! A stamp is *pending* from when it is given until its write was handed to
//! the engine. The bound below which the engine may drop tombstones is the
//! least pending stamp, or the greatest stamp given when none is pending:
//! writes yet to come are stamped above that, and writes below it are already
//! the engine's. That is all a node without peers needs to prove.

mod ceiling;
mod peer_clocks;

#[cfg(test)]
mod tests;

pub use ceiling::fuzz_ceiling;

use base::{Clock, Timestamp};
use ceiling::CeilingFile;
use cluster::{ClockBound, HybridClock, Members, NodeNumber, TimestampReservation};
use lsm::{Disk, Error, Executor, Lane};
use peer_clocks::{Moment, PeerClocks, ahead_of_monotonic_ms};
use profile::lock;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// How far ahead the ceiling is at most: what a crash may skip.
const RESERVE_MAX: Duration = Duration::from_secs(10);

/// The part of the bound on clocks that the reserve may be, where that is
/// less: a start after a crash must not find itself out of bounds.
const RESERVE_PART: u32 = 4;

/// For how long after a stamp the ceiling is kept ahead of the clock, so that
/// the next one need not wait; an idle node leaves its disk alone.
const KEPT_WARM: Duration = Duration::from_secs(60);

/// After how long a ceiling that could not be raised is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// For how long after its start writes wait for a first peer. After that they
/// are refused at once: it may take hours.
const FIRST_MEETING_MAX: Duration = Duration::from_secs(2);

/// Why no stamp is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStamp {
    /// The store is not open yet, or not any more.
    #[error("the node is starting or stopping: use another node")]
    Closed,
    /// The node's clock is too far from those of most peers.
    #[error(
        "this node's clock is further than --clock-drift-max from those of most other nodes: \
         set it right; until then use another node"
    )]
    Far,
    /// No peer has vouched for the node's clock since the start, or since it was set.
    #[error(
        "this node has met no other node with a clock near its own since it started, or since \
         its clock was set, so nothing vouches for its clock: start another node, or mend what \
         lies between them"
    )]
    Unmet,
    /// What was stamped before lies too far ahead of the node's clock.
    #[error(
        "this node's next stamp would be {} s ahead of its clock, which other nodes refuse: what \
         it stamped or saw before came from a clock that was wrong. Use another node until its \
         clock has caught up, or start it with --drop-future-versions", ahead_ms / 1000
    )]
    Ahead {
        /// By how many milliseconds.
        ahead_ms: u64,
    },
    /// The durable ceiling of stamps is reached.
    #[error(
        "the bound of this node's stamps could not be made durable in time: its log tells what \
         its disk says; try again, or use another node"
    )]
    Ceiling,
    /// The store is an older state of one that peers know, or a copy.
    #[error(
        "this node's store was restored from a copy, or a copy of it was started, so that another \
         process may have given its stamps: use another node; if no other process has the other \
         folder, start this one with --accept-empty"
    )]
    Outdated,
    /// There is no greater timestamp.
    #[error("this node has seen the last timestamp that there is: use another node")]
    End,
}

/// Stamps writes.
pub(crate) struct Stamping {
    clock: Arc<dyn Clock>,
    executor: Arc<dyn Executor>,
    bound: ClockBound,
    /// This node's number, which all its stamps carry.
    number: u8,
    is_alone: bool,
    reserve_max: Duration,
    peer_clocks: PeerClocks,
    state: Mutex<State>,
    /// None until the store is open, and after it was closed.
    ceiling_file: Mutex<Option<CeilingFile>>,
    /// A stamp that was refused may be given now.
    changed: Notify,
    own: Weak<Self>,
}

struct State {
    /// `None` until the store is open: before that, what it holds is unknown.
    hybrid: Option<HybridClock>,
    /// In their order. As many as there are writes between stamp and engine:
    /// up to the requests in flight when many come at once.
    pending: Vec<Timestamp>,
    /// The greatest stamp given; the ceiling that was found before the first.
    given: Timestamp,
    /// When that was, on the monotonic clock.
    given_at: Duration,
    /// Has the durable ceiling.
    reservation: TimestampReservation,
    is_raising: bool,
    /// Until when writes wait for a first peer, on the monotonic clock.
    patient_until: Duration,
    /// How far the wall clock was ahead of the monotonic one when a peer last
    /// vouched for it, in milliseconds.
    vouched_ahead_ms: Option<i64>,
    /// What peers have told that they gave or saw, until their clocks are near.
    told: BTreeMap<NodeNumber, Timestamp>,
    /// Whether another process may give the same stamps.
    is_outdated: bool,
    /// What was last said in the log.
    logged: Option<NoStamp>,
}

/// How stamping stands.
#[derive(Clone, Copy, Debug)]
pub struct StampingStatus {
    /// Why no stamp is given, if none is.
    pub refusal: Option<NoStamp>,
    /// The greatest stamp given or seen.
    pub greatest: Timestamp,
    /// How far the next stamp is ahead of the wall clock, in milliseconds.
    pub stamp_ahead_ms: u64,
    /// The durable ceiling of stamps.
    pub ceiling: Timestamp,
    /// How far the clocks of the peers that were heard from are ahead of this
    /// node's, in milliseconds: the median.
    pub peers_ahead_ms: Option<i64>,
    /// Whether the clock is near those of a majority of all peers.
    pub is_proven: bool,
}

/// A stamp that is pending until it is dropped.
pub(crate) struct Stamp {
    stamping: Arc<Stamping>,
    timestamp: Timestamp,
    is_pending: bool,
}

impl Stamping {
    /// The clock of this node. It gives no stamps before [`Stamping::open`].
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        executor: Arc<dyn Executor>,
        members: &Members,
        clock_drift_max: Duration,
    ) -> Arc<Self> {
        let is_alone = members.is_alone();
        let reserve_max = match is_alone {
            true => RESERVE_MAX,
            false => RESERVE_MAX.min(clock_drift_max / RESERVE_PART),
        };
        Arc::new_cyclic(|own| Self {
            clock,
            executor,
            bound: ClockBound::new(clock_drift_max),
            number: members.stamp_number(),
            is_alone,
            reserve_max,
            peer_clocks: PeerClocks::new(members.count(), members.own()),
            state: Mutex::new(State {
                hybrid: None,
                pending: Vec::new(),
                given: Timestamp::ZERO,
                given_at: Duration::ZERO,
                reservation: TimestampReservation::new(reserve_max, Timestamp::ZERO),
                is_raising: false,
                patient_until: Duration::ZERO,
                vouched_ahead_ms: None,
                told: BTreeMap::new(),
                is_outdated: false,
                logged: None,
            }),
            ceiling_file: Mutex::new(None),
            changed: Notify::new(),
            own: Weak::clone(own),
        })
    }

    /// Starts to give stamps, all above the ceiling in the folder of the store
    /// and above `greatest_stored`. What is stored from further ahead than a
    /// peer would take does not count: this clock must not follow it.
    /// `drop_above`: what was stamped above this was dropped, so a ceiling that
    /// lies above it comes down to it. Blocks.
    ///
    /// # Errors
    /// Those of reading the ceiling, or of making a first one.
    pub(crate) fn open(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        greatest_stored: Timestamp,
        drop_above: Option<Timestamp>,
    ) -> Result<(), Error> {
        let (mut file, mut found) = CeilingFile::open(disk, folder)?;
        if let Some(limit) = drop_above.filter(|limit| *limit < found) {
            file.set(limit)?;
            found = limit;
        }
        let mut hybrid = HybridClock::new(self.number, found);
        if self.takes(greatest_stored) {
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
            state.hybrid = Some(hybrid);
            state.given = found;
            state.given_at = self.clock.monotonic();
            state.reservation = TimestampReservation::new(self.reserve_max, found);
            state.patient_until = self.clock.monotonic().saturating_add(FIRST_MEETING_MAX);
            state.is_raising = true;
        }
        *lock(&self.ceiling_file) = Some(file);
        // So that the first write of a node alone need not wait; one with peers
        // has to hear from one first.
        self.raise();
        Ok(())
    }

    /// Ends the giving of stamps, and leaves the ceiling at the last one given,
    /// so that the next start does not skip any. Blocks.
    pub(crate) fn close(&self) {
        let Some(mut file) = lock(&self.ceiling_file).take() else {
            return;
        };
        let given = {
            let mut state = lock(&self.state);
            state.hybrid = None;
            state.given
        };
        if let Err(error) = file.set(given) {
            tracing::warn!(%error, "the next start skips what was reserved of this one's stamps");
        }
        self.changed.notify_waiters();
    }

    /// Ends the giving of stamps for this start: the store is an older state of
    /// one that a peer knows, or a copy, so another process may have given the
    /// same stamps, or may be giving them now.
    pub(crate) fn stop(&self) {
        lock(&self.state).is_outdated = true;
    }

    /// The next stamp, above all given or observed; waits for what is about to
    /// be, until the deadline on the monotonic clock.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn stamp_by(self: &Arc<Self>, deadline: Duration) -> Result<Stamp, NoStamp> {
        loop {
            // Before the attempt, so that no change between the two is missed.
            let changed = self.changed.notified();
            let why = match self.stamp() {
                Ok(stamp) => return Ok(stamp),
                Err(why) => why,
            };
            let until = match why {
                NoStamp::Ceiling => deadline,
                NoStamp::Unmet => deadline.min(lock(&self.state).patient_until),
                _ => return Err(why),
            };
            let left = until.saturating_sub(self.clock.monotonic());
            if left.is_zero() || tokio::time::timeout(left, changed).await.is_err() {
                return Err(why);
            }
        }
    }

    /// The next stamp, above all given or observed, if there is one at once.
    ///
    /// # Errors
    /// Why there is none. After [`NoStamp::Ceiling`] there will soon be one:
    /// [`Stamping::changed`] tells.
    pub(crate) fn stamp(self: &Arc<Self>) -> Result<Stamp, NoStamp> {
        let now = Moment::now(&*self.clock);
        let mut state = lock(&self.state);
        let timestamp = self.next(&state, now)?;
        self.raise_if_low(&mut state, timestamp);
        if timestamp > state.reservation.ceiling() {
            return Err(NoStamp::Ceiling);
        }
        if let Some(hybrid) = &mut state.hybrid {
            hybrid.observe(timestamp);
        }
        state.given = timestamp;
        state.given_at = now.monotonic;
        state.pending.push(timestamp);
        Ok(Stamp {
            stamping: Arc::clone(self),
            timestamp,
            is_pending: true,
        })
    }

    /// Waits until a stamp that was refused may be given.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// What the next stamp would be, the ceiling aside.
    fn next(&self, state: &State, now: Moment) -> Result<Timestamp, NoStamp> {
        let hybrid = state.hybrid.as_ref().ok_or(NoStamp::Closed)?;
        let next = hybrid.next(now.unix_ms).ok_or(NoStamp::End)?;
        if self.is_alone {
            return Ok(next);
        }
        if state.is_outdated {
            return Err(NoStamp::Outdated);
        }
        if !self.bound.may_stamp(self.peer_clocks.all_ahead_ms(now)) {
            return Err(NoStamp::Far);
        }
        if !self.is_vouched(state, now) {
            return Err(NoStamp::Unmet);
        }
        if !self.bound.takes(next, now.unix_ms) {
            let ahead_ms = next.unix_ms().saturating_sub(now.unix_ms);
            return Err(NoStamp::Ahead { ahead_ms });
        }
        Ok(next)
    }

    /// Whether a peer has vouched for the clock, and it was not set since.
    fn is_vouched(&self, state: &State, now: Moment) -> bool {
        let step_ms = state
            .vouched_ahead_ms
            .map(|ahead_ms| now.ahead_of_monotonic_ms.saturating_sub(ahead_ms));
        step_ms.is_some_and(|step_ms| self.bound.is_near(step_ms))
    }

    /// Whether this node takes versions with this timestamp, wherever they come from.
    pub(crate) fn takes(&self, timestamp: Timestamp) -> bool {
        self.is_alone || self.bound.takes(timestamp, self.clock.unix_ms())
    }

    /// Takes note of a timestamp that another node gave, so that the next
    /// stamp is above it; `false` if this node does not take it, or before
    /// [`Stamping::open`].
    pub(crate) fn observe(&self, seen: Timestamp) -> bool {
        if !self.takes(seen) {
            return false;
        }
        let mut state = lock(&self.state);
        let Some(hybrid) = &mut state.hybrid else {
            return false;
        };
        hybrid.observe(seen);
        true
    }

    /// A peer has introduced itself: what its wall clock shows, and the
    /// greatest stamp that it has given or seen.
    pub(crate) fn introduced(&self, peer: NodeNumber, unix_ms: u64, greatest_seen: Timestamp) {
        let ahead_ms = ahead_of_monotonic_ms(unix_ms, self.clock.monotonic());
        self.peer_clocks.heard(peer, ahead_ms);
        lock(&self.state).told.insert(peer, greatest_seen);
        self.watch();
    }

    /// A peer's wall clock is so far ahead of this node's monotonic one.
    pub(crate) fn heard(&self, peer: NodeNumber, ahead_of_monotonic_ms: i64) {
        self.peer_clocks.heard(peer, ahead_of_monotonic_ms);
    }

    /// What is to be done now and again: believes the peers whose clocks are
    /// near by now, keeps the ceiling ahead of the clock, and says in the log
    /// when stamping ends or begins.
    pub(crate) fn watch(&self) {
        let now = Moment::now(&*self.clock);
        let mut state = lock(&self.state);
        let was_vouched = self.is_vouched(&state, now);
        let State {
            hybrid: Some(hybrid),
            told,
            vouched_ahead_ms,
            ..
        } = &mut *state
        else {
            return;
        };
        let is_near = |ahead_ms: Option<i64>| ahead_ms.is_some_and(|ms| self.bound.is_near(ms));
        told.retain(|peer, greatest_seen| {
            let is_near = is_near(self.peer_clocks.ahead_ms(*peer, now));
            if is_near {
                // One that lies too far ahead cannot be this node's own.
                hybrid.observe_within(*greatest_seen, self.bound, now.unix_ms);
            }
            !is_near
        });
        let is_vouched = self.peer_clocks.all_ahead_ms(now).any(is_near);
        if is_vouched {
            *vouched_ahead_ms = Some(now.ahead_of_monotonic_ms);
        }
        let next = self.next(&state, now);
        if let Ok(stamp) = next
            && now.monotonic.saturating_sub(state.given_at) < KEPT_WARM
        {
            self.raise_if_low(&mut state, stamp);
        }
        self.log_change(&mut state, next.err());
        drop(state);
        if is_vouched && !was_vouched {
            self.changed.notify_waiters();
        }
    }

    fn log_change(&self, state: &mut State, refusal: Option<NoStamp>) {
        let kind = |refusal: &Option<NoStamp>| refusal.as_ref().map(std::mem::discriminant);
        if kind(&refusal) == kind(&state.logged) {
            return;
        }
        match refusal {
            Some(NoStamp::Unmet) => {
                if self.clock.monotonic() < state.patient_until {
                    return;
                }
                tracing::warn!("writes are refused: {}", NoStamp::Unmet);
            }
            Some(why) => tracing::error!("writes are refused: {why}"),
            None => tracing::info!("this node's clock is within the bound: it stamps writes"),
        }
        state.logged = refusal;
    }

    fn raise_if_low(&self, state: &mut State, stamp: Timestamp) {
        if state.reservation.is_low(stamp) && !state.is_raising {
            state.is_raising = true;
            self.raise_later(Duration::ZERO);
        }
    }

    /// Has the ceiling raised by a job.
    fn raise_later(&self, delay: Duration) {
        let own = Weak::clone(&self.own);
        let job = Box::new(move || {
            if let Some(stamping) = own.upgrade() {
                stamping.raise();
            }
        });
        self.executor.spawn(Lane::Owner, delay, job);
    }

    /// Raises the ceiling, if a stamp may be given at all. Blocks.
    fn raise(&self) {
        let mut file = lock(&self.ceiling_file);
        let Some(file) = &mut *file else { return };
        let now = Moment::now(&*self.clock);
        let (greatest, ceiling) = {
            let mut state = lock(&self.state);
            // A ceiling from a clock that is wrong would bind all later starts.
            let (Ok(_), Some(hybrid)) = (self.next(&state, now), &state.hybrid) else {
                state.is_raising = false;
                drop(state);
                // Whoever waits for the ceiling is to hear of the new reason.
                self.changed.notify_waiters();
                return;
            };
            let greatest = hybrid.greatest();
            (greatest, state.reservation.next(greatest, now.unix_ms))
        };
        if let Err(error) = file.set(ceiling) {
            tracing::error!(
                %error,
                "the ceiling of stamps could not be raised: writes are refused once it is reached"
            );
            return self.raise_later(RETRY_DELAY);
        }
        {
            let mut state = lock(&self.state);
            state.reservation.raised(ceiling, greatest, now.unix_ms);
            state.is_raising = false;
        }
        self.changed.notify_waiters();
    }

    /// The greatest stamp given or observed: what a handshake tells.
    pub(crate) fn greatest(&self) -> Timestamp {
        lock(&self.state)
            .hybrid
            .as_ref()
            .map_or(Timestamp::ZERO, HybridClock::greatest)
    }

    /// How stamping stands, for the status page and the metrics.
    pub(crate) fn status(&self) -> StampingStatus {
        let now = Moment::now(&*self.clock);
        let peers = self.peer_clocks.all_ahead_ms(now);
        let mut heard: Vec<i64> = peers.flatten().collect();
        heard.sort_unstable();
        let state = lock(&self.state);
        let hybrid = state.hybrid.as_ref();
        let greatest = hybrid.map_or(Timestamp::ZERO, HybridClock::greatest);
        StampingStatus {
            refusal: self.next(&state, now).err(),
            greatest,
            stamp_ahead_ms: greatest.unix_ms().saturating_sub(now.unix_ms),
            ceiling: state.reservation.ceiling(),
            peers_ahead_ms: heard.get(heard.len() / 2).copied(),
            is_proven: self.bound.is_proven(self.peer_clocks.all_ahead_ms(now)),
        }
    }

    /// What the wall clock shows, in milliseconds since the Unix epoch, if it
    /// is near the clocks of a majority of all peers; `None` for a node alone.
    pub(crate) fn proven_unix_ms(&self) -> Option<u64> {
        let now = Moment::now(&*self.clock);
        let peers = self.peer_clocks.all_ahead_ms(now);
        self.bound.is_proven(peers).then_some(now.unix_ms)
    }

    /// No write with a lower timestamp will come any more, except those that
    /// the engine has; [`Timestamp::ZERO`] before [`Stamping::open`].
    pub(crate) fn drop_bound(&self) -> Timestamp {
        let state = lock(&self.state);
        match (&state.hybrid, state.pending.first()) {
            (None, _) => Timestamp::ZERO,
            (Some(_), Some(least)) => *least,
            (Some(hybrid), None) => hybrid.greatest(),
        }
    }
}

impl Stamp {
    /// The timestamp.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// Drops stamps of one clock at the cost of one, if they come in their order.
    pub(crate) fn end_all(stamps: impl Iterator<Item = Self>) {
        let mut stamps = stamps.peekable();
        let Some(first) = stamps.peek() else { return };
        let stamping = Arc::clone(&first.stamping);
        let mut state = lock(&stamping.state);
        state.pending.retain(|pending| {
            let ended = stamps.next_if(|stamp| stamp.timestamp == *pending);
            ended.is_none_or(|mut stamp| {
                stamp.is_pending = false;
                false
            })
        });
        // What came out of order takes the lock itself.
        drop(state);
    }
}

impl Drop for Stamp {
    fn drop(&mut self) {
        if !self.is_pending {
            return;
        }
        let mut state = lock(&self.stamping.state);
        if let Ok(place) = state.pending.binary_search(&self.timestamp) {
            state.pending.remove(place);
        }
    }
}
