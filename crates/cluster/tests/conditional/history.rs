//! What clients saw of the key, and what it must satisfy.

use base::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What an operation did, as its client knows it. A content is the number of the operation that
/// wrote it, and 0 for no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Read(usize),
    Write(usize),
    /// Replaced the first content by the second one.
    Swap(usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Call {
    effect: Effect,
    begun: u64,
    /// [`None`]: it may take effect at any time, or never.
    ended: Option<u64>,
}

/// A version that a client was told of.
#[derive(Clone, Copy, Debug)]
struct Told {
    version: Timestamp,
    begun: u64,
    ended: u64,
}

#[derive(Default)]
pub(crate) struct History {
    calls: Vec<Call>,
    acknowledged: Vec<Told>,
    read: Vec<Told>,
    /// The versions on which conditional versions were built.
    pub(crate) bases: BTreeMap<Timestamp, Timestamp>,
}

impl History {
    /// An operation that may have taken effect or may yet.
    pub(crate) fn open(&mut self, effect: Effect, begun: u64) {
        let ended = None;
        self.calls.push(Call {
            effect,
            begun,
            ended,
        });
    }

    /// An operation that has ended with this version.
    pub(crate) fn close(&mut self, effect: Effect, version: Timestamp, begun: u64, ended: u64) {
        self.calls.push(Call {
            effect,
            begun,
            ended: Some(ended),
        });
        let told = match effect {
            Effect::Read(_) => &mut self.read,
            Effect::Write(_) | Effect::Swap(..) => &mut self.acknowledged,
        };
        told.push(Told {
            version,
            begun,
            ended,
        });
    }

    pub(crate) fn conditional_writes(&self) -> usize {
        let is_swap =
            |call: &&Call| matches!(call.effect, Effect::Swap(..)) && call.ended.is_some();
        self.calls.iter().filter(is_swap).count()
    }

    /// What the history breaks.
    pub(crate) fn violation(&self, is_linearizable: bool) -> Option<&'static str> {
        let is_after = |told: &Told, earlier: &Told| {
            earlier.ended <= told.begun && earlier.version > told.version
        };
        for read in &self.read {
            if self.acknowledged.iter().any(|write| is_after(read, write)) {
                return Some("a read has missed an acknowledged write");
            }
            if self.read.iter().any(|earlier| is_after(read, earlier)) {
                return Some("a read has gone back");
            }
        }
        for write in &self.acknowledged {
            if self
                .acknowledged
                .iter()
                .any(|earlier| is_after(write, earlier))
            {
                return Some("a later write has lost against an acknowledged one");
            }
        }
        for Told { version, .. } in self.acknowledged.iter().chain(&self.read) {
            let Some(base) = self.bases.get(version) else {
                continue;
            };
            let lies_between = |write: &Told| *base < write.version && write.version < *version;
            if self.acknowledged.iter().any(lies_between) {
                return Some("a conditional write has skipped an acknowledged one");
            }
        }
        if is_linearizable && !self.has_order() {
            return Some("not linearizable");
        }
        None
    }

    /// Whether the calls have an order in which each takes effect within its time.
    fn has_order(&self) -> bool {
        let required = self.calls.iter().enumerate();
        let required: u64 = required
            .filter(|(_, call)| call.ended.is_some())
            .map(|(number, _)| 1 << number)
            .sum();
        self.search(0, 0, required, &mut BTreeSet::new())
    }

    fn search(
        &self,
        done: u64,
        content: usize,
        required: u64,
        tried: &mut BTreeSet<(u64, usize)>,
    ) -> bool {
        if done & required == required {
            return true;
        }
        if !tried.insert((done, content)) {
            return false;
        }
        let is_left = |number: &usize| done >> number & 1 == 0;
        let left = || (0..self.calls.len()).filter(is_left);
        let first_end = left().filter_map(|number| self.calls[number].ended).min();
        for number in left() {
            let call = self.calls[number];
            if first_end.is_some_and(|first_end| call.begun > first_end) {
                continue;
            }
            let after = match call.effect {
                Effect::Write(new) => new,
                Effect::Read(read) if read == content => content,
                Effect::Swap(expected, new) if expected == content => new,
                Effect::Read(_) | Effect::Swap(..) => continue,
            };
            if self.search(done | 1 << number, after, required, tried) {
                return true;
            }
        }
        false
    }
}

impl fmt::Display for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Call {
            effect,
            begun,
            ended,
        } in &self.calls
        {
            writeln!(formatter, "{effect:?} from {begun} to {ended:?}")?;
        }
        writeln!(formatter, "acknowledged {:?}", self.acknowledged)?;
        writeln!(formatter, "read {:?}", self.read)?;
        writeln!(formatter, "bases {:?}", self.bases)
    }
}
