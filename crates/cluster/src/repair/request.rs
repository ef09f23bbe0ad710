//! What the coordinator of a session asks of a store, and what that answers.

use super::Token;
use crate::layout::Epoch;
use base::Timestamp;

/// What the coordinator of a session asks of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionRequest {
    /// Forget the session before, and take part in this one.
    Begin {
        /// The epoch of the list of members by which it places keys.
        epoch: Epoch,
    },
    /// Raise the closed timestamp as far as your clock allows. No store has scanned yet.
    Close {
        /// The greatest GC threshold that one of those that have begun knows.
        gc_threshold: Timestamp,
        /// What the session is to raise the GC threshold to; [`Timestamp::ZERO`] if it cannot.
        below: Timestamp,
        /// Whether all members have begun.
        are_all: bool,
    },
    /// Scan the next range.
    Open {
        /// Its number in this attempt.
        range: u32,
    },
    /// Make durable what the session has brought: the coordinator stores a checkpoint.
    Sync,
    /// The last question: make durable what the session has brought, and say whether nothing from
    /// below this timestamp has come in behind the scan; [`Timestamp::ZERO`] if the session raises
    /// nothing anyway. No repair write of the session is taken afterwards.
    Finish {
        /// The timestamp.
        below: Timestamp,
    },
    /// The session is over. All stores have said so to the last question, and the GC threshold
    /// rises; or it is [`Timestamp::ZERO`], and this session never raises it.
    Outcome {
        /// The GC threshold.
        gc_threshold: Timestamp,
    },
}

/// What a store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionAnswer {
    /// It takes part.
    Begun {
        /// Its GC threshold.
        gc_threshold: Timestamp,
        /// Its closed timestamp.
        closed: Timestamp,
        /// How far its clock allows its closed timestamp to rise; [`Timestamp::ZERO`] while that
        /// is not trusted.
        latest: Timestamp,
        /// Whether a session that goes on may still raise the GC threshold.
        may_raise: bool,
    },
    /// Its closed timestamp.
    Closed(Timestamp),
    /// What the session has brought is durable: the answer to [`SessionRequest::Sync`] and to the
    /// last question.
    Synced {
        /// Whether nothing has come in behind the scan.
        may_raise: bool,
    },
    /// It has done as asked.
    Done,
    /// It takes no part in the session, or not any more.
    Refused {
        /// The greatest token that it has seen.
        greatest: Token,
    },
}
