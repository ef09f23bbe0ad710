//! The promises of a cluster to its clients, and what shows that one is broken.

use crate::history::{History, OperationId};
use std::fmt;

/// What a cluster promises to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A read returns only what a write wrote before the read ended.
    OnlyWhatWasWritten,
    /// A request that a node refused has changed nothing.
    RefusedChangesNothing,
    /// A read returns every write that was acknowledged before the read began,
    /// or something newer, when their acks overlap. Crashes do not change that.
    AcknowledgedIsVisible,
    /// A write that began after another was acknowledged wins over it, when
    /// their acks overlap.
    LaterWriteWins,
    /// A read by majority never returns an older version than an earlier read
    /// by majority of the same number of replicas.
    ReadsNeverGoBack,
    /// A conditional write takes effect on the version that it names, or where there is no value,
    /// and no acknowledged write lies between.
    ConditionIsKept,
    /// An answer counts at least `ack` and at most `from` replicas.
    AcksAreCounted,
    /// A value expires when it should, by the clock of the node that answers.
    ExpiryIsKept,
    /// While all replicas answer, operations with one pair of `ack` and `from`
    /// are linearizable.
    Linearizable,
    /// While all replicas answer, reads return a write only under the version
    /// that it was acknowledged with.
    OneVersionAWrite,
}

impl fmt::Display for Promise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OnlyWhatWasWritten => "a read returned what was never written",
            Self::RefusedChangesNothing => "a read returned a write that was refused",
            Self::AcknowledgedIsVisible => "a read missed a write that was acknowledged",
            Self::LaterWriteWins => "a write lost against one acknowledged before it began",
            Self::ReadsNeverGoBack => "a read returned an older version than a read before it",
            Self::ConditionIsKept => "a conditional write replaced something else than it names",
            Self::AcksAreCounted => "an answer counts too few or too many replicas",
            Self::ExpiryIsKept => "a value expired too early or too late",
            Self::Linearizable => "no order of these operations explains what they returned",
            Self::OneVersionAWrite => "a read returned a write under another version than its own",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// The operations that show it; the last one is the one that went wrong.
    pub operations: Vec<OperationId>,
}

impl Violation {
    /// The promise and the operations that show that it is broken, a line each.
    #[must_use]
    pub fn describe(&self, history: &History) -> String {
        let mut text = format!("{}:", self.promise);
        for &id in &self.operations {
            if let Some(operation) = history.get(id) {
                text.push_str(&format!("\n  #{} {operation}", id.0));
            }
        }
        text
    }
}
