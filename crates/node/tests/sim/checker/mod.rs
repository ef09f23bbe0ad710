//! Holds a history against every promise of *What a client may rely on*.
//!
//! The checker knows nothing of how a cluster works, only what it promises:
//! that replica sets nest, so that `a` answers out of one and `b` out of
//! another of at most `n` replicas have one in common when `a + b > n`; and
//! that versions are ordered by their timestamps. It never asks for anything of
//! a write that was not acknowledged: such a write may appear at any time, or
//! never.
//!
//! Equal timestamps are possible (two clocks, one moment) and tie rules decide
//! then; the checker takes either version for as new as the other.

pub(crate) mod contents;

#[cfg(test)]
mod tests;

use crate::history::{Action, Content, History, Number, Operation, Outcome};
use base::Timestamp;
use std::fmt;

/// What a cluster promises to its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// No read returns what was never written, or only later.
    OnlyWhatWasWritten,
    /// A request that a node refused has changed nothing.
    RefusedChangesNothing,
    /// A read sees the writes that were acknowledged before it began, or
    /// something newer, when their acks overlap. Crashes do not change that.
    AcknowledgedIsVisible,
    /// A write that began after another was acknowledged wins over it, when
    /// their acks overlap.
    LaterWriteWins,
    /// Reads by majority never go back to an older version than one such read
    /// of as many replicas returned before.
    ReadsNeverGoBack,
    /// An answer counts at least `ack` and at most `from` replicas.
    AcksAreCounted,
    /// A value expires when it should, by the clock of the node that answers.
    ExpiryIsKept,
    /// While all replicas answer, operations of one pair are linearizable.
    Linearizable,
    /// While all replicas answer, a write is only ever seen under the version
    /// that it is acknowledged with.
    OneVersionAWrite,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Which one.
    pub(crate) promise: Promise,
    /// The operations that show it; the last is the one that went wrong.
    pub(crate) operations: Vec<Number>,
}

/// Every broken promise of a history.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut keys: Vec<u64> = history
        .operations()
        .iter()
        .map(|operation| operation.question.key)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let operations: Vec<_> = history.of_key(key).collect();
        for (place, &(number, operation)) in operations.iter().enumerate() {
            check_alone(history, &operations, number, operation, &mut violations);
            // They are in the order in which they were asked.
            for &(earlier_number, earlier) in &operations[..place] {
                if operation.is_after(earlier)
                    && let Some(promise) = broken_by_pair(earlier, operation)
                {
                    violations.push(Violation {
                        promise,
                        operations: vec![earlier_number, number],
                    });
                }
            }
        }
    }
    violations
}

/// Checks what an operation was told against what it can have been told.
fn check_alone(
    history: &History,
    operations: &[(Number, &Operation)],
    number: Number,
    operation: &Operation,
    violations: &mut Vec<Violation>,
) {
    let mut broken = |promise, mut operations: Vec<Number>| {
        operations.push(number);
        violations.push(Violation {
            promise,
            operations,
        });
    };
    let (version, content, acks) = match operation.outcome() {
        Some(Outcome::Written { acks, .. }) => {
            if !counts(operation, acks) {
                broken(Promise::AcksAreCounted, Vec::new());
            }
            return;
        }
        Some(Outcome::Found {
            version,
            content,
            acks,
        }) => (version, content, acks),
        _ => return,
    };
    if !counts(operation, acks) {
        broken(Promise::AcksAreCounted, Vec::new());
    }
    match content {
        Content::Garbage => broken(Promise::OnlyWhatWasWritten, Vec::new()),
        Content::Value(put) => {
            let source = history.get(put).filter(|source| {
                matches!(source.question.action, Action::Put { .. })
                    && source.question.key == operation.question.key
            });
            match source {
                Some(source) if source.outcome() == Some(Outcome::Refused) => {
                    broken(Promise::RefusedChangesNothing, vec![put]);
                }
                Some(source) if can_be_at(source, operation, version) => {
                    if Expiry::of(source).is_some_and(|expiry| expiry.is_over_for(operation)) {
                        broken(Promise::ExpiryIsKept, vec![put]);
                    }
                }
                Some(_) => broken(Promise::OnlyWhatWasWritten, vec![put]),
                None => broken(Promise::OnlyWhatWasWritten, Vec::new()),
            }
        }
        // Nothing was found at all: the other promises say whether that can be.
        Content::Absent if version.is_none() => {}
        Content::Absent => {
            let possible = |wanted: fn(&Operation) -> bool| {
                let mut all = operations.iter();
                all.any(|(_, source)| {
                    source.outcome() != Some(Outcome::Refused)
                        && can_be_at(source, operation, version)
                        && wanted(source)
                })
            };
            let is_delete = |source: &Operation| source.question.action == Action::Delete;
            let expires = |source: &Operation| Expiry::of(source).is_some();
            let has_expired = operations.iter().any(|(_, source)| {
                can_be_at(source, operation, version)
                    && Expiry::of(source).is_some_and(|expiry| expiry.has_begun_for(operation))
            });
            if !possible(is_delete) && !has_expired {
                let promise = if possible(expires) {
                    Promise::ExpiryIsKept
                } else {
                    Promise::OnlyWhatWasWritten
                };
                broken(promise, Vec::new());
            }
        }
    }
}

