//! What the model knows: three stores with one key, writes under way, and passes.

use std::fmt;

/// The versions of the key, by number: its timestamp, and whether it is dead. 0 is
/// no version.
pub(super) const VERSIONS: [(u64, bool); 4] = [(0, false), (1, false), (2, true), (4, false)];

/// No version.
pub(super) const NONE: u8 = 0;
/// The value that was acknowledged at first.
pub(super) const VALUE: u8 = 1;
/// The tombstone that hides it.
pub(super) const TOMBSTONE: u8 = 2;
/// A later value, above the fence.
pub(super) const LATER: u8 = 3;

/// A fence between the value and its tombstone.
pub(super) const BETWEEN: u64 = 2;
/// The fence that a sound clock allows.
pub(super) const FENCE: u64 = 3;
/// A fence of years ahead.
pub(super) const FUTURE: u64 = 9;

/// The most passes of a scenario.
pub(super) const PASSES: usize = 2;

/// One store, and what others have on the way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Store {
    /// The newest version that it has.
    pub(super) held: u8,
    /// The one that it has after a power cut.
    pub(super) durable: u8,
    pub(super) fence: u8,
    pub(super) forgotten: u8,
    /// The greatest F that it has heard of.
    pub(super) heard: u8,
    pub(super) is_learner: bool,
    /// How often it has lost something.
    pub(super) incarnation: u8,
    /// Whether it knows that a folder was lost.
    pub(super) knows_of_loss: bool,
    /// Whether its clock is years ahead.
    pub(super) has_jumped: bool,
    /// The versions of which it is no replica, a bit each; and under another list of nodes.
    pub(super) beyond: u8,
    pub(super) beyond_by_next_list: u8,
    /// Below it, copies of versions of which it is no replica may go.
    pub(super) surplus_below: u8,
    /// The passes that it takes part in, a bit each.
    pub(super) takes_part: u8,
    /// Those in which it has taken part since they began, a bit each.
    pub(super) since_begin: u8,
    /// By pass: 0, or 1 + the incarnation that was fenced before the pass began.
    pub(super) fenced: [u8; PASSES],
    /// The passes in which the two other stores were made equal, a bit each.
    pub(super) others_equal: u8,
    /// The passes in which the two other stores are clean, a bit each.
    pub(super) others_clean: u8,
    /// The passes that do not meet an old version that has come in, a bit each.
    pub(super) disturbed: u8,
    /// The passes whose last question it has answered, and those below whose fence it compares
    /// with all what comes, a bit each.
    pub(super) answered: u8,
    pub(super) sealed: u8,
    /// The versions whose write is on its way to this store, a bit each.
    pub(super) incoming: u8,
    /// The versions that it has acknowledged to the client's coordinator, a bit each.
    pub(super) acked: u8,
}

/// A write of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Write {
    pub(super) has_begun: bool,
    /// The greatest version that was acknowledged before.
    pub(super) after: u8,
    pub(super) is_acknowledged: bool,
}

/// A repair on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Repair {
    pub(super) version: u8,
    /// The store that answered with the version, and its incarnation then.
    pub(super) by: u8,
    pub(super) incarnation: u8,
    /// Its F then.
    pub(super) forgotten: u8,
    pub(super) to: u8,
}

/// A mend of another pass on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LateMend {
    pub(super) version: u8,
    pub(super) to: u8,
}

/// A state of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) stores: [Store; 3],
    pub(super) writes: [Write; VERSIONS.len()],
    pub(super) repair: Option<Repair>,
    pub(super) mend: Option<LateMend>,
    /// The passes that have begun, a bit each.
    pub(super) begun: u8,
    /// Those that have been fenced in vain.
    pub(super) void: u8,
    /// The greatest version that was acknowledged, or that a read has returned.
    pub(super) acknowledged: u8,
    pub(super) seen: u8,
    /// What may still go wrong.
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) rollbacks: u8,
    pub(super) repairs: u8,
    pub(super) mends: u8,
    /// Whether the operator may still start all nodes with another list of nodes.
    pub(super) relists: u8,
}

impl Store {
    /// Whether it is no replica of a version.
    pub(super) fn is_beyond(&self, version: u8) -> bool {
        self.beyond & 1 << version != 0
    }

    /// All fields in one number.
    fn packed(&self) -> u64 {
        let fields = [
            (self.held, 2),
            (self.durable, 2),
            (self.fence, 4),
            (self.forgotten, 4),
            (self.heard, 4),
            (self.is_learner.into(), 1),
            (self.incarnation, 2),
            (self.knows_of_loss.into(), 1),
            (self.has_jumped.into(), 1),
            (self.beyond, 4),
            (self.beyond_by_next_list, 4),
            (self.surplus_below, 4),
            (self.takes_part, 2),
            (self.since_begin, 2),
            (self.fenced[0], 2),
            (self.fenced[1], 2),
            (self.others_equal, 2),
            (self.others_clean, 2),
            (self.disturbed, 2),
            (self.answered, 2),
            (self.sealed, 2),
            (self.incoming, 4),
            (self.acked, 4),
        ];
        pack(&fields)
    }
}

