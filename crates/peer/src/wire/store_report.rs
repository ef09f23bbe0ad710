//! What nodes report about their stores, and of the list of members.

use base::{ByteReader, Timestamp};
use cluster::layout::MemberReport;
use cluster::{Epoch, NodeSet};

/// What a node reports of its store with its heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// The writes that its store has durably acknowledged.
    pub acknowledged: u64,
    /// Its GC threshold: what is dead below it may be dropped. [`Timestamp::ZERO`] if it has none.
    pub gc_threshold: Timestamp,
    /// What it says of the list of members.
    pub list: ListReport,
}

/// What a node says of the list of members, with its heartbeats and in its hellos. A release that
/// does not know lists says nothing, which is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListReport {
    /// The number of its cluster; 0 until that is known.
    pub cluster: u64,
    /// The epoch of its list.
    pub epoch: Epoch,
    /// How far it has come in the change.
    pub member: MemberReport,
}

impl ListReport {
    /// How many bytes it has.
    pub(crate) const BYTES: usize = 32 + NodeSet::BYTES;

    /// Appends the bytes: cluster u64, epoch u64, reported epoch u64, change u64, 32 bytes of the
    /// set of nodes that it was made equal with.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let MemberReport {
            epoch,
            change,
            equal_with,
        } = self.member;
        out.extend_from_slice(&self.cluster.to_le_bytes());
        for epoch in [self.epoch, epoch, change] {
            out.extend_from_slice(&epoch.as_u64().to_le_bytes());
        }
        out.extend_from_slice(&equal_with.to_bytes());
    }

    /// Takes a report off the front of bytes.
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            cluster: reader.u64()?,
            epoch: Epoch::new(reader.u64()?),
            member: MemberReport {
                epoch: Epoch::new(reader.u64()?),
                change: Epoch::new(reader.u64()?),
                equal_with: NodeSet::from_bytes(reader.array()?),
            },
        })
    }
}
