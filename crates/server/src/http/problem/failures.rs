//! Which problem each failure becomes.

use super::Problem;
use crate::http::query::ParameterError;
use crate::trust::Unauthenticated;
use crate::trust::web_pages::Foreign;
use base::Refused;
use cluster::Replicas;
use node::{BatchFailure, ConditionalReply, Failure, NoTimestamp, Written};
use profile::RecordingError;

impl Problem {
    /// Why an entity was not read or written.
    pub(crate) fn of_failure(failure: Failure, replicas: Replicas) -> Self {
        match failure {
            Failure::Overloaded => Self::overloaded(),
            Failure::NoTimestamp(why) => why.into(),
            Failure::DiskFull(receipt) => Self::disk_full(receipt, replicas),
            Failure::StoreFailed(why) => Self::store_failed(&why),
            Failure::NotEnoughReplicas(receipt) => Self::not_enough_replicas(receipt, replicas),
        }
    }

    /// What a conditional write has written, or why it has written nothing that is known.
    ///
    /// # Errors
    /// The problem to answer.
    pub(crate) fn of_conditional(
        reply: ConditionalReply,
        replicas: Replicas,
    ) -> Result<Written, Self> {
        Err(match reply {
            ConditionalReply::Applied(written) | ConditionalReply::Touched(written, _) => {
                return Ok(written);
            }
            ConditionalReply::NotMatched { current } => Self::condition_failed(current),
            ConditionalReply::NotApplied(Failure::NotEnoughReplicas(receipt)) => {
                Self::not_applied(receipt, replicas)
            }
            ConditionalReply::NotApplied(failure) => Self::of_failure(failure, replicas),
            ConditionalReply::Unknown(receipt) => Self::unknown_outcome(receipt, replicas),
            ConditionalReply::NoOverlap => Self::no_majority(replicas),
            ConditionalReply::Unsupported { url } => Self::conditional_write(&url),
        })
    }

    /// Why a compaction that an operator asked for was not done.
    pub(crate) fn of_compaction(error: &lsm::Error) -> Self {
        match error {
            lsm::Error::Closed => Self::store_not_open(error.to_string()),
            error => Self::compaction_failed(error),
        }
    }

    /// Why what was set aside could not be read or discarded.
    pub(crate) fn of_set_aside(error: &lsm::Error) -> Self {
        match error {
            lsm::Error::Overloaded => Self::overloaded(),
            lsm::Error::Closed => Self::store_not_open(error.to_string()),
            error => Self::set_aside_failed(error),
        }
    }

    /// Why a profile was not recorded.
    pub(crate) fn of_recording(error: &RecordingError) -> Self {
        let detail = error.to_string();
        match error {
            RecordingError::Busy => Self::profile_running(detail),
            RecordingError::NoAllocator => Self::profile_unavailable(detail),
            RecordingError::System(_) => Self::profile_failed(detail),
        }
    }
}

impl From<NoTimestamp> for Problem {
    /// Why a write got no timestamp. The type says what an operator has to look after:
    /// the node's clock, its disk, or its store.
    fn from(why: NoTimestamp) -> Self {
        let detail = why.to_string();
        match why {
            NoTimestamp::Far
            | NoTimestamp::Unmet
            | NoTimestamp::NoneNear
            | NoTimestamp::NoTime
            | NoTimestamp::Ahead { .. } => Self::clock(detail),
            NoTimestamp::Bound => Self::timestamp_bound_not_stored(detail),
            NoTimestamp::Outdated => Self::restored_store(detail),
            NoTimestamp::Unheard { .. } => Self::new_store(detail),
            NoTimestamp::Closed => Self::store_not_open(detail),
            NoTimestamp::End => Self::no_timestamps_left(detail),
        }
    }
}

impl From<BatchFailure> for Problem {
    /// Why a batch of a scan was not read, before the answer has begun.
    fn from(failure: BatchFailure) -> Self {
        match failure {
            BatchFailure::Overloaded => Self::overloaded(),
            BatchFailure::TimedOut => Self::scan_timed_out(),
            BatchFailure::TooOld => Self::scan_too_long(),
            BatchFailure::TooFewNodes(receipt) => Self::too_few_nodes(*receipt),
            BatchFailure::Failed(_) => Self::scan_failed(),
        }
    }
}

impl From<ParameterError> for Problem {
    fn from(error: ParameterError) -> Self {
        Self::bad_parameter(error.parameter, error.detail)
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

impl From<Unauthenticated> for Problem {
    fn from(why: Unauthenticated) -> Self {
        Self::no_token(why)
    }
}

impl From<Refused> for Problem {
    fn from(_: Refused) -> Self {
        Self::overloaded()
    }
}
