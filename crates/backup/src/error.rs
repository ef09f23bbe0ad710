//! What can go wrong with a backup.

use std::io;

/// Why something with a backup failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The target did not do something.
    #[error("the target cannot {action} {object}: {source}")]
    Target {
        /// What was tried, as a verb.
        action: &'static str,
        /// The object.
        object: String,
        /// The answer.
        source: io::Error,
    },
    /// The store did not do something.
    #[error(transparent)]
    Store(#[from] lsm::Error),
    /// What lies at the target is not what was stored there.
    #[error("{object} is damaged: {what}")]
    Damaged {
        /// The object.
        object: String,
        /// What was found.
        what: String,
    },
    /// A later release has written it.
    #[error(
        "{object} has format {format}, of a later release: this program reads format {read}",
        read = crate::layout::FORMAT
    )]
    Newer {
        /// The object.
        object: String,
        /// Its format.
        format: u32,
    },
    /// The target has no such backup.
    #[error("there is no backup {0}")]
    NotFound(String),
    /// The node knows no such target.
    #[error("{0}")]
    NoTarget(String),
    /// The target belongs to another cluster.
    #[error(
        "the target belongs to another cluster, of {nodes}: give each cluster a target of its own, or \
         take this one over with --adopt, if that cluster is gone"
    )]
    OtherCluster {
        /// The names of its nodes.
        nodes: String,
    },
    /// The target has not answered for so long that it is waited for no more.
    #[error("the target {0} does not answer")]
    Silent(String),
    /// Its note at the target is gone, or could not be refreshed.
    #[error("it was not heard of at the target for so long that others take it for dead")]
    TakenForDead,
    /// Its owner has let go of the snapshot.
    #[error("the store has let go of its snapshot")]
    LetGo,
    /// This node does not find what the coordinator has written.
    #[error(
        "this node does not find at the target what the coordinator of the backup has written: \
         all nodes must share one folder or bucket"
    )]
    NotShared,
    /// Something else uses the target.
    #[error("{0}")]
    Busy(String),
    /// The snapshot would keep too much of what was removed on the disk.
    #[error(
        "the backup keeps {pinned_bytes} bytes of removed tables on the disk, more than it may: \
         the target is too slow for this store"
    )]
    TooMuchPinned {
        /// How much.
        pinned_bytes: u64,
    },
    /// What was asked for is impossible.
    #[error("{0}")]
    Invalid(String),
}

impl BackupError {
    pub(crate) fn target(action: &'static str, object: &str, source: io::Error) -> Self {
        Self::Target {
            action,
            object: object.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(object: &str, what: impl Into<String>) -> Self {
        Self::Damaged {
            object: object.to_owned(),
            what: what.into(),
        }
    }
}
