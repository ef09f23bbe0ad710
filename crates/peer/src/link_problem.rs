//! What is wrong between two nodes that reach each other.

use std::sync::Arc;
use tls::TlsFailure;

/// What is wrong between two nodes that reach each other and have no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkProblem {
    /// Their lists of nodes differ.
    OtherMembers,
    /// Their secrets differ.
    OtherSecret,
    /// They share no version of the protocol.
    OtherProtocol,
    /// One of them has not the name that the other expects.
    OtherName,
    /// They are of different clusters.
    OtherCluster,
    /// They share no TLS connection that both trust, or one of them speaks plain HTTP.
    Tls(Arc<TlsFailure>),
}

impl LinkProblem {
    /// The words for all of them.
    pub const WORDS: [&str; 6] = [
        "other members",
        "other secret",
        "other protocol",
        "other name",
        "tls",
        "other cluster",
    ];

    /// Its place among [`LinkProblem::WORDS`].
    pub fn index(&self) -> usize {
        match self {
            Self::OtherMembers => 0,
            Self::OtherSecret => 1,
            Self::OtherProtocol => 2,
            Self::OtherName => 3,
            Self::Tls(_) => 4,
            Self::OtherCluster => 5,
        }
    }

    /// The word for it on the status page.
    pub fn word(&self) -> &'static str {
        Self::WORDS[self.index()]
    }

    /// Why there is no TLS connection, if that is the problem.
    pub fn tls_failure(&self) -> Option<&TlsFailure> {
        match self {
            Self::Tls(failure) => Some(failure),
            _ => None,
        }
    }
}
