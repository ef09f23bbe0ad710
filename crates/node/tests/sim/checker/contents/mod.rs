//! Whether what clients saw of a key can have come from one register.
//!
//! A history is linearizable if each operation can be given a moment between
//! its question and its answer so that, in the order of these moments, every
//! read finds what the last write before it left (Herlihy and Wing, 1990). That
//! is promised of the operations with one pair of `ack` and `from`, acks in the
//! majority, while all replicas answer; values with a time to live excepted.
//!
//! This module says which operations of a key count and between which moments;
//! [`search`] looks for the order. It judges contents, as any client can, where
//! the checks of [`super`] go by versions: a write that takes effect twice,
//! under two versions, breaks no rule about versions.

mod search;

#[cfg(test)]
mod tests;

use super::{Promise, Violation};
use crate::history::{Action, Content, History, Number, Operation, Outcome};
use search::{Call, Effect, Found, State, search};
use std::collections::{BTreeMap, BTreeSet};

/// What came of judging the contents of a history.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// What was broken.
    pub(crate) violations: Vec<Violation>,
    /// How many keys were judged.
    pub(crate) keys: usize,
    /// The keys whose search was given up: nobody knows.
    pub(crate) undecided: Vec<u64>,
}

/// Judges the contents of every key that clients asked for with this pair
/// only. Reads with another pair do not count; a key that was written with
/// another one, or with a time to live, is left out.
pub(crate) fn judge(history: &History, ack: u8, from: u8) -> Judgement {
    let mut judgement = Judgement::default();
    let keys: BTreeSet<u64> = history
        .operations()
        .iter()
        .map(|operation| operation.question.key)
        .collect();
    for key in keys {
        let operations: Vec<_> = history.of_key(key).collect();
        let is_of_pair = |operation: &Operation| {
            (operation.question.ack, operation.question.from) == (ack, from)
        };
        let excepted = operations.iter().any(|(_, operation)| {
            let action = operation.question.action;
            let expires = matches!(action, Action::Put { ttl_seconds } if ttl_seconds.is_some());
            expires || (action != Action::Get && !is_of_pair(operation))
        });
        if excepted {
            continue;
        }
        let operations: Vec<(Number, &Operation)> = operations
            .into_iter()
            .filter(|(_, operation)| is_of_pair(operation))
            .collect();
        judgement.keys += 1;
        judgement
            .violations
            .extend(second_versions(history, &operations));
        match search(&calls(&operations)) {
            Found::Order => {}
            Found::NoOrder(shown) => judgement.violations.push(Violation {
                promise: Promise::Linearizable,
                operations: shown,
            }),
            Found::TooMuchWork => judgement.undecided.push(key),
        }
    }
    judgement
}

/// Reads that found a write under another version than it was acknowledged
/// with. Each by itself may be harmless, but once a write is seen under two
/// versions, something else may be seen between them.
fn second_versions(history: &History, operations: &[(Number, &Operation)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for &(number, operation) in operations {
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
                operations: vec![put, number],
            });
        }
    }
    violations
}

/// The operations that an order must be found for.
///
/// A write that was not acknowledged may take effect at any time later, or
/// never. If no read found the value that it put, it can be left out: whatever
/// order there is with it, there is one without. If one did, it took effect
/// before the first such read ended. What is left of them are deletes.
fn calls(operations: &[(Number, &Operation)]) -> Vec<Call> {
    let mut first_read: BTreeMap<Number, u64> = BTreeMap::new();
    for (_, operation) in operations {
        if let Some(Outcome::Found {
            content: Content::Value(put),
            ..
        }) = operation.outcome()
            && let Some(end) = operation.end
        {
            let first = first_read.entry(put).or_insert(u64::MAX);
            *first = end.moment.0.min(*first);
        }
    }
    let mut calls = Vec::new();
    for &(number, operation) in operations {
        let outcome = operation.outcome();
        let until = operation.end.map(|end| end.moment.0);
        let (effect, until) = match (operation.question.action, outcome) {
            (_, Some(Outcome::Refused)) => continue,
            (Action::Get, Some(Outcome::Found { content, .. })) => match content {
                Content::Value(put) => (Effect::Read(State::Value(put)), until),
                Content::Absent => (Effect::Read(State::Absent), until),
                // Another check tells.
                Content::Garbage => continue,
            },
            (Action::Get, _) => continue,
            (Action::Put { .. }, Some(Outcome::Written { .. })) => {
                (Effect::Write(State::Value(number)), until)
            }
            (Action::Put { .. }, _) => match first_read.get(&number) {
                Some(until) => (Effect::Write(State::Value(number)), Some(*until)),
                None => continue,
            },
            (Action::Delete, Some(Outcome::Written { .. })) => {
                (Effect::Write(State::Absent), until)
            }
            (Action::Delete, _) => (Effect::Write(State::Absent), None),
        };
        calls.push(Call {
            number,
            effect,
            from: operation.asked.0,
            until,
        });
    }
    calls
}