/// The promise that `later`, which began after `earlier` had ended, breaks.
fn broken_by_pair(earlier: &Operation, later: &Operation) -> Option<Promise> {
    if earlier.is_forgiven {
        return None;
    }
    let overlap = overlap(earlier, later);
    match (earlier.outcome()?, later.outcome()?) {
        (Outcome::Written { version, .. }, Outcome::Found { version: found, .. }) => {
            (overlap && found < Some(version)).then_some(Promise::AcknowledgedIsVisible)
        }
        (
            Outcome::Written { version, .. },
            Outcome::Written {
                version: later_version,
                ..
            },
        ) => {
            let wins = later_version > version
                || later_version == version && are_one_tombstone(earlier, later);
            (overlap && !wins).then_some(Promise::LaterWriteWins)
        }
        (
            Outcome::Found { version, .. },
            Outcome::Found {
                version: later_version,
                ..
            },
        ) => {
            let binds = is_majority(earlier)
                && is_majority(later)
                && earlier.question.from == later.question.from;
            (binds && later_version < version).then_some(Promise::ReadsNeverGoBack)
        }
        _ => None,
    }
}

/// Whether any `ack` replicas of the one and any `ack` of the other have one in common.
fn overlap(one: &Operation, other: &Operation) -> bool {
    let (one, other) = (one.question, other.question);
    u16::from(one.ack) + u16::from(other.ack) > u16::from(one.from.max(other.from))
}

/// Whether two writes are the very same version, if they have the same stamp:
/// neither can win over the other, and nobody can tell which did.
fn are_one_tombstone(one: &Operation, other: &Operation) -> bool {
    let is_delete = |operation: &Operation| operation.question.action == Action::Delete;
    is_delete(one) && is_delete(other) && one.question.from == other.question.from
}

fn is_majority(operation: &Operation) -> bool {
    2 * u16::from(operation.question.ack) > u16::from(operation.question.from)
}

fn counts(operation: &Operation, acks: u8) -> bool {
    (operation.question.ack..=operation.question.from).contains(&acks)
}

/// Whether `write` can be what `read` found under a version: it had begun, and
/// its last stamp, where that is known, is not below. (Its first stamp can be.)
fn can_be_at(write: &Operation, read: &Operation, version: Option<Timestamp>) -> bool {
    let has_begun = read.end.is_some_and(|end| write.asked < end.moment);
    let stamp = match write.outcome() {
        Some(Outcome::Written { version, .. }) => Some(version),
        Some(Outcome::NotEnough { stamp }) => stamp,
        _ => None,
    };
    has_begun && version.is_some_and(|version| stamp.is_none_or(|stamp| version <= stamp))
}

/// Between which moments of the wall clock a value expires, in milliseconds
/// since the Unix epoch. The expiry is fixed at the first stamp, by the clock of
/// the node that gives it, at a time that a client knows only roughly.
struct Expiry {
    earliest_unix_ms: u64,
    latest_unix_ms: u64,
}

impl Expiry {
    /// When the value of a put expires, if it does.
    fn of(put: &Operation) -> Option<Self> {
        let Action::Put {
            ttl_seconds: Some(seconds),
        } = put.question.action
        else {
            return None;
        };
        let ttl_ms = seconds * 1000;
        let answered = put.end.filter(|end| end.outcome != Outcome::Lost);
        Some(match answered {
            Some(end) => Self {
                earliest_unix_ms: put.node_unix_ms.min(end.node_unix_ms) + ttl_ms,
                latest_unix_ms: put.node_unix_ms.max(end.node_unix_ms) + ttl_ms,
            },
            // Nobody knows when the node came to it, nor whether its clock was set back.
            None => Self {
                earliest_unix_ms: 0,
                latest_unix_ms: u64::MAX,
            },
        })
    }

    /// Whether it has surely passed, whenever in the read the node looked.
    fn is_over_for(&self, read: &Operation) -> bool {
        read.end
            .is_some_and(|end| end.node_unix_ms.min(read.node_unix_ms) >= self.latest_unix_ms)
    }

    /// Whether it may have passed when the node looked.
    fn has_begun_for(&self, read: &Operation) -> bool {
        read.end
            .is_some_and(|end| end.node_unix_ms.max(read.node_unix_ms) >= self.earliest_unix_ms)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OnlyWhatWasWritten => "a read returned what was never written",
            Self::RefusedChangesNothing => "a read returned a write that was refused",
            Self::AcknowledgedIsVisible => "a read missed a write that was acknowledged",
            Self::LaterWriteWins => "a write lost against one acknowledged before it began",
            Self::ReadsNeverGoBack => "a read went back behind another",
            Self::AcksAreCounted => "an answer counts too few or too many replicas",
            Self::ExpiryIsKept => "a value expired too early or too late",
            Self::Linearizable => "no order of these operations explains what they found",
            Self::OneVersionAWrite => "a write was seen under another version than its own",
        })
    }
}

impl Violation {
    /// The violation with the operations that show it, a line each.
    pub(crate) fn describe(&self, history: &History) -> String {
        let mut text = format!("{}:", self.promise);
        for &number in &self.operations {
            if let Some(operation) = history.get(number) {
                text.push_str(&format!("\n  #{} {operation}", number.0));
            }
        }
        text
    }
}
