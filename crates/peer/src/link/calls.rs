//! The calls of a link that are waiting for answers.
//!
//! A call's number is a slot in a slab together with a generation, so that a
//! late answer to an old call never reaches a new call in the same slot.

use base::Entry;
use profile::{Stopwatch, WaitSite};
use slab::Slab;
use std::time::Duration;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// To store a version.
    Write,
    /// To find a version.
    Read,
    /// To do something for a repair session.
    Repair,
    /// To return a page of a scan.
    Page,
    /// To report how it is.
    Examine,
    /// To do something for a backup.
    Backup,
    /// To do something for the list of members.
    List,
    /// To promise a ballot.
    Promise,
    /// To store a version whose ballot was promised.
    Accept,
}

/// A call that waits for its answer.
#[derive(Debug)]
pub(crate) struct Call {
    /// The ticket that the answer is delivered with.
    pub(crate) ticket: u64,
    /// What it asks for.
    pub(crate) kind: CallKind,
    /// The version that a read holds already, and whose value the peer need not send.
    pub(crate) held: Option<Entry>,
    /// Until when it waits, on the monotonic clock.
    pub(crate) deadline: Duration,
    /// When the link could send it, on the monotonic clock.
    pub(crate) began: Duration,
    /// How long it waits, for profiles.
    pub(crate) stopwatch: Stopwatch,
    generation: u32,
}

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    slots: Slab<Call>,
    generation: u32,
}

impl Calls {
    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Inserts a call, and returns its number.
    pub(crate) fn insert(
        &mut self,
        ticket: u64,
        (kind, held): (CallKind, Option<Entry>),
        deadline: Duration,
        now: Duration,
    ) -> u64 {
        self.generation = self.generation.wrapping_add(1);
        let slot = self.slots.insert(Call {
            ticket,
            kind,
            held,
            deadline,
            began: now,
            stopwatch: Stopwatch::start(),
            generation: self.generation,
        });
        (u64::from(self.generation) << 32) | (slot as u64 & u64::from(u32::MAX))
    }

    /// The call with this number, if it still waits.
    pub(crate) fn get(&self, number: u64) -> Option<&Call> {
        let call = self.slots.get(slot_of(number))?;
        (call.generation == (number >> 32) as u32).then_some(call)
    }

    /// Removes the call with this number, if it still waits.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Call> {
        self.get(number)?;
        self.slots.try_remove(slot_of(number))
    }

    /// Removes the calls whose deadline is not after `now`.
    pub(crate) fn remove_expired(&mut self, now: Duration) -> Vec<Call> {
        let is_expired = |(slot, call): (usize, &Call)| (call.deadline <= now).then_some(slot);
        let expired: Vec<usize> = self.slots.iter().filter_map(is_expired).collect();
        let calls = expired.into_iter();
        calls
            .filter_map(|slot| self.slots.try_remove(slot))
            .collect()
    }

    /// Removes all calls.
    pub(crate) fn remove_all(&mut self) -> Vec<Call> {
        self.slots.drain().collect()
    }

    /// Marks that the link can send all calls now.
    pub(crate) fn begin_all(&mut self, now: Duration) {
        for (_, call) in &mut self.slots {
            call.began = now;
        }
    }
}

/// Where calls to the peer `name` wait for its answer, as profiles name it; `what` names
/// their kind.
pub(crate) fn wait_site(name: &str, what: &str) -> WaitSite {
    WaitSite::named(format!("peer;{};{what}", name.replace(';', ",")))
}

fn slot_of(number: u64) -> usize {
    (number & u64::from(u32::MAX)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_does_not_reach_a_new_call_in_the_same_slot() {
        let mut calls = Calls::default();
        let late = calls.insert(1, (CallKind::Read, None), Duration::MAX, Duration::ZERO);
        assert_eq!(calls.remove(late).map(|call| call.ticket), Some(1));
        let next = calls.insert(2, (CallKind::Read, None), Duration::MAX, Duration::ZERO);
        assert_eq!((late ^ next) as u32, 0, "the slot is used again");
        assert!(calls.remove(late).is_none());
        assert_eq!(calls.remove(next).map(|call| call.ticket), Some(2));
    }

    #[test]
    fn expired_calls_are_removed_and_others_stay() {
        let mut calls = Calls::default();
        for (ticket, second) in [(1, 3), (2, 1), (3, 2)] {
            calls.insert(
                ticket,
                (CallKind::Write, None),
                Duration::from_secs(second),
                Duration::ZERO,
            );
        }
        let expired = calls.remove_expired(Duration::from_secs(2));
        assert_eq!(
            expired.iter().map(|call| call.ticket).collect::<Vec<_>>(),
            [2, 3]
        );
        assert_eq!(calls.len(), 1);
    }
}