/// Numbers of so many bits each, one behind the other.
fn pack(fields: &[(u8, u32)]) -> u64 {
    let mut packed = 0;
    for (field, bits) in fields {
        packed = packed << bits | u64::from(*field);
    }
    packed
}

/// A state in a few numbers, to be looked up.
pub(super) type Packed = [u64; 4];

impl State {
    /// The same state with its stores in a fixed order, and for each the number
    /// that it had. Stores differ in nothing but their numbers.
    pub(super) fn canonical(mut self) -> (Self, Packed, [u8; 3]) {
        let mut keys = [0u8, 1, 2].map(|index| {
            let (by, to) = match &self.repair {
                Some(repair) => (repair.by == index, repair.to == index),
                None => (false, false),
            };
            let packed = self.stores[usize::from(index)].packed();
            let is_mended = self.mend.is_some_and(|mend| mend.to == index);
            let bits = u64::from(by) << 2 | u64::from(to) << 1 | u64::from(is_mended);
            (packed << 3 | bits, index)
        });
        keys.sort_unstable();
        let order = keys.map(|(_, index)| index);
        self.stores = order.map(|index| self.stores[usize::from(index)]);
        let mut rest = [0, 0, 0, 0];
        let renamed = |old: u8| order.iter().position(|index| *index == old);
        if let Some(repair) = &mut self.repair {
            rest = [1, repair.version, repair.incarnation, repair.forgotten];
            repair.by = renamed(repair.by).unwrap_or_default() as u8;
            repair.to = renamed(repair.to).unwrap_or_default() as u8;
        }
        if let Some(mend) = &mut self.mend {
            mend.to = renamed(mend.to).unwrap_or_default() as u8;
        }
        let writes = self.writes.map(|write| {
            let fields = [
                (write.has_begun.into(), 1),
                (write.after, 2),
                (write.is_acknowledged.into(), 1),
            ];
            pack(&fields) as u8
        });
        let rest = pack(&[
            (rest[0], 1),
            (rest[1], 2),
            (rest[2], 2),
            (rest[3], 4),
            (self.mend.map_or(NONE, |mend| mend.version), 2),
            (writes[1], 4),
            (writes[2], 4),
            (writes[3], 4),
            (self.begun, 2),
            (self.void, 2),
            (self.acknowledged, 2),
            (self.seen, 2),
            (self.crashes, 2),
            (self.losses, 2),
            (self.rollbacks, 2),
            (self.repairs, 2),
            (self.mends, 1),
            (self.relists, 1),
        ]);
        let packed = [keys[0].0, keys[1].0, keys[2].0, rest];
        (self, packed, order)
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

pub(super) fn timestamp(version: u8) -> u64 {
    VERSIONS[usize::from(version)].0
}

pub(super) fn is_dead(version: u8) -> bool {
    VERSIONS[usize::from(version)].1
}

/// A step of the model; stores are numbered within the state that it leads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Write { version: u8 },
    Deliver { version: u8, to: usize },
    DeliverAsHint { version: u8, to: usize },
    Read { of: [usize; 2] },
    ReadAll,
    SendRepair { by: usize, to: usize },
    DeliverRepair,
    SendMend { by: usize, to: usize },
    DeliverMend,
    Answer { pass: usize, store: usize },
    Fence { pass: usize, store: usize },
    Begin { pass: usize },
    Rejoin { pass: usize, store: usize },
    Compare { pass: usize, pair: [usize; 2] },
    Sync { pass: usize, pair: [usize; 2] },
    Raise { pass: usize, store: usize },
    Tell { by: usize, to: usize },
    Fill { pass: usize, store: usize },
    Drop { store: usize },
    DropSurplus { store: usize },
    Relist,
    PowerCut { store: usize },
    LoseFolder { store: usize },
    RollBack { store: usize },
}

/// What the search must not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    DeletedValueRead,
    AcknowledgedWriteLost,
    AcknowledgedBelowEarlierWrite,
    ReadNotAnswered,
    RecentWriteRefused,
    ForgottenTombstoneBack,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::DeletedValueRead => "a deleted value was read again",
            Self::AcknowledgedWriteLost => "an acknowledged write was lost",
            Self::AcknowledgedBelowEarlierWrite => "a write was acknowledged below an earlier one",
            Self::ReadNotAnswered => "a read of two voters could not be answered",
            Self::RecentWriteRefused => "a write within the grace was refused as obsolete",
            Self::ForgottenTombstoneBack => "a forgotten tombstone came back",
        })
    }
}
