//! Why a server does not start, and what an operator should do.

use node::{ConfigError, OpenError};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use tls::MaterialError;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node cannot listen on an address.
    #[error("cannot listen on {address}: {source}; {}", remedy_of(source))]
    Address {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of TLS cannot be used.
    #[error("cannot speak TLS: {0}")]
    Tls(#[from] MaterialError),
    /// The node cannot be opened.
    #[error(transparent)]
    Node(#[from] OpenError),
    /// The system lets the node open too few files.
    #[error("cannot start: {0}")]
    OpenFiles(#[from] FewOpenFiles),
    /// The system refused a thread or a socket.
    #[error("cannot start: {source}{}", limit_of(source))]
    System {
        /// The error of the system.
        #[from]
        source: io::Error,
    },
}

impl StartError {
    /// Whether a restart fails again, until somebody changes the options, the files that they name
    /// or the data folder.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Config(_) | Self::Tls(_) | Self::OpenFiles(_) => true,
            Self::Node(
                OpenError::Damaged { .. }
                | OpenError::Membership(_)
                | OpenError::NoStore(_)
                | OpenError::OtherFiles { .. }
                | OpenError::NotEmpty(_)
                | OpenError::MemberOfCluster(_)
                | OpenError::Restored(_),
            ) => true,
            Self::Node(OpenError::Store(error)) => match error {
                lsm::Error::Corrupt { .. } | lsm::Error::Invalid(_) => true,
                // Whose the folder is, and who may write to it, changes nobody but an operator.
                lsm::Error::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
                _ => false,
            },
            // Another process may end, and the system may get well.
            Self::Address { .. } | Self::System { .. } | Self::Node(OpenError::System(_)) => false,
        }
    }
}

/// The limit of open files is too low for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files is {limit}, and the node needs at least {least}: raise it \
     (LimitNOFILE= of a service, ulimit -n)"
)]
pub struct FewOpenFiles {
    /// What the system allows.
    pub limit: u64,
    /// What the node needs.
    pub least: u64,
}

/// What an operator does when the node cannot listen on an address.
fn remedy_of(error: &io::Error) -> &'static str {
    if is_no_such_address(error) {
        "choose an address of this machine with --listen"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "choose a port from 1024 on"
    } else {
        "is another node running there?"
    }
}

/// Which limit the system refuses a thread or a socket for, and what to do.
fn limit_of(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN) => {
            "; the system allows no more threads: raise the limit of processes (TasksMax= of a \
             service, ulimit -u, pids.max of the control group), or give fewer --threads and \
             --read-threads"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "; raise the limit of open files (LimitNOFILE= of a service, ulimit -n)"
        }
        _ => "",
    }
}

pub(crate) fn is_no_such_address(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error())
}
