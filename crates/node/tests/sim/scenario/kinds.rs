//! The kinds of faults, and which of them go together.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// A process ends at once; its host goes on.
    Kill,
    /// A process is told to stop: it ends its running requests and closes its store.
    Stop,
    /// A host loses power, and its disk loses all or some of the unsynced writes.
    PowerCut,
    /// A host loses power in the middle of a call of the disk.
    PowerCutInCall,
    /// All hosts lose power at once.
    Blackout,
    /// A process stands still for a while.
    Freeze,
    /// Bytes from one host do not reach another host; the other direction works.
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
    /// A process restarts while its wall clock is wrong beyond the bound.
    FarSkewAtStart,
    /// A process restarts after its wall clock was set back.
    SkewBackAtStart,
    /// A disk is full.
    FullDisk,
    /// A disk, or the processor, is slow.
    SlowDisk,
    /// A process ends in the middle of a full repair: after the k-th request of it.
    KillInRepair,
    /// A host coordinates a repair, beside the one that does so otherwise.
    SecondCoordinator,
    /// Syncs of a disk fail until the process restarts.
    FailingSyncs,
    /// A read repair with what a host held takes long, perhaps longer than a repair session.
    LateReadRepair,
}

impl FaultKind {
    /// Every kind.
    pub(super) const ALL: [Self; 21] = [
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
        Self::KillInRepair,
        Self::SecondCoordinator,
        Self::FailingSyncs,
        Self::LateReadRepair,
    ];

    /// The kinds with which all replicas still answer.
    pub(super) const HARMLESS: [Self; 1] = [Self::Skew];

    /// The kinds that make one host unavailable and do not affect the others.
    pub(super) const ONE_UNAVAILABLE: [Self; 5] = [
        Self::Kill,
        Self::Stop,
        Self::PowerCut,
        Self::Freeze,
        Self::Isolate,
    ];
}

/// How folders of a world are lost. Without time between two losses no replica might have
/// an acknowledged write any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The process comes back with an empty folder.
    Folder,
    /// The same in the middle of a full repair: what it showed before does not count.
    InRepair,
    /// The process comes back with a copy that was taken while it did not run.
    OldCopy,
    /// The process comes back with a copy that was taken at one moment while it ran.
    RunningCopy,
    /// Bits of its tables change on the disk.
    Rot,
    /// All folders are lost, each after the one before was rebuilt again.
    EachFolder,
    /// All processes come back with copies that were taken one after another.
    AllCopies,
}

impl Loss {
    /// Every kind, the more often the more it can hide.
    pub(super) const ALL: [Self; 10] = [
        Self::Folder,
        Self::Folder,
        Self::InRepair,
        Self::OldCopy,
        Self::OldCopy,
        Self::RunningCopy,
        Self::Rot,
        Self::Rot,
        Self::EachFolder,
        Self::AllCopies,
    ];
}
