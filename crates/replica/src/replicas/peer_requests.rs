//! Serves the requests of peers from this node's own store.

use super::LocalReplica;
use crate::pending::Completion;
use base::Refused;
use base::{Entry, NewerVersion, Timestamp};
use bytes::Bytes;
use cluster::Miss;
use lsm::{Admission, Lookup};
use peer::{PeerAnswer, PromiseRequest, Reply};
use std::rc::Rc;

impl LocalReplica {
    /// Stores a version that a peer has sent, be it a write, a hint or a read repair. `named` is
    /// the GC threshold that the store has named that has answered with a read repair.
    pub fn write_for_peer(self: &Rc<Self>, entry: Entry, named: Option<Timestamp>, reply: Reply) {
        // The entry is stored at once; only the answer waits for the replica state.
        let (replica, version) = (Rc::clone(self), entry.clone());
        let address = self.pending.handle(reply.deadline(), move |completion| {
            replica.when_settled(reply, move |replica, reply| {
                reply.send(replica.answer_of(version.key(), completion).0);
            });
        });
        if let Err(why) = self.repair(entry, named, address) {
            let missed = Completion::Peer(PeerAnswer::Missed(why));
            self.pending.complete(address, missed);
        }
    }

    /// Does what a conditional write asks for, for a peer.
    pub fn promise_for_peer(self: &Rc<Self>, request: PromiseRequest, reply: Reply) {
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let deadline = reply.deadline();
            replica.settled(deadline).await;
            let answer = replica.promise(request, deadline).await;
            reply.send(answer);
        });
    }

    /// Stores the version of a conditional write of a peer, if the promise of its ballot is kept.
    pub fn accept_for_peer(self: &Rc<Self>, ballot: Timestamp, entry: Entry, reply: Reply) {
        let (replica, version) = (Rc::clone(self), entry.clone());
        let address = self.pending.handle(reply.deadline(), move |completion| {
            replica.when_settled(reply, move |replica, reply| {
                reply.send(replica.answer_of(version.key(), completion).0);
            });
        });
        if let Err(why) = self.write(entry, None, Admission::Accept { ballot }, address) {
            let missed = Completion::Peer(PeerAnswer::Missed(why));
            self.pending.complete(address, missed);
        }
    }

    /// Stores a version that a repair session brings, if it is admitted. The answer is no ack, so
    /// it does not depend on the replica state.
    pub fn repair_write_for_peer(
        self: &Rc<Self>,
        entry: Entry,
        admitted: Result<Admission, Miss>,
        reply: Reply,
    ) {
        // What is here already is no change: recorded as one, it would have the next
        // session compare it again, and so on without end. But what only the cache has of a
        // damaged block will be gone.
        if !self.is_damaged(entry.key())
            && let Ok(Lookup::Found(Some(held))) = self.engine.get_cached(entry.key())
            && held.rank() >= entry.rank()
            // What is newer may be a tombstone that others have collected, so that the sender
            // does not get it: then the two differ.
            && (admitted.is_ok() || held.timestamp() == entry.timestamp())
        {
            let newer_version = if held.timestamp() > entry.timestamp() {
                NewerVersion::At(held.timestamp())
            } else {
                NewerVersion::None
            };
            return reply.send(PeerAnswer::Stored { newer_version });
        }
        let admission = match admitted {
            Ok(admission) => admission,
            Err(why) => return reply.send(PeerAnswer::Missed(why)),
        };
        let (replica, version) = (Rc::clone(self), entry.clone());
        let address = self.pending.handle(reply.deadline(), move |completion| {
            reply.send(match completion {
                Some(Completion::Written(Ok(newer_version))) => {
                    PeerAnswer::Stored { newer_version }
                }
                completion => replica.answer_of(version.key(), completion).0,
            });
        });
        if let Err(why) = self.write(entry, None, admission, address) {
            let missed = Completion::Peer(PeerAnswer::Missed(why));
            self.pending.complete(address, missed);
        }
    }

    /// Reads a key for a peer.
    pub fn read_for_peer(self: &Rc<Self>, key: Bytes, reply: Reply) {
        self.when_settled(reply, move |replica, reply| {
            replica.read_settled(&key, reply);
        });
    }

    fn read_settled(self: &Rc<Self>, key: &Bytes, reply: Reply) {
        if let Some(answer) = self.read_cached(key) {
            return self.reply_cached(answer, reply);
        }
        let (replica, asked) = (Rc::clone(self), key.clone());
        let address = self.pending.handle(reply.deadline(), move |completion| {
            let (answer, reservation) = replica.answer_of(&asked, completion);
            reply.send_holding(answer, reservation);
        });
        if let Err(why) = self.read(key, address) {
            let missed = Completion::Peer(PeerAnswer::Missed(why));
            self.pending.complete(address, missed);
        }
    }

    /// Answers with what was cached; a long value counts until it is sent.
    fn reply_cached(&self, answer: PeerAnswer, reply: Reply) {
        let value_bytes = match &answer {
            PeerAnswer::Found(Some(entry))
            | PeerAnswer::FoundBehind {
                entry: Some(entry), ..
            } => entry.value_bytes().len(),
            _ => 0,
        };
        match self.answers.try_reserve_for_value(value_bytes) {
            Ok(reservation) => reply.send_holding(answer, reservation),
            Err(Refused) => reply.send(PeerAnswer::Missed(Miss::Overloaded)),
        }
    }

    /// Does `work` once the store's replica state is settled, or when time is short.
    /// What waits here is bounded: each is a call of a peer in flight.
    fn when_settled(self: &Rc<Self>, reply: Reply, work: impl FnOnce(&Rc<Self>, Reply) + 'static) {
        if self.is_settled() {
            return work(self, reply);
        }
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            replica.settled(reply.deadline()).await;
            work(&replica, reply);
        });
    }
}
