//! The requests of peers to this node's own store.

use super::LocalReplica;
use crate::completion_queue::Completion;
use base::Entry;
use base::Refused;
use bytes::Bytes;
use cluster::Miss;
use peer::{PeerAnswer, PeerRequest, Reply};
use std::rc::Rc;

impl peer::RequestHandler for LocalReplica {
    fn serve(self: &Rc<Self>, request: PeerRequest, reply: Reply) {
        match request {
            PeerRequest::Write(entry) => self.write_for_peer(entry, reply),
            PeerRequest::Read(key) => {
                self.when_settled(reply, move |replica, reply| {
                    replica.read_for_peer(&key, reply);
                });
            }
        }
    }
}

impl LocalReplica {
    fn write_for_peer(self: &Rc<Self>, entry: Entry, reply: Reply) {
        // The entry is stored at once; only the answer waits for the standing.
        let replica = Rc::clone(self);
        let address = self.pending.handle(reply.deadline(), move |completion| {
            replica.when_settled(reply, |replica, reply| {
                reply.send(replica.answer_of(completion).0);
            });
        });
        if let Err(why) = self.write(entry, None, address) {
            let missed = Completion::Peer(PeerAnswer::Missed(why));
            self.pending.complete(address, missed);
        }
    }

    fn read_for_peer(self: &Rc<Self>, key: &Bytes, reply: Reply) {
        if let Some(answer) = self.read_cached(key) {
            return self.reply_cached(answer, reply);
        }
        let replica = Rc::clone(self);
        let address = self.pending.handle(reply.deadline(), move |completion| {
            let (answer, share) = replica.answer_of(completion);
            reply.send_holding(answer, share);
        });
        if let Err(why) = self.read(key, address) {
            let missed = Completion::Peer(PeerAnswer::Missed(why));
            self.pending.complete(address, missed);
        }
    }

    /// Answers with what was cached; a long value counts until it is sent.
    fn reply_cached(&self, answer: PeerAnswer, reply: Reply) {
        let value_bytes = match &answer {
            PeerAnswer::Found(Some(entry)) => entry.value_bytes().len(),
            _ => 0,
        };
        match self.answers.take_for_value(value_bytes) {
            Ok(share) => reply.send_holding(answer, share),
            Err(Refused) => reply.send(PeerAnswer::Missed(Miss::Overloaded)),
        }
    }

    /// Does `work` once the store's standing is settled, or when time is short.
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
