//! Whether what clients saw of a key can have come from one register.
//!
//! A history is linearizable if each operation can be assigned a moment between
//! its invocation and its completion so that, in the order of these moments,
//! every read returns what the last write before it wrote (Herlihy and Wing,
//! 1990). The contract promises that for operations with one pair of `ack` and
//! `from`, `ack` being a majority, while all replicas answer; values with a time
//! to live are excepted. A conditional write compares and sets: it replaces what it expects, or
//! finds something else.
//!
//! This module chooses the operations of a key that count and the moments
//! between which each took effect; [`search`] searches for the order. It goes by
//! contents, which every client can compare. [`super::versions`] goes by
//! versions and so cannot notice a write that takes effect twice, under two
//! versions: no rule about versions is broken then.

mod search;

#[cfg(test)]
mod tests;

use crate::history::{Action, Content, Expected, History, Operation, OperationId, Outcome};
use crate::promise::{Promise, Violation};
use base::Timestamp;
use search::{Call, Effect, RegisterState, SearchResult, search};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the keys of a history are linearizable.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Linearizability {
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// How many keys were checked.
    pub keys: usize,
    /// The keys for which the search gave up.
    pub undecided: Vec<u64>,
}

/// Checks each key of a history that clients wrote with this pair only. Reads
/// with another pair do not count; a key that was written with another pair, or
/// with a time to live, is left out.
#[must_use]
pub fn check_linearizability(history: &History, ack: u8, from: u8) -> Linearizability {
    let mut checked = Linearizability::default();
    let keys: BTreeSet<u64> = history
        .operations()
        .iter()
        .map(|operation| operation.request.key)
        .collect();
    for key in keys {
        let operations: Vec<_> = history
            .of_key(key)
            // A scan is not a point in time.
            .filter(|(_, operation)| operation.request.action != Action::Scan)
            .collect();
        let is_of_pair =
            |operation: &Operation| (operation.request.ack, operation.request.from) == (ack, from);
        let excepted = operations.iter().any(|(_, operation)| {
            let action = operation.request.action;
            let expires = matches!(action, Action::Put { ttl_seconds } if ttl_seconds.is_some());
            expires || (action != Action::Get && !is_of_pair(operation))
        });
        if excepted {
            continue;
        }
        let operations: Vec<(OperationId, &Operation)> = operations
            .into_iter()
            .filter(|(_, operation)| is_of_pair(operation))
            .collect();
        checked.keys += 1;
        checked
            .violations
            .extend(second_versions(history, &operations));
        match search(&calls(&operations)) {
            SearchResult::Linearizable => {}
            SearchResult::NotLinearizable(shown) => checked.violations.push(Violation {
                promise: Promise::Linearizable,
                operations: shown,
            }),
            SearchResult::GaveUp => checked.undecided.push(key),
        }
    }
    checked
}

/// Reads that returned a write under another version than it was acknowledged
/// with. Such a read may do no harm by itself; but between two versions of one
/// write another write may be seen.
fn second_versions(history: &History, operations: &[(OperationId, &Operation)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for &(id, operation) in operations {
        if let Some(Outcome::Found {
            version: Some(found),
            content: Content::Value(put),
            ..
        }) = operation.outcome()
            && let Some(Outcome::Written { version, .. }) =
                history.get(put).and_then(Operation::outcome)
            && found != version
        {
            violations.push(Violation {
                promise: Promise::OneVersionAWrite,
                operations: vec![put, id],
            });
        }
    }
    violations
}

/// Which put each version is of, as far as clients know it.
fn versions(operations: &[(OperationId, &Operation)]) -> BTreeMap<Timestamp, OperationId> {
    let known = operations
        .iter()
        .filter_map(|(id, operation)| match operation.outcome() {
            Some(Outcome::Written { version, .. }) if operation.request.action.is_put() => {
                Some((version, *id))
            }
            Some(Outcome::Found {
                version: Some(version),
                content: Content::Value(put),
                ..
            }) => Some((version, put)),
            _ => None,
        });
    known.collect()
}

/// The calls for which the search must find an order.
///
/// A write that was not acknowledged may take effect at any later time, or never.
/// If no read returned the value that it put, the write is left out: every order
/// with it is also an order without it, unless a conditional write has found
/// something else than it expects. If a read returned the value, the write
/// took effect before the first such read ended. Deletes that were not
/// acknowledged remain, because no read says which delete it saw.
fn calls(operations: &[(OperationId, &Operation)]) -> Vec<Call> {
    let mut first_read: BTreeMap<OperationId, u64> = BTreeMap::new();
    for (_, operation) in operations {
        if let Some(Outcome::Found {
            content: Content::Value(put),
            ..
        }) = operation.outcome()
            && let Some(completion) = operation.completion
        {
            let first = first_read.entry(put).or_insert(u64::MAX);
            *first = completion.moment.0.min(*first);
        }
    }
    let versions = versions(operations);
    // What no operation of the history has written is never found.
    let state_of = |expected, id| match expected {
        Expected::Absent => RegisterState::Absent,
        Expected::Version(version) => {
            RegisterState::Value(versions.get(&version).copied().unwrap_or(id))
        }
    };
    let finds_other = operations
        .iter()
        .any(|(_, operation)| operation.outcome() == Some(Outcome::NotMatched));
    let mut calls = Vec::new();
    for &(id, operation) in operations {
        let outcome = operation.outcome();
        let completed = operation.completion.map(|completion| completion.moment.0);
        let (effect, completed_by) = match (operation.request.action, outcome) {
            (_, Some(Outcome::Refused)) => continue,
            (Action::Get, Some(Outcome::Found { content, .. })) => match content {
                Content::Value(put) => (Effect::Read(RegisterState::Value(put)), completed),
                Content::Absent => (Effect::Read(RegisterState::Absent), completed),
                // The check by versions reports garbage.
                Content::Garbage => continue,
            },
            (Action::Get | Action::Scan, _) => continue,
            (Action::Put { .. }, Some(Outcome::Written { .. })) => {
                (Effect::Write(RegisterState::Value(id)), completed)
            }
            (Action::Put { .. }, _) => {
                let first = first_read.get(&id).copied();
                if first.is_none() && !finds_other {
                    continue;
                }
                (Effect::Write(RegisterState::Value(id)), first)
            }
            (Action::Delete, Some(Outcome::Written { .. })) => {
                (Effect::Write(RegisterState::Absent), completed)
            }
            (Action::Delete, _) => (Effect::Write(RegisterState::Absent), None),
            (Action::PutIf(expected) | Action::DeleteIf(expected), Some(Outcome::NotMatched)) => {
                (Effect::FindOther(state_of(expected, id)), completed)
            }
            (Action::PutIf(expected), outcome) => {
                let completed_by = match outcome {
                    Some(Outcome::Written { .. }) => completed,
                    _ => first_read.get(&id).copied(),
                };
                if completed_by.is_none() && !finds_other {
                    continue;
                }
                let written = RegisterState::Value(id);
                (
                    Effect::Replace(state_of(expected, id), written),
                    completed_by,
                )
            }
            (Action::DeleteIf(expected), outcome) => {
                let is_written = matches!(outcome, Some(Outcome::Written { .. }));
                let effect = Effect::Replace(state_of(expected, id), RegisterState::Absent);
                (effect, completed.filter(|_| is_written))
            }
        };
        calls.push(Call {
            id,
            effect,
            invoked: operation.invoked.0,
            completed_by,
        });
    }
    calls
}
