//! The seams between a node and the outside world, and the reasons why it cannot be opened.

use base::{BootId, Clock, OsRandom, Random, SystemClock};
use lsm::{Disk, RealDisk};
use membership::MembershipError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The seams of a node, besides executor and transport.
#[derive(Clone)]
pub struct Seams {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub random: Arc<dyn Random>,
    /// Which boot of the machine this is; `None` where that cannot be read.
    pub boot_id: Option<BootId>,
}

impl Seams {
    /// The real disk, clock and random numbers of the machine. Which boot it is has to be
    /// said by who knows.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn real() -> io::Result<Self> {
        Ok(Self {
            disk: Arc::new(RealDisk::default()),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(OsRandom::new()?),
            boot_id: None,
        })
    }
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be opened.
    #[error("cannot open the store: {0}")]
    Store(#[from] lsm::Error),
    /// The store is damaged. The node drops no data to be able to start.
    #[error("cannot open the store: {error}; {remedy}")]
    Damaged {
        /// What is damaged.
        error: lsm::Error,
        /// What to do, which ends with a command.
        remedy: String,
    },
    /// The data folder holds no store, although it should.
    #[error(
        "the data folder {} holds no store, and --expect-data wants one: mount its disk. To start \
         a new node, or one whose disk is lost, start it once with --expect-data=off",
        .0.display()
    )]
    NoStore(PathBuf),
    /// The data folder holds no store, but files of something else.
    #[error(
        "the data folder {} has files that are not Kvorum's ({first}{}): give the node an empty \
         folder, or one that does not exist yet",
        folder.display(),
        more_of(*more)
    )]
    OtherFiles {
        /// The folder.
        folder: PathBuf,
        /// One of the files.
        first: String,
        /// How many there are besides.
        more: usize,
    },
    /// The data folder belongs to another node or to another cluster.
    #[error("{0}")]
    Membership(String),
    /// The data folder cannot be used to join a cluster.
    #[error(
        "--join needs an empty data folder, and {} has data: give the node another --data, or empty \
         that folder if nothing in it is needed any more",
        .0.display()
    )]
    NotEmpty(PathBuf),
    /// The folder is of a node that has joined a cluster, and the configuration is of a node alone.
    #[error(
        "the data folder {} is of a member of a cluster of several nodes: start the node with --join \
         and the URL of another member, as when it joined, or with --cluster",
        .0.display()
    )]
    MemberOfCluster(PathBuf),
    /// The folder was restored from a backup, or its restore was cut off, and cannot be used.
    #[error(transparent)]
    Restored(#[from] backup::BackupError),
    /// The system did not start a thread.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

fn more_of(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

impl From<MembershipError> for OpenError {
    fn from(error: MembershipError) -> Self {
        match error {
            MembershipError::File(error) => Self::Store(error),
            MembershipError::OtherNode { .. }
            | MembershipError::OtherNodes { .. }
            | MembershipError::UrlsAreNames { .. } => Self::Membership(error.to_string()),
        }
    }
}
