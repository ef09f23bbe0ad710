//! The rules that go by versions. They hold for every history, whatever failed.
//!
//! Two facts of the contract carry all of them. The replicas of a key with
//! `from=2` are among those with `from=3`, so `a` answers out of one set and `b`
//! out of another of at most `n` replicas have one replica in common when
//! `a + b > n`. And versions are ordered by their timestamps.
//!
//! What is dead below the GC threshold may be absent: a read that finds no version at all
//! misses nothing then. So may copies below that bound on nodes that are no replicas of their
//! version: a read may have found one earlier, if enough of the nodes that it asks are none.
//! Below the bound all replicas of a version have it. What a read promises by overlapping acks
//! rests on the replicas of the version alone.
//!
//! What a scan tells of a key is a read that has no part in the promise that reads never go
//! back. A key that it does not tell may have been deleted, or may have expired, under a version
//! that the client does not see.
//!
//! The contract has rules for equal timestamps, which depend on the contents.
//! The checker takes two versions with equal timestamps for equally new.

mod conditions;
#[cfg(test)]
mod scan_tests;
#[cfg(test)]
mod tests;

use crate::history::{Action, Content, History, Operation, OperationId, Outcome};
use crate::promise::{Promise, Violation};
use base::Timestamp;

/// Every broken promise of a history.
#[must_use]
pub fn check(history: &History) -> Vec<Violation> {
    check_with(history, 0)
}

/// Every promise that a history would break if the contract promised too much:
/// if acks overlapped that lack one replica for that, and if majorities needed
/// one replica less. A test of the tests: histories with faults must break it.
#[must_use]
pub fn check_as_if_acks_overlapped(history: &History) -> Vec<Violation> {
    check_with(history, 1)
}

/// Checks a history. `extra_acks` is added to each sum of acks that is compared
/// with a number of replicas; 0 is the contract.
fn check_with(history: &History, extra_acks: u16) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut keys: Vec<u64> = history
        .operations()
        .iter()
        .map(|operation| operation.request.key)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let operations: Vec<_> = history.of_key(key).collect();
        for (index, &(id, operation)) in operations.iter().enumerate() {
            check_alone(history, &operations, id, operation, &mut violations);
            conditions::check(&operations, id, operation, extra_acks, &mut violations);
            // Operations are in the order of their invocations, so only those
            // in front of this one can have ended before it began.
            let collected = collected_by(operation, &operations);
            for &(earlier_id, earlier) in &operations[..index] {
                if operation.began_after(earlier)
                    && let Some(promise) = broken_by_pair(earlier, operation, collected, extra_acks)
                    && !is_dropped_non_owned(history, promise, earlier, operation)
                    && !is_replaced_by_fewer_copies(&operations, earlier, operation)
                {
                    violations.push(Violation {
                        promise,
                        operations: vec![earlier_id, id],
                    });
                }
            }
        }
    }
    violations
}

