//! What the model knows: three stores with one key, requests under way, and sessions.

use crate::NodeId;
use crate::comparison::Pair;
use crate::repair::session::Phase;
use crate::repair::{Session, SessionRequest, Shown, StoreRecord, StoreState, Token};
use base::Timestamp;
use std::fmt;

/// The versions of the key, by number: its timestamp, and whether it is dead. 0 is no version.
pub(super) const VERSIONS: [(u64, bool); 4] = [(0, false), (1, false), (2, true), (5, false)];

/// No version.
pub(super) const NONE: u8 = 0;
/// The value that was acknowledged at first.
pub(super) const VALUE: u8 = 1;
/// The tombstone that hides it.
pub(super) const TOMBSTONE: u8 = 2;
/// A later value, above what is closed.
pub(super) const LATER: u8 = 3;

/// What is closed between the value and its tombstone.
pub(super) const BETWEEN: u64 = 2;
/// What sound clocks allow to close.
pub(super) const CLOSED: u64 = 3;
/// What they allow a moment later.
pub(super) const AGAIN: u64 = 4;
/// A timestamp of years ahead.
pub(super) const FUTURE: u64 = 9;

/// The most sessions of a scenario.
pub(super) const SESSIONS: usize = 2;

/// One store, and what others have on the way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Store {
    /// The machine under test.
    pub(super) machine: StoreState,
    /// What its record is after a power cut.
    pub(super) disk: StoreRecord,
    /// The newest version that it has.
    pub(super) held: u8,
    /// The one that it has after a power cut.
    pub(super) durable: u8,
    /// Whether the value lies below that.
    pub(super) has_value_below: bool,
    /// Whether the scan of its session has come past the key.
    pub(super) is_scanned: bool,
    /// What was set aside.
    pub(super) aside: u8,
    pub(super) is_learner: bool,
    /// Whether its clock is years ahead.
    pub(super) has_jumped: bool,
    /// The versions of which it is no replica, a bit each; and under another list of nodes.
    pub(super) beyond: u8,
    pub(super) beyond_by_next_list: u8,
    /// The versions whose write is on its way to this store, a bit each.
    pub(super) incoming: u8,
    /// The versions that it has acknowledged to the client's coordinator, a bit each.
    pub(super) acked: u8,
}

/// A session as its coordinator leads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Led {
    /// The machine under test.
    pub(super) machine: Session,
    /// What the stores are still to be asked.
    pub(super) asks: [Option<SessionRequest>; 3],
    /// Whether the range of the key was compared.
    pub(super) is_compared: bool,
    /// Whether it is to say what comes next.
    pub(super) decides: bool,
    /// The last checkpoint, and whether it is behind the key.
    pub(super) saved: Option<(Shown, bool)>,
}

/// A write of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Write {
    pub(super) has_begun: bool,
    /// The greatest version that was acknowledged before.
    pub(super) after: u8,
    pub(super) is_acknowledged: bool,
}

/// A read repair on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ReadRepair {
    pub(super) version: u8,
    /// The GC threshold of the store that has answered with it.
    pub(super) gc_threshold: Timestamp,
    pub(super) to: u8,
}

/// A repair write whose sender has given it up, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Stray {
    pub(super) version: u8,
    pub(super) token: Token,
    pub(super) to: u8,
}

/// A request that its coordinator has given up, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LateRequest {
    pub(super) token: Token,
    pub(super) request: SessionRequest,
    pub(super) to: u8,
}

/// A state of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) stores: [Store; 3],
    pub(super) led: [Option<Led>; SESSIONS],
    pub(super) writes: [Write; VERSIONS.len()],
    pub(super) read_repair: Option<ReadRepair>,
    pub(super) stray: Option<Stray>,
    pub(super) late: Option<LateRequest>,
    /// The greatest version that was acknowledged, or that a read has returned.
    pub(super) acknowledged: u8,
    pub(super) seen: u8,
    /// Whether a store that was rebuilt has a version, and another one has a newer one.
    pub(super) is_rebuilt_behind: bool,
    /// A copy of a folder: whose it is, its record, and what it holds.
    pub(super) copy: Option<(u8, StoreRecord, u8)>,
    /// Which list of nodes they have.
    pub(super) list: u8,
    /// What may still happen.
    pub(super) left: Left,
}

/// What may still happen, how often each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Left {
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) rollbacks: u8,
    pub(super) damages: u8,
    /// Copies of folders.
    pub(super) copies: u8,
    pub(super) read_repairs: u8,
    /// Repair writes and requests that are long on their way.
    pub(super) strays: u8,
    pub(super) late_requests: u8,
    /// Answers of stores that do not come in time.
    pub(super) misses: u8,
    /// Attempts from a checkpoint.
    pub(super) resumes: u8,
    /// New lists of nodes.
    pub(super) relists: u8,
}

