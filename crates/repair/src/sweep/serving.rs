//! How a node serves the mends of other nodes, and the requests of passes.

use super::joining::Agreed;
use super::participant::{Participant, UnknownRange};
use super::{Sweeper, Sweeps};
use crate::forgetting::MendRules;
use base::{Entry, Timestamp};
use cluster::Miss;
use cluster::sweep::PassId;
use peer::{PeerAnswer, Reply, SweepAnswer, SweepRequest};
use std::rc::Rc;

/// The fence or the forget bound that a request names.
fn named_bound(request: &SweepRequest) -> Option<Timestamp> {
    match request {
        SweepRequest::Fence { fence, .. } => Some(*fence),
        SweepRequest::Forget { forgotten, .. } | SweepRequest::Agree { forgotten, .. } => {
            Some(*forgotten)
        }
        SweepRequest::Disregard { below, .. } => Some(*below),
        SweepRequest::Begin { .. }
        | SweepRequest::Advance { .. }
        | SweepRequest::Digest { .. }
        | SweepRequest::Reconcile { .. }
        | SweepRequest::Recount { .. }
        | SweepRequest::Symbols { .. }
        | SweepRequest::Send { .. }
        | SweepRequest::Pull { .. }
        | SweepRequest::Announce { .. }
        | SweepRequest::Offer { .. }
        | SweepRequest::Sync { .. }
        | SweepRequest::End { .. } => None,
    }
}

impl Sweeper {
    /// Serves the mend of a peer.
    pub fn serve_mend(self: &Rc<Self>, pass: PassId, entry: Entry, reply: Reply) {
        self.sweeps.record.mend_received();
        self.take_mend(pass, entry, reply);
    }

    /// Serves what the driver of a pass, or another node in it, asks for.
    pub fn serve(self: &Rc<Self>, request: SweepRequest, reply: Reply) {
        if self.believes(reply.peer(), &request) {
            self.serve_sweep(request, reply);
        } else {
            // The driver goes on without this node.
            reply.send(PeerAnswer::Swept(SweepAnswer::Unknown));
        }
    }

    /// Takes a version that a pass brings, if the rules allow it.
    fn take_mend(self: &Rc<Self>, pass: PassId, entry: Entry, reply: Reply) {
        let Sweeps {
            environment,
            mended,
            ..
        } = &*self.sweeps;
        let replica_state = environment.membership.replica_state();
        let rules = environment.forgetting.mend_rules(pass, replica_state);
        let barrier = rules.barrier();
        let own = self.replicas.own();
        let is_damaged = own.is_damaged(entry.key());
        let mut taken = rules.admit(&entry, is_damaged);
        if taken.is_ok() && rules.is_old(&entry, is_damaged) {
            if self.disturbs(&rules, &entry, is_damaged) {
                return self.take_mend_once_noted(pass, entry, reply);
            }
            mended.old_version_came(pass, entry.key());
            // The store may have been sealed in between: then nobody asks for that count any more.
            let rules = environment.forgetting.mend_rules(pass, replica_state);
            if rules.barrier() != barrier {
                // The pass that has raised it may have begun before that count.
                return self.take_mend(pass, entry, reply);
            }
            taken = rules.admit(&entry, is_damaged);
        }
        if rules.takes_part() {
            mended.note(pass, entry.key());
        }
        own.mend_for_peer(entry, taken, reply);
    }

    /// Whether a version that a pass brings comes in behind a scan, perhaps, and that is not noted
    /// durably yet: see [`mended`](super::mended).
    pub(super) fn disturbs(&self, rules: &MendRules, entry: &Entry, is_damaged: bool) -> bool {
        let mended = &self.sweeps.mended;
        let is_expected =
            || rules.is_only_full_pass() && mended.is_expected(rules.pass(), entry.key());
        rules.is_old(entry, is_damaged) && !rules.is_noted_as_disturbed() && !is_expected()
    }

    /// As [`Sweeper::take_mend`], once it is durable that an old version comes in behind a scan.
    /// By then the rules may say something else.
    fn take_mend_once_noted(self: &Rc<Self>, pass: PassId, entry: Entry, reply: Reply) {
        let noted = self.sweeps.environment.forgetting.disturb();
        let sweeper = Rc::clone(self);
        tokio::task::spawn_local(async move {
            match noted.await {
                Ok(()) => sweeper.take_mend(pass, entry, reply),
                Err(_) => reply.send(PeerAnswer::Missed(Miss::Failed)),
            }
        });
    }

    /// Whether to believe the fence or the forget bound that a peer names with a request.
    fn believes(&self, peer: &str, request: &SweepRequest) -> bool {
        let forgetting = &self.sweeps.environment.forgetting;
        named_bound(request).is_none_or(|named| forgetting.believes(peer, named))
    }

