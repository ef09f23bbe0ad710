//! What a conditional write replaces, by versions: a write with the version V that expects the
//! version B lies right above B. No acknowledged write lies between them. Of two that expect the
//! same version, one would lie between, so at most one is acknowledged. A write that expects no
//! value lies right above a deletion, an expired value, or nothing.
//!
//! This holds for every history, whatever failed, where the acks overlap.

use super::{ExpiryWindow, overlap};
use crate::history::{Expected, Operation, OperationId, Outcome};
use crate::promise::{Promise, Violation};
use base::Timestamp;

/// Checks a conditional write against the acknowledged writes of its key.
pub(super) fn check(
    operations: &[(OperationId, &Operation)],
    id: OperationId,
    operation: &Operation,
    extra_acks: u16,
    violations: &mut Vec<Violation>,
) {
    let (Some(expected), Some(version)) =
        (operation.request.action.expected(), version_of(operation))
    else {
        return;
    };
    let mut broken = |mut operations: Vec<OperationId>| {
        operations.push(id);
        violations.push(Violation {
            promise: Promise::ConditionIsKept,
            operations,
        });
    };
    let below = operations
        .iter()
        .filter(|(other, write)| {
            *other != id && !write.may_be_lost && overlap(write, operation, extra_acks)
        })
        .filter_map(|(other, write)| Some((version_of(write)?, *other, *write)))
        .filter(|(found, ..)| *found < version)
        .max_by_key(|(found, ..)| *found);
    match (expected, below) {
        (Expected::Version(base), _) if base >= version => broken(Vec::new()),
        (Expected::Version(base), Some((found, other, _))) if found > base => {
            broken(vec![other]);
        }
        (Expected::Absent, Some((_, other, write))) if !may_be_dead(write, operation) => {
            broken(vec![other]);
        }
        _ => {}
    }
}

/// The version of a write that was acknowledged.
fn version_of(write: &Operation) -> Option<Timestamp> {
    match write.outcome() {
        Some(Outcome::Written { version, .. }) => Some(version),
        _ => None,
    }
}

/// Whether what a write has written may be no value any more while `later` runs.
fn may_be_dead(write: &Operation, later: &Operation) -> bool {
    write.request.action.is_delete()
        || ExpiryWindow::of(write).is_some_and(|window| window.has_begun_for(later))
}
