//! The three stories: what happens in each, and when it is over.

use crate::Error;
use crate::context::ExperimentContext;
use crate::nodes::{LabCluster, NodeEvent};
use serde::Serialize;

/// What happens to a cluster of three under load.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Story {
    LongAbsence,
    LostDisk,
    FullRepair,
}

impl Story {
    pub(super) const ALL: [Self; 3] = [Self::LongAbsence, Self::LostDisk, Self::FullRepair];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LongAbsence => "A long absence",
            Self::LostDisk => "A lost disk",
            Self::FullRepair => "A full repair",
        }
    }

    /// The name of its files.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::LongAbsence => "absence",
            Self::LostDisk => "disk",
            Self::FullRepair => "repair",
        }
    }

    /// Its events, with the second of the load at whose end each happens.
    pub(super) fn events(self, context: &ExperimentContext<'_>) -> Vec<(f64, NodeEvent)> {
        let begin = context.effort().pick(1.0, 5.0, 20.0);
        let absence = context.effort().pick(3.0, 20.0, 180.0);
        let replacement = context.effort().pick(1.0, 2.0, 5.0);
        match self {
            Self::LongAbsence => vec![
                (begin, NodeEvent::Kill),
                (begin + absence, NodeEvent::Start),
            ],
            Self::LostDisk => vec![
                (begin, NodeEvent::Lose),
                (begin + replacement, NodeEvent::Start),
            ],
            Self::FullRepair => vec![(begin, NodeEvent::Repair)],
        }
    }

    /// For how many seconds the load goes on after the last event.
    pub(super) fn seconds_after(context: &ExperimentContext<'_>) -> f64 {
        context.effort().pick(4.0, 35.0, 240.0)
    }

    /// Whether what happened is over, apart from the equality of the stores.
    pub(super) fn is_over(self, cluster: &LabCluster) -> Result<bool, Error> {
        match self {
            Self::LongAbsence => Ok(true),
            Self::LostDisk => {
                let status = cluster.nodes[2].status()?;
                let replica_state = status["replica_state"].as_str();
                Ok(replica_state == Some("voter"))
            }
            Self::FullRepair => {
                let status = cluster.nodes[0].status()?;
                let succeeded = &status["repair"]["full"]["succeeded"];
                Ok(succeeded.as_u64().unwrap_or(0) > 0)
            }
        }
    }
}
