//! Which problem each failure becomes: the only table from what went wrong to a
//! status.

use super::Problem;
use crate::door::web_pages::Foreign;
use crate::http::query::ParameterError;
use base::Refused;
use cluster::Replicas;
use hyper::StatusCode;
use node::{BatchFailure, Failure, NoStamp, Receipt};
use profile::RecordingError;

impl Problem {
    /// Why an entity was not read or written.
    pub(crate) fn of_failure(failure: Failure, replicas: Replicas) -> Self {
        match failure {
            Failure::Overloaded => Self::overloaded(),
            Failure::NoStamp(why) => why.into(),
            Failure::DiskFull(receipt) => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "disk-full",
                "Disk Full",
                "the node's disk is full: delete entities or give the node more space; reads and \
                 deletes go on",
            )
            .with_receipt(receipt, replicas),
            Failure::NotEnoughReplicas(receipt) => {
                let detail = match receipt.timestamp {
                    Some(_) => {
                        "too few replicas answered as asked; the write counts as still running, and \
                         may appear later. To repeat it is a new write, newer than whatever was \
                         acknowledged meanwhile"
                    }
                    None => "too few replicas answered as asked: try again, or with a smaller ack",
                };
                Self::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "not-enough-replicas",
                    "Not Enough Replicas",
                    detail,
                )
                .with_receipt(receipt, replicas)
            }
        }
    }

    /// Why a profile was not recorded.
    pub(crate) fn of_recording(error: &RecordingError) -> Self {
        let (status, kind, title) = match error {
            RecordingError::Busy => (StatusCode::CONFLICT, "profile-running", "Profile Running"),
            RecordingError::NoAllocator => (
                StatusCode::NOT_IMPLEMENTED,
                "profile-unavailable",
                "Profile Unavailable",
            ),
            RecordingError::System(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "profile-failed",
                "Profile Failed",
            ),
        };
        Self::new(status, kind, title, error.to_string())
    }

    fn with_receipt(mut self, receipt: Receipt, replicas: Replicas) -> Self {
        self.acks = Some((receipt.acks, replicas));
        self.receipt = Some(Box::new(receipt));
        self
    }
}

impl From<NoStamp> for Problem {
    /// Why a write got no timestamp. The type says what an operator has to look after:
    /// the node's clock, or its store.
    fn from(why: NoStamp) -> Self {
        let (kind, title) = match why {
            NoStamp::Outdated => ("restored-store", "Store Restored From A Copy"),
            NoStamp::Closed
            | NoStamp::Far
            | NoStamp::Unmet
            | NoStamp::Ahead { .. }
            | NoStamp::Ceiling
            | NoStamp::End => ("clock", "Clock Out Of Bounds"),
        };
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            kind,
            title,
            why.to_string(),
        )
    }
}

impl From<BatchFailure> for Problem {
    /// Why the first batch of a range was not read.
    fn from(failure: BatchFailure) -> Self {
        match failure {
            BatchFailure::Overloaded => Self::overloaded(),
            BatchFailure::TimedOut => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "range-timed-out",
                "Range Timed Out",
                "this node's disk did not answer in time: try again, or ask another node",
            ),
            BatchFailure::Failed(error) => {
                tracing::error!(%error, "this node cannot read a range: answering it with 500");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "range-failed",
                    "Range Failed",
                    "this node cannot read the range from its disk: see its log, or ask another \
                     node",
                )
            }
        }
    }
}

impl From<ParameterError> for Problem {
    fn from(error: ParameterError) -> Self {
        let mut problem = Self::new(
            StatusCode::BAD_REQUEST,
            "bad-parameter",
            "Bad Parameter",
            error.detail,
        );
        problem.parameter = Some(error.parameter.into());
        problem
    }
}

impl From<Foreign<'_>> for Problem {
    fn from(foreign: Foreign<'_>) -> Self {
        match foreign {
            Foreign::Host(host) => Self::other_host(host),
            Foreign::Origin => Self::other_origin(),
        }
    }
}

impl From<Refused> for Problem {
    fn from(_: Refused) -> Self {
        Self::overloaded()
    }
}
