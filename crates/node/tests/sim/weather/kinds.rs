//! The kinds of faults, and which of them go together.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// A process ends at once; its host goes on.
    Kill,
    /// A process is told to stop: it ends what it has begun and closes its store.
    Stop,
    /// A host loses its power, and of its disk what was not synced, or some of it.
    PowerCut,
    /// The same in the middle of a call of the disk.
    PowerCutInCall,
    /// All hosts lose their power at once.
    Blackout,
    /// A process stands still for a while.
    Freeze,
    /// Bytes from one host do not reach another, but the other way they do.
    CutOneWay,
    /// Two hosts do not reach each other.
    CutBothWays,
    /// A host is cut off from all others.
    Isolate,
    /// All connections between two hosts are lost.
    LoseConnections,
    /// Bytes between two hosts take long.
    SlowPath,
    /// A wall clock is wrong, within the cluster's bound.
    Skew,
    /// A wall clock is wrong beyond the bound, for a while.
    FarSkew,
    /// A process is started anew while its wall clock is wrong beyond the bound.
    FarSkewAtStart,
    /// A process is started anew, and its wall clock was set back meanwhile.
    SkewBackAtStart,
    /// A disk has no more room.
    FullDisk,
    /// A disk, or the processor, is slow.
    SlowDisk,
    /// Syncs of a disk fail, until the process is started anew.
    FailingSyncs,
}

impl FaultKind {
    /// Every kind.
    pub(super) const ALL: [Self; 18] = [
        Self::Kill,
        Self::Stop,
        Self::PowerCut,
        Self::PowerCutInCall,
        Self::Blackout,
        Self::Freeze,
        Self::CutOneWay,
        Self::CutBothWays,
        Self::Isolate,
        Self::LoseConnections,
        Self::SlowPath,
        Self::Skew,
        Self::FarSkew,
        Self::FarSkewAtStart,
        Self::SkewBackAtStart,
        Self::FullDisk,
        Self::SlowDisk,
        Self::FailingSyncs,
    ];

    /// Those that keep all replicas answering.
    pub(super) const SILENT: [Self; 1] = [Self::Skew];

    /// Those that take one host away and leave the others alone.
    pub(super) const ONE_AWAY: [Self; 5] = [
        Self::Kill,
        Self::Stop,
        Self::PowerCut,
        Self::Freeze,
        Self::Isolate,
    ];
}

/// What becomes of one folder in the life of a world: more than one, and no
/// replica might be left that has what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is gone: the process comes back with an empty one.
    Folder,
    /// The process comes back with a copy that was taken while it did not run.
    OldCopy,
    /// The process comes back with a copy that was taken at one moment while it ran.
    RunningCopy,
    /// Bytes of its tables change by themselves.
    Rot,
}

impl Loss {
    /// Every one.
    pub(super) const ALL: [Self; 4] = [Self::Folder, Self::OldCopy, Self::RunningCopy, Self::Rot];
}
