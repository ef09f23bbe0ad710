//! What clients saw, held against what they may rely on.

use base::Entry;
use cluster::Replicas;

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To store this letter.
    Put(char),
    Delete,
    Get,
}

/// What it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// This version is stored.
    Written(Entry),
    /// This version is the freshest.
    Read(Option<Entry>),
    /// Too few have answered.
    NotEnough(u8),
}

/// A request from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) asked: Asked,
    pub(crate) replicas: Replicas,
    pub(crate) coordinator: u8,
    /// When it began.
    pub(crate) invoked: u64,
    /// When it was answered, and what.
    pub(crate) replied: Option<(u64, Outcome)>,
    /// The versions that it has sent out.
    pub(crate) written: Vec<Entry>,
}

/// A promise of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// A read sees what was acknowledged before it, when the acks overlap.
    Visible,
    /// A later write wins, when the acks overlap.
    LaterWins,
    /// Reads of more than half never go back.
    NeverBack,
    /// What is read was written.
    Written,
}

/// The promises that a history breaks, each with the operations in question.
///
/// `generosity` is added to every sum of acks: 0 is the contract; with 1 even
/// acks that do not overlap are held to it, which must be found wanting.
pub(crate) fn broken(history: &[Operation], generosity: u8) -> Vec<(Promise, usize, usize)> {
    let mut broken = Vec::new();
    for (number, operation) in history.iter().enumerate() {
        if let Some(Outcome::Read(Some(entry))) = operation.outcome()
            && !history.iter().any(|other| other.written.contains(entry))
        {
            broken.push((Promise::Written, number, number));
        }
        for (earlier_number, earlier) in history.iter().enumerate() {
            if earlier.replied_before(operation)
                && let Some(promise) = broken_between(earlier, operation, generosity)
            {
                broken.push((promise, earlier_number, number));
            }
        }
    }
    broken
}

fn broken_between(earlier: &Operation, later: &Operation, generosity: u8) -> Option<Promise> {
    let acks = earlier.replicas.ack + later.replicas.ack + generosity;
    let overlap = acks > earlier.replicas.from.max(later.replicas.from);
    let half = |replicas: Replicas| 2 * replicas.ack + generosity > replicas.from;
    match (earlier.outcome()?, later.outcome()?) {
        (Outcome::Written(old), Outcome::Written(new)) => {
            // Of equal rank are two writes of the same with the same stamp:
            // they are one version, and nobody can tell which has won.
            (overlap && new.rank() < old.rank()).then_some(Promise::LaterWins)
        }
        (Outcome::Written(old), Outcome::Read(new)) => {
            (overlap && is_older(new.as_ref(), old)).then_some(Promise::Visible)
        }
        (Outcome::Read(Some(old)), Outcome::Read(new)) => {
            let promised = half(earlier.replicas)
                && half(later.replicas)
                && earlier.replicas.from == later.replicas.from;
            (promised && is_older(new.as_ref(), old)).then_some(Promise::NeverBack)
        }
        _ => None,
    }
}

fn is_older(read: Option<&Entry>, than: &Entry) -> bool {
    read.map(Entry::rank) < Some(than.rank())
}

impl Operation {
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.replied.as_ref().map(|(_, outcome)| outcome)
    }

    fn replied_before(&self, other: &Self) -> bool {
        let replied = self.replied.as_ref();
        replied.is_some_and(|(moment, _)| *moment < other.invoked)
    }
}
