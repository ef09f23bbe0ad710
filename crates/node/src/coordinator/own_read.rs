//! Reads of one replica that is this node's own store. There is nothing to count, compare or
//! repair, so they need no state machine, which would take an eighth of the instructions of a `GET`
//! from memory.

use super::{Coordinator, Failure, Found, Terms};
use base::{Entry, Reservation, Timestamp};
use cluster::repair::is_absent;
use cluster::{Fate, Miss, Replicas};
use peer::PeerAnswer;
use std::iter;

impl Coordinator {
    /// Whether a request wants only this node's own store.
    pub(super) fn wants_own_store(&self, key: &[u8], replicas: Replicas) -> bool {
        replicas.from == 1 && self.peers.has_alone(key)
    }

    /// Reads a key that [`Coordinator::wants_own_store`]. Answers as [`cluster::Read`] would
    /// for one replica.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) async fn read_own(&self, key: &[u8], terms: Terms) -> Result<Found, Failure> {
        let from = terms.replicas.from;
        self.settled(key, from, terms.deadline).await;
        if let Some(times) = &terms.watch {
            times.asked(self.peers.own(), self.clock.monotonic());
        }
        let (answer, reservation) = match self.replicas.own().read_cached(key) {
            Some(answer) => (answer, None),
            None => self.read_own_disk(key, &terms).await,
        };
        if let Some(times) = &terms.watch {
            let is_failed = matches!(answer, PeerAnswer::Missed(_));
            times.answered(self.peers.own(), self.clock.monotonic(), is_failed);
        }
        self.found(answer, reservation).map_err(|why| {
            let preference_list = self.peers.preference_list(key, from);
            self.failure(&preference_list, iter::once(Fate::Missed(why)), 0, None)
        })
    }

    /// This version of a key, if this node's own store has it in memory as its newest one.
    pub fn own_version(&self, key: &[u8], version: Timestamp) -> Option<Entry> {
        match self.replicas.own().read_cached(key)? {
            PeerAnswer::FoundBehind { entry, .. } => {
                entry.filter(|entry| entry.timestamp() == version)
            }
            _ => None,
        }
    }

    /// Has the read pool read the key.
    async fn read_own_disk(&self, key: &[u8], terms: &Terms) -> (PeerAnswer, Option<Reservation>) {
        let wait = self.pending.wait(terms.deadline);
        if let Err(why) = self.replicas.own().read(key, wait.address()) {
            return (PeerAnswer::Missed(why), None);
        }
        let completion = wait.only().await;
        self.replicas.answer_of(key, completion)
    }

    /// What the client gets, or why it gets nothing.
    fn found(&self, answer: PeerAnswer, reservation: Option<Reservation>) -> Result<Found, Miss> {
        let (entry, gc_threshold) = match answer {
            PeerAnswer::FoundBehind {
                entry,
                gc_threshold,
            } => (entry, gc_threshold),
            PeerAnswer::Missed(why) => return Err(why),
            // Not what a store answers to a read.
            _ => return Err(Miss::Failed),
        };
        let value_bytes = entry.as_ref().map_or(0, |entry| entry.value_bytes().len());
        let reservation = match reservation {
            Some(reservation) => Some(reservation),
            None => {
                let taken = self.answers.try_reserve_for_value(value_bytes);
                taken.map_err(|_| Miss::Overloaded)?
            }
        };
        let is_collected =
            |entry: &Entry| is_absent(entry.timestamp(), self.is_dead(entry), gc_threshold);
        Ok(Found {
            entry: entry.filter(|entry| !is_collected(entry)),
            acks: 1,
            reservation,
        })
    }
}