impl State {
    /// The same state with its stores in a fixed order, and for each the number that it had.
    /// Stores differ in nothing but their numbers.
    pub(super) fn canonical(mut self) -> (Self, [u8; 3]) {
        self.forget_what_does_not_matter();
        let mut keys = [0u8, 1, 2].map(|number| {
            let index = usize::from(number);
            let roles = [
                self.read_repair.is_some_and(|it| it.to == number),
                self.stray.is_some_and(|it| it.to == number),
                self.late.is_some_and(|it| it.to == number),
                self.copy.is_some_and(|(of, ..)| of == number),
            ];
            let nodes = [0, 1].map(|led| {
                let led = self.led[led].as_ref();
                led.map(|led| (led.machine.nodes.get(node(index)).copied(), led.asks[index]))
            });
            (self.stores[index], roles, nodes, number)
        });
        keys.sort_unstable();
        let order = keys.map(|(.., number)| number);
        if order == [0, 1, 2] {
            return (self, order);
        }
        let old = |index: usize| usize::from(order[index]);
        let renamed = |old: u8| order.iter().position(|it| *it == old).unwrap_or(0) as u8;
        let renamed_node = |it: NodeId| NodeId::new(renamed(it.index() as u8));
        let renamed_pair =
            |pair: &Pair| Pair::of(renamed_node(pair.lower), renamed_node(pair.upper));
        let renamed_lack = |(one, of): &(NodeId, NodeId)| (renamed_node(*one), renamed_node(*of));
        self.stores = [0, 1, 2].map(|index| self.stores[old(index)]);
        for led in self.led.iter_mut().flatten() {
            led.asks = [0, 1, 2].map(|index| led.asks[old(index)]);
            let machine = &mut led.machine;
            let of = |index| Some((node(index), *machine.nodes.get(node(old(index)))?));
            machine.nodes = (0..3).filter_map(of).collect();
            machine.comparing = machine.comparing.iter().map(renamed_pair).collect();
            machine.lacking = machine.lacking.iter().map(renamed_lack).collect();
            if let Some((saved, _)) = &mut led.saved {
                saved.unequal = saved.unequal.iter().map(renamed_pair).collect();
            }
        }
        for to in [
            self.read_repair.as_mut().map(|it| &mut it.to),
            self.stray.as_mut().map(|it| &mut it.to),
            self.late.as_mut().map(|it| &mut it.to),
            self.copy.as_mut().map(|(of, ..)| of),
        ]
        .into_iter()
        .flatten()
        {
            *to = renamed(*to);
        }
        (self, order)
    }
}

impl State {
    /// States that differ only in what nothing depends on any more are one.
    fn forget_what_does_not_matter(&mut self) {
        let left = self.left;
        let is_acknowledged = |version: usize| self.writes[version].is_acknowledged;
        let acknowledged = (0..VERSIONS.len()).filter(|version| is_acknowledged(*version));
        let acknowledged = acknowledged.fold(0, |bits, version| bits | 1 << version);
        for store in &mut self.stores {
            if left.crashes == 0 && left.copies == 0 {
                store.durable = store.held;
                if left.relists == 0 {
                    store.disk = *store.machine.record();
                }
            }
            store.has_value_below &= left.damages > 0;
            store.acked &= !acknowledged;
        }
        if left.rollbacks == 0 {
            self.copy = None;
        }
        for led in self.led.iter_mut().flatten() {
            if led.machine.phase == Phase::Over && led.asks == [None; 3] && left.resumes == 0 {
                led.machine.nodes = [0, 1, 2]
                    .map(|index| (node(index), Default::default()))
                    .into_iter()
                    .collect();
                led.machine.comparing.clear();
                led.machine.lacking.clear();
                led.machine.below = Timestamp::ZERO;
                (led.saved, led.decides) = (None, false);
            }
            if left.resumes == 0 {
                led.saved = None;
            }
        }
    }
}

impl Store {
    /// Whether it is no replica of a version.
    pub(super) fn is_beyond(&self, version: u8) -> bool {
        self.beyond & 1 << version != 0
    }

    pub(super) fn gc_threshold(&self) -> Timestamp {
        self.machine.record().gc_threshold
    }

    pub(super) fn closed(&self) -> Timestamp {
        self.machine.record().closed
    }
}

/// The two other stores.
pub(super) fn others(store: usize) -> [usize; 2] {
    match store {
        0 => [1, 2],
        1 => [0, 2],
        _ => [0, 1],
    }
}

/// The pairs of stores, the lower ID first.
pub(super) fn pairs() -> [[usize; 2]; 3] {
    [0, 1, 2].map(others)
}

/// A timestamp of the model.
pub(super) fn at(timestamp: u64) -> Timestamp {
    Timestamp::from_unix_ms(Timestamp::EPOCH_UNIX_MS + timestamp)
}

pub(super) fn timestamp(version: u8) -> Timestamp {
    at(VERSIONS[usize::from(version)].0)
}

pub(super) fn is_dead(version: u8) -> bool {
    VERSIONS[usize::from(version)].1
}

pub(super) fn later(one: u8, other: u8) -> u8 {
    if timestamp(one) >= timestamp(other) {
        one
    } else {
        other
    }
}

pub(super) fn node(number: usize) -> NodeId {
    NodeId::new(number as u8)
}

/// What the search must not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    DeletedValueRead,
    AcknowledgedWriteLost,
    AcknowledgedBelowEarlierWrite,
    ReadNotAnswered,
    RecentWriteRefused,
    CollectedTombstoneBack,
    ReadWentBack,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::DeletedValueRead => "a deleted value was read again",
            Self::AcknowledgedWriteLost => "an acknowledged write was lost",
            Self::AcknowledgedBelowEarlierWrite => "a write was acknowledged below an earlier one",
            Self::ReadNotAnswered => "a read of two voters could not be answered",
            Self::RecentWriteRefused => "a write within the GC grace was refused as obsolete",
            Self::CollectedTombstoneBack => "a tombstone that was collected came back",
            Self::ReadWentBack => "a read of two stores may go back to what was rebuilt",
        })
    }
}
