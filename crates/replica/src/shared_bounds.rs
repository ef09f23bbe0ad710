//! What requests and compaction ask about the closed timestamp, the GC threshold and the repair
//! session of this node's store. What lies above the closed timestamp needs no lock.

use base::Timestamp;
use bytes::Bytes;
use cluster::Epoch;
use cluster::repair::{Admission, Arriving, StoreRecord, StoreState, Token, Way};
use profile::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use tokio::sync::Notify;

/// The state of a store in repair sessions, as far as it is in force. Its one writer is the store's
/// side of the sessions.
#[derive(Debug, Default)]
pub struct SharedBounds {
    closed: AtomicU64,
    gc_threshold: AtomicU64,
    answered: AtomicU64,
    greatest: AtomicU64,
    non_owned_below: AtomicU64,
    /// How often something was set aside.
    set_aside: AtomicU64,
    in_force: Mutex<InForce>,
    step_ended: Notify,
}

#[derive(Debug, Default)]
struct InForce {
    state: StoreState,
    scan: ScanPosition,
}

/// Where the scan of a session is. What is not ahead of it counts as scanned.
#[derive(Debug, Default)]
struct ScanPosition {
    /// The first key ahead, and the first one behind what the session scans; nothing is ahead
    /// for `None`.
    ahead: Option<(Bytes, Option<Bytes>)>,
    /// Whether a step reads what is ahead. Nobody knows yet where it ends.
    is_reading: bool,
}

impl ScanPosition {
    fn is_ahead(&self, key: &[u8]) -> bool {
        self.ahead.as_ref().is_some_and(|(from, until)| {
            **from <= *key && until.as_ref().is_none_or(|until| *key < **until)
        })
    }
}

/// What held for a store before a key or a page was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeRead {
    /// The GC threshold of the store.
    pub gc_threshold: Timestamp,
    /// How often something was set aside.
    pub set_aside: u64,
}

/// Whether a version from below the closed timestamp is taken, and the GC threshold for which
/// that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Whether it is taken.
    pub admission: Admission,
    /// The GC threshold of the store.
    pub gc_threshold: Timestamp,
}

impl SharedBounds {
    /// The bounds of a store with this state, whose node has heard of no greater GC threshold;
    /// `change` as for [`Self::put_in_force`].
    #[must_use]
    pub fn of(state: StoreState, change: Epoch) -> Self {
        let shared = Self::default();
        shared.put_in_force(state, change);
        shared
    }

    /// What holds now, for a read that begins.
    pub fn before_read(&self) -> BeforeRead {
        BeforeRead {
            gc_threshold: self.gc_threshold(),
            set_aside: self.set_aside.load(Acquire),
        }
    }

    /// Whether a read that has begun then may show what the store has set aside since.
    pub fn was_set_aside_since(&self, before: BeforeRead) -> bool {
        self.set_aside.load(Acquire) != before.set_aside
    }

    /// Below it the store takes no ordinary writes.
    pub fn closed(&self) -> Timestamp {
        Timestamp::from_u64(self.closed.load(Acquire))
    }

    /// What is dead below it may go.
    pub fn gc_threshold(&self) -> Timestamp {
        Timestamp::from_u64(self.gc_threshold.load(Acquire))
    }

    /// The greatest GC threshold that the node has heard of.
    pub fn greatest(&self) -> Timestamp {
        Timestamp::from_u64(self.greatest.load(Acquire))
    }

    /// Below it non-owned copies may be dropped.
    pub fn non_owned_below(&self) -> Timestamp {
        Timestamp::from_u64(self.non_owned_below.load(Acquire))
    }

    /// Whether the node has heard of a GC threshold for which the store has not answered. Then the
    /// store is older than the session that has raised it, whatever its peers remember.
    pub fn is_behind(&self) -> bool {
        let known = self.gc_threshold.load(Acquire);
        self.greatest.load(Acquire) > known.max(self.answered.load(Acquire))
    }

    /// The state that is in force.
    pub fn state(&self) -> StoreState {
        lock(&self.in_force).state
    }

    /// What is durable.
    pub fn record(&self) -> StoreRecord {
        *self.state().record()
    }

    /// Whether the store takes a repair write of this session. The generation of the engine is read
    /// before.
    pub fn admits_repair(&self, version: Arriving, token: Token) -> Admitted {
        lock(&self.in_force).admits(version, Way::Repair(token))
    }

    /// Whether the store takes a read repair of a key, by the word of a store that had the GC
    /// threshold `named`; without the key it counts as scanned. `None` while a step of the scan
    /// may be reading the key: see [`SharedBounds::step_ended`]. The generation of the engine is read
    /// before.
    pub fn admits_read_repair(
        &self,
        version: Arriving,
        named: Timestamp,
        key: Option<&[u8]>,
    ) -> Option<Admitted> {
        let in_force = lock(&self.in_force);
        let is_ahead = key.is_some_and(|key| in_force.scan.is_ahead(key));
        let way = Way::ReadRepair {
            gc_threshold: named,
            is_scanned: !is_ahead || in_force.scan.is_reading,
        };
        let admitted = in_force.admits(version, way);
        let is_unknown = is_ahead && in_force.state.scans();
        (!is_unknown || admitted.admission != Admission::OnceVoided).then_some(admitted)
    }

    /// Is notified when a step of the scan ends.
    pub fn step_ended(&self) -> &Notify {
        &self.step_ended
    }

    /// From now on only the keys from `from` on and before `until` are ahead of the scan.
    pub fn set_ahead(&self, from: &[u8], until: Option<&[u8]>) {
        lock(&self.in_force).scan = ScanPosition {
            ahead: Some((
                Bytes::copy_from_slice(from),
                until.map(Bytes::copy_from_slice),
            )),
            is_reading: false,
        };
        self.step_ended.notify_waiters();
    }

    /// A step of the scan begins to read what is ahead.
    pub fn begin_step(&self) {
        lock(&self.in_force).scan.is_reading = true;
    }

    /// Puts a state in force. `change` is the epoch in which the present or the last change of the
    /// members began: what was shown in an earlier epoch holds no more of non-owned copies.
    pub fn put_in_force(&self, state: StoreState, change: Epoch) {
        let mut in_force = lock(&self.in_force);
        in_force.state = state;
        let record = state.record();
        let non_owned = record.non_owned;
        let non_owned_below = if non_owned.epoch >= change {
            non_owned.below
        } else {
            Timestamp::ZERO
        };
        self.closed.store(state.refuses_below().as_u64(), Release);
        self.answered.store(record.answered.below.as_u64(), Release);
        self.gc_threshold
            .store(record.gc_threshold.as_u64(), Release);
        self.non_owned_below
            .store(non_owned_below.as_u64(), Release);
        self.hear(record.gc_threshold);
    }

    /// Takes note of a GC threshold that the node has heard of.
    pub fn hear(&self, gc_threshold: Timestamp) {
        self.greatest.fetch_max(gc_threshold.as_u64(), Release);
    }

    /// Takes note that something was set aside.
    pub fn note_set_aside(&self) {
        self.set_aside.fetch_add(1, Release);
    }
}

impl InForce {
    fn admits(&self, version: Arriving, way: Way) -> Admitted {
        Admitted {
            admission: self.state.admits(version, way),
            gc_threshold: self.state.record().gc_threshold,
        }
    }
}