/// Checks whether an operation can have returned what it returned.
fn check_alone(
    history: &History,
    operations: &[(OperationId, &Operation)],
    id: OperationId,
    operation: &Operation,
    violations: &mut Vec<Violation>,
) {
    let mut broken = |promise, mut operations: Vec<OperationId>| {
        operations.push(id);
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
                source.request.action.is_put() && source.request.key == operation.request.key
            });
            match source {
                Some(source) if source.changed_nothing() => {
                    broken(Promise::RefusedChangesNothing, vec![put]);
                }
                Some(source) if can_be_at(source, operation, version) => {
                    if ExpiryWindow::of(source).is_some_and(|window| window.is_over_for(operation))
                    {
                        broken(Promise::ExpiryIsKept, vec![put]);
                    }
                }
                Some(_) => broken(Promise::OnlyWhatWasWritten, vec![put]),
                None => broken(Promise::OnlyWhatWasWritten, Vec::new()),
            }
        }
        // The read found no version at all. Whether that can be is a matter of pairs.
        Content::Absent if version.is_none() => {}
        Content::Absent => {
            let possible = |wanted: fn(&Operation) -> bool| {
                let mut all = operations.iter();
                all.any(|(_, source)| {
                    !source.changed_nothing()
                        && can_be_at(source, operation, version)
                        && wanted(source)
                })
            };
            let is_delete = |source: &Operation| source.request.action.is_delete();
            let expires = |source: &Operation| ExpiryWindow::of(source).is_some();
            let has_expired = operations.iter().any(|(_, source)| {
                can_be_at(source, operation, version)
                    && ExpiryWindow::of(source)
                        .is_some_and(|window| window.has_begun_for(operation))
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

/// The promise that `later` breaks, which began after `earlier` had ended. If `later` is a
/// read that found nothing, `collected` is the version that may have been collected.
fn broken_by_pair(
    earlier: &Operation,
    later: &Operation,
    collected: Option<Timestamp>,
    extra_acks: u16,
) -> Option<Promise> {
    if earlier.may_be_lost {
        return None;
    }
    let overlap = overlap(earlier, later, extra_acks);
    match (earlier.outcome()?, later.outcome()?) {
        (Outcome::Written { version, .. }, Outcome::Found { version: found, .. }) => (overlap
            && found.max(collected) < Some(version))
        .then_some(Promise::AcknowledgedIsVisible),
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
            let is_get = |operation: &Operation| operation.request.action == Action::Get;
            let binds = is_get(earlier)
                && is_get(later)
                && is_majority(earlier, extra_acks)
                && is_majority(later, extra_acks)
                && earlier.request.from == later.request.from;
            let goes_back = later_version.max(collected) < version;
            (binds && goes_back).then_some(Promise::ReadsNeverGoBack)
        }
        _ => None,
    }
}

/// Whether a read that found nothing may go back behind an earlier one: that one has found a
/// value of few replicas, which is below the GC threshold by now. Where the later one looked,
/// there were copies beyond those replicas, if any.
fn is_dropped_non_owned(
    history: &History,
    promise: Promise,
    earlier: &Operation,
    later: &Operation,
) -> bool {
    let Some(Outcome::Found {
        version: Some(version),
        content: Content::Value(put),
        ..
    }) = earlier.outcome()
    else {
        return false;
    };
    let write = history.get(put);
    promise == Promise::ReadsNeverGoBack
        && matches!(later.outcome(), Some(Outcome::Found { version: None, .. }))
        && version < later.gc_threshold
        && write.is_some_and(|write| passes_over_replicas(write, later))
}

/// Whether the answers that a read waited for may all come from nodes that are no replicas of
/// what a write has written. Below the GC threshold all its replicas have that version or a
/// newer one, and they are among those of any read that has as many.
fn passes_over_replicas(write: &Operation, read: &Operation) -> bool {
    let (copies, read) = (u16::from(write.request.from), read.request);
    copies + u16::from(read.ack) <= u16::from(read.from)
}

/// Whether a read that found nothing may have missed `earlier`, because a newer version of
/// fewer replicas has replaced it, and is below the GC threshold by now: then the other nodes
/// keep neither, and the read asked those. What is dead is another question.
fn is_replaced_by_fewer_copies(
    operations: &[(OperationId, &Operation)],
    earlier: &Operation,
    later: &Operation,
) -> bool {
    let (
        Some(
            Outcome::Written { version, .. }
            | Outcome::Found {
                version: Some(version),
                ..
            },
        ),
        Some(Outcome::Found { version: None, .. }),
    ) = (earlier.outcome(), later.outcome())
    else {
        return false;
    };
    let replaces = |write: &Operation| {
        let is_newer = match write.outcome() {
            Some(Outcome::Written { version: newer, .. }) => {
                version < newer && newer < later.gc_threshold
            }
            Some(Outcome::NotEnough { .. } | Outcome::Lost) | None => {
                version < later.gc_threshold
                    && write.clock.earliest_unix_ms <= later.gc_threshold.unix_ms()
            }
            Some(Outcome::Refused | Outcome::NotMatched | Outcome::Found { .. }) => false,
        };
        let action = write.request.action;
        let is_write = action.is_put() || action.is_delete();
        is_write && is_newer && has_begun_by(write, later) && passes_over_replicas(write, later)
    };
    operations.iter().any(|(_, write)| replaces(write))
}

/// The greatest version that a read may have missed because it is collected, if it found
/// none at all: it was dead when the read ended, and below the GC threshold. A timestamp is no
/// less than its coordinator's clock, so a write that began above the bound excuses nothing.
fn collected_by(read: &Operation, operations: &[(OperationId, &Operation)]) -> Option<Timestamp> {
    let Some(Outcome::Found { version: None, .. }) = read.outcome() else {
        return None;
    };
    // What a scan leaves out need not be collected.
    let gc_threshold = match read.request.action {
        Action::Scan => Timestamp::MAX,
        _ => read.gc_threshold,
    };
    let dead = operations.iter().filter_map(|(_, write)| {
        let has_begun = has_begun_by(write, read);
        let has_expired =
            || ExpiryWindow::of(write).is_some_and(|window| window.has_begun_for(read));
        let is_dead = write.request.action.is_delete() || has_expired();
        let may_be_below = write.clock.earliest_unix_ms <= gc_threshold.unix_ms();
        if !has_begun || !is_dead || !may_be_below {
            return None;
        }
        match write.outcome() {
            Some(Outcome::Written { version, .. }) => Some(version),
            Some(Outcome::NotEnough {
                timestamp: Some(timestamp),
            }) => Some(timestamp.min(gc_threshold)),
            Some(Outcome::Refused | Outcome::NotMatched | Outcome::Found { .. }) => None,
            Some(Outcome::NotEnough { timestamp: None } | Outcome::Lost) | None => {
                Some(gc_threshold)
            }
        }
    });
    dead.filter(|version| *version <= gc_threshold).max()
}

/// Whether any `ack` replicas of one operation and any `ack` replicas of the
/// other have a replica in common.
fn overlap(one: &Operation, other: &Operation, extra_acks: u16) -> bool {
    let (one, other) = (one.request, other.request);
    let acks = u16::from(one.ack) + u16::from(other.ack) + extra_acks;
    acks > u16::from(one.from.max(other.from))
}

/// Whether two writes with the same timestamp are the same version. Then neither
/// wins over the other.
fn are_one_tombstone(one: &Operation, other: &Operation) -> bool {
    let is_delete = |operation: &Operation| operation.request.action.is_delete();
    is_delete(one) && is_delete(other) && one.request.from == other.request.from
}

fn is_majority(operation: &Operation, extra_acks: u16) -> bool {
    let Operation { request, .. } = operation;
    2 * u16::from(request.ack) + extra_acks > u16::from(request.from)
}

fn counts(operation: &Operation, acks: u8) -> bool {
    (operation.request.ack..=operation.request.from).contains(&acks)
}

/// Whether `read` can have found `write` under a version: the write had begun, and
/// its last timestamp, where that is known, is not below the version. A write that was
/// given a timestamp twice may appear under its first timestamp.
fn can_be_at(write: &Operation, read: &Operation, version: Option<Timestamp>) -> bool {
    let timestamp = match write.outcome() {
        Some(Outcome::Written { version, .. }) => Some(version),
        Some(Outcome::NotEnough { timestamp }) => timestamp,
        _ => None,
    };
    has_begun_by(write, read)
        && version.is_some_and(|version| timestamp.is_none_or(|timestamp| version <= timestamp))
}

/// Whether a write had begun before a read ended.
fn has_begun_by(write: &Operation, read: &Operation) -> bool {
    read.completion
        .is_some_and(|completion| write.invoked < completion.moment)
}

/// The range of wall clock times in which a value expires, in milliseconds since
/// the Unix epoch. The coordinator fixes the expiry when it first timestamps the
/// write; the client knows only that this happened before the answer.
struct ExpiryWindow {
    earliest_unix_ms: u64,
    latest_unix_ms: u64,
}

impl ExpiryWindow {
    /// When the value of a put expires, if it does.
    fn of(put: &Operation) -> Option<Self> {
        let Action::Put {
            ttl_seconds: Some(seconds),
        } = put.request.action
        else {
            return None;
        };
        let ttl_ms = seconds * 1000;
        let is_answered = put
            .outcome()
            .is_some_and(|outcome| outcome != Outcome::Lost);
        Some(if is_answered {
            Self {
                earliest_unix_ms: put.clock.earliest_unix_ms + ttl_ms,
                latest_unix_ms: put.clock.latest_unix_ms + ttl_ms,
            }
        } else {
            // The node may have given a timestamp the write at any time, and its clock
            // may have been set back since.
            Self {
                earliest_unix_ms: 0,
                latest_unix_ms: u64::MAX,
            }
        })
    }

    /// Whether the value had expired at every moment of the read.
    fn is_over_for(&self, read: &Operation) -> bool {
        read.completion.is_some() && read.clock.earliest_unix_ms >= self.latest_unix_ms
    }

    /// Whether the value may have expired at some moment of the read.
    fn has_begun_for(&self, read: &Operation) -> bool {
        read.completion.is_some() && read.clock.latest_unix_ms >= self.earliest_unix_ms
    }
}