    /// Does as a peer asks, and replies.
    fn serve_sweep(self: &Rc<Self>, request: SweepRequest, reply: Reply) {
        let sweeper = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = match request {
                SweepRequest::Pull {
                    pass,
                    range,
                    asker,
                    after,
                    held,
                } => sweeper.answer_pull((pass, range), asker, after, held).await,
                request => PeerAnswer::Swept(sweeper.answer(request).await),
            };
            reply.send(answer);
        });
    }

    /// What this node answers. The requests of a pass come one after another.
    pub(super) async fn answer(&self, request: SweepRequest) -> SweepAnswer {
        self.sweeps.record.request_received();
        match request {
            SweepRequest::Begin {
                pass,
                kind,
                is_resumed,
            } => self.answer_begin((pass, kind), is_resumed).await,
            SweepRequest::Fence { pass, fence } => self.answer_fence(pass, fence).await,
            SweepRequest::Forget { pass, forgotten } => {
                self.sweeps.environment.forgetting.shown(pass, forgotten);
                self.answer_forget(forgotten)
            }
            SweepRequest::Disregard {
                pass,
                below,
                vouching,
            } => {
                self.background(move |own| own.disregard(pass, below, vouching))
                    .await
            }
            SweepRequest::Agree {
                pass,
                cut,
                forgotten,
                reaches,
                stores,
                bounds,
            } => {
                let agreed = Agreed {
                    cut,
                    forgotten,
                    reaches,
                    bounds,
                };
                self.answer_agree(pass, agreed, &stores).await
            }
            SweepRequest::Advance { pass, start } => self.advance(pass, &start).await,
            SweepRequest::Digest { pass, range, end } => {
                // The range before was compared by now.
                self.bury_leftovers(pass).await;
                let digest = self.background(move |own| own.digest(pass, range, end.as_deref()));
                let answer = digest.await;
                if matches!(answer, SweepAnswer::Digests { .. }) {
                    self.sweeps.record.range_compared(pass);
                    self.push_pulled(pass);
                }
                answer
            }
            SweepRequest::Reconcile { pass, range, with } => {
                self.sweeps.record.range_differs();
                self.reconcile((pass, range), with).await
            }
            SweepRequest::Recount { pass, range, asker } => {
                // The other node reconciles the two: this is the first that it asks for.
                self.sweeps.record.range_differs();
                let recount = move |own: &mut Participant| own.recount((pass, range), asker);
                match self.in_background(recount).await {
                    Some(Ok(digest)) => SweepAnswer::Recounted(digest),
                    Some(Err(UnknownRange)) | None => SweepAnswer::Unknown,
                }
            }
            SweepRequest::Symbols {
                pass,
                range,
                asker,
                first,
                count,
            } => {
                self.background(move |own| own.symbols((pass, range), asker, first, count))
                    .await
            }
            SweepRequest::Send {
                pass,
                range,
                asker,
                key_hashes,
            } => self.send((pass, range), asker, key_hashes).await,
            // No node pulls from itself; `serve_sweep` answers the others.
            SweepRequest::Pull { .. } => SweepAnswer::Unknown,
            SweepRequest::Announce { pass, range } => self.announce((pass, range)).await,
            SweepRequest::Offer {
                pass,
                range,
                asker,
                offers,
            } => self.answer_offers((pass, range), asker, offers).await,
            SweepRequest::Sync { pass } => {
                self.bury_leftovers(pass).await;
                match self.in_background(move |own| own.sync(pass)).await {
                    // Read afterwards: what was lost meanwhile is not durable.
                    Some(Ok(true)) => SweepAnswer::Synced(self.incarnation()),
                    Some(Ok(false)) => SweepAnswer::Unknown,
                    Some(Err(error)) => {
                        tracing::error!(%error, "a repair cannot sync the store");
                        SweepAnswer::Unknown
                    }
                    None => SweepAnswer::Unknown,
                }
            }
            SweepRequest::End {
                pass,
                is_conclusive,
                single_copies,
                clean_with,
            } => {
                let end = self.end(pass, is_conclusive, &single_copies, clean_with);
                end.await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::sweep::PassKind;

    #[test]
    fn each_request_that_brings_a_fence_or_a_forget_bound_is_asked_for_it() {
        let (pass, named) = (PassId(1), Timestamp::from_u64(7));
        let agree = SweepRequest::Agree {
            pass,
            cut: Timestamp::MAX,
            forgotten: named,
            reaches: Vec::new(),
            stores: Vec::new(),
            bounds: Vec::new(),
        };
        let disregard = SweepRequest::Disregard {
            pass,
            below: named,
            vouching: Vec::new(),
        };
        let fence = SweepRequest::Fence { pass, fence: named };
        let forget = SweepRequest::Forget {
            pass,
            forgotten: named,
        };
        for request in [agree, disregard, fence, forget] {
            assert_eq!(named_bound(&request), Some(named), "{request:?}");
        }
        let begin = SweepRequest::Begin {
            pass,
            kind: PassKind::Full,
            is_resumed: false,
        };
        for request in [begin, SweepRequest::Sync { pass }] {
            assert_eq!(named_bound(&request), None, "{request:?}");
        }
    }
}
