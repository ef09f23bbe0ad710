//! Which keys of a range a node asks for, and the run that was read before it is asked for.

use bytes::Bytes;
use cluster::NodeId;
use peer::Run;

/// Which keys of a range are streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct StreamedKeys {
    /// Those after this one; [`None`] from the beginning of the range on.
    pub(in crate::session) after: Option<Bytes>,
    /// Those up to this one, which is included; [`None`] up to the end of the range.
    pub(in crate::session) until: Option<Bytes>,
    /// Short hashes of the items that the asking node has of them. They are left out.
    pub(in crate::session) held: Vec<u32>,
}

/// A run that was read before it is asked for. It is no older than one that was asked for then, and
/// long on its way.
#[derive(Debug)]
pub(super) struct PreparedRun {
    pub(super) range: u32,
    pub(super) asker: NodeId,
    pub(super) keys: StreamedKeys,
    pub(super) read: ReadRun,
}

/// What a node sends to one that has a range streamed.
#[derive(Debug)]
pub(in crate::session) struct ReadRun {
    pub(in crate::session) run: Run,
    /// What will be asked for next; [`None`] if it is the last run of the keys.
    pub(in crate::session) next: Option<StreamedKeys>,
}

impl PreparedRun {
    /// The run, if it is what is asked for.
    pub(super) fn for_request(
        self,
        range: u32,
        asker: NodeId,
        keys: &StreamedKeys,
    ) -> Option<ReadRun> {
        let is_it = self.range == range && self.asker == asker && self.keys == *keys;
        is_it.then_some(self.read)
    }
}
