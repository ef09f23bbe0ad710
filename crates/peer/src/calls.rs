//! The calls of a link that wait for an answer.
//!
//! A call's number is a place in a slab with a generation, so that an answer
//! that comes too late finds nobody rather than somebody else.

use profile::Stopwatch;
use slab::Slab;
use std::time::Duration;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// To store a version.
    Write,
    /// For a version.
    Read,
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Whom the answer is addressed to.
    pub(super) ticket: u64,
    /// What was asked.
    pub(super) kind: CallKind,
    /// Until when it waits, on the monotonic clock.
    pub(super) deadline: Duration,
    /// When it could be sent.
    pub(super) began: Duration,
    /// How long it waits.
    pub(super) stopwatch: Stopwatch,
    generation: u32,
}

/// The calls that wait.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Slab<Call>,
    generation: u32,
}

impl Calls {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Enters a call; gives its number.
    pub(super) fn insert(
        &mut self,
        ticket: u64,
        kind: CallKind,
        deadline: Duration,
        now: Duration,
    ) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        let place = self.slots.insert(Call {
            ticket,
            kind,
            deadline,
            began: now,
            stopwatch: Stopwatch::start(),
            generation: self.generation,
        });
        (u64::from(self.generation) << 32) | (place as u64 & u64::from(u32::MAX))
    }

    /// The call of this number, if it still waits.
    pub(super) fn get(&self, number: u64) -> Option<&Call> {
        let place = (number & u64::from(u32::MAX)) as usize;
        let call = self.slots.get(place)?;
        (call.generation == (number >> 32) as u32).then_some(call)
    }

    /// Takes the call of this number out, if it still waits.
    pub(super) fn remove(&mut self, number: u64) -> Option<Call> {
        self.get(number)?;
        self.slots
            .try_remove((number & u64::from(u32::MAX)) as usize)
    }

    /// Takes out the calls whose deadline is not after `now`.
    pub(super) fn take_expired(&mut self, now: Duration) -> Vec<Call> {
        let mut expired = Vec::new();
        self.slots.retain(|_, call| {
            let waits = call.deadline > now;
            if !waits {
                expired.push(*call);
            }
            waits
        });
        expired
    }

    /// Takes all calls out.
    pub(super) fn take_all(&mut self) -> Vec<Call> {
        self.slots.drain().collect()
    }

    /// From now on they can be sent.
    pub(super) fn begin_all(&mut self, now: Duration) {
        for (_, call) in &mut self.slots {
            call.began = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_finds_nobody() {
        let mut calls = Calls::default();
        let late = calls.insert(1, CallKind::Read, Duration::MAX, Duration::ZERO);
        assert_eq!(calls.remove(late).map(|call| call.ticket), Some(1));
        let next = calls.insert(2, CallKind::Read, Duration::MAX, Duration::ZERO);
        assert_eq!((late ^ next) as u32, 0, "the place is used again");
        assert!(calls.remove(late).is_none());
        assert_eq!(calls.remove(next).map(|call| call.ticket), Some(2));
    }

    #[test]
    fn the_expired_are_taken_out() {
        let mut calls = Calls::default();
        for (ticket, second) in [(1, 3), (2, 1), (3, 2)] {
            calls.insert(
                ticket,
                CallKind::Write,
                Duration::from_secs(second),
                Duration::ZERO,
            );
        }
        let expired = calls.take_expired(Duration::from_secs(2));
        assert_eq!(
            expired.iter().map(|call| call.ticket).collect::<Vec<_>>(),
            [2, 3]
        );
        assert_eq!(calls.len(), 1);
    }
}
