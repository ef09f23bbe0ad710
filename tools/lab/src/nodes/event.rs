//! What happens to a cluster while a load runs.

use super::LabCluster;
use crate::Error;

/// Something that happens to the last node of a cluster, but for a repair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NodeEvent {
    Kill,
    /// It is killed, and its folder removed.
    Lose,
    Start,
    Freeze,
    Thaw,
    /// The first node begins a full repair.
    Repair,
}

impl NodeEvent {
    /// Its label in plots.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Lose => "disk lost",
            Self::Start => "restarted",
            Self::Freeze => "frozen",
            Self::Thaw => "resumed",
            Self::Repair => "full repair",
        }
    }

    /// Makes it happen.
    ///
    /// # Errors
    /// A node that cannot be started, or does not answer.
    pub(crate) fn happen(self, cluster: &mut LabCluster) -> Result<(), Error> {
        let last = cluster.nodes.len() - 1;
        let node = &mut cluster.nodes[last];
        match self {
            Self::Kill => node.kill(),
            Self::Lose => node.lose_data()?,
            Self::Start => node.start()?,
            Self::Freeze => node.freeze(),
            Self::Thaw => node.thaw(),
            Self::Repair => cluster.nodes[0].repair()?,
        }
        Ok(())
    }
}
