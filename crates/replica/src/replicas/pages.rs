//! The pages of cluster scans from this node's own store.

use super::LocalReplica;
use crate::pending::Completion;
use crate::read_pool::{PAGE_BYTES_MAX, PageRead};
use crate::read_pool::{PoolFull, Read};
use crate::wait_sites;
use base::Quota;
use cluster::Miss;
use cluster::pages::{PageRequest, ScanPage};
use membership::Layouts;
use peer::{EncodedPage, PeerAnswer, Reply};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What the store needs to make pages.
pub struct PageTelling {
    /// The layout in force.
    pub layouts: Layouts,
    /// Peers' pages are read one at a time, because a batch of long values takes much memory.
    pub turns_of_peers: Arc<Quota>,
    /// Peers' pages until they are sent, in bytes. Clients have a quota of their own, so no node
    /// waits for another one's clients.
    pub bytes_of_peers: Arc<Quota>,
}

impl LocalReplica {
    /// Makes a page for a coordinator, once it is its turn.
    ///
    /// # Errors
    /// Why the store does not make it; [`Miss::Learner`] if its answers do not count,
    /// [`Miss::OtherEpoch`] if another list of members is in force here.
    pub async fn page(
        &self,
        request: PageRequest,
        turns: &Arc<Quota>,
        turn_bytes: usize,
        deadline: Duration,
    ) -> Result<ScanPage, Miss> {
        if !self.is_settled() {
            self.settled(deadline).await;
        }
        self.check_whole()?;
        let mut wait = self.pending.wait(deadline);
        let turn = tokio::select! {
            biased;
            taken = turns.reserve(turn_bytes, &wait_sites::SCAN_MEMORY) => taken.ok(),
            // Nothing was asked yet, so this is the deadline.
            _ = wait.next() => None,
        };
        let turn = turn.ok_or(Miss::Overloaded)?;
        let layout = self.telling.layouts.load();
        if layout.epoch() != request.epoch {
            return Err(Miss::OtherEpoch);
        }
        let read = PageRead {
            request,
            layout,
            bounds: Arc::clone(&self.bounds),
        };
        self.submit(Read::Page(Box::new(read), turn), wait.address())
            .map_err(|PoolFull| Miss::Overloaded)?;
        match wait.only().await {
            Some(Completion::Paged(Ok(page))) => self.check_whole().map(|()| page),
            Some(Completion::Paged(Err(error))) => Err(self.miss_of(&error)),
            Some(_) => Err(Miss::Failed),
            None => Err(Miss::Timeout),
        }
    }

    /// Tells a page for a peer. What waits here is bounded by the bytes of such pages.
    pub fn page_for_peer(self: &Rc<Self>, request: PageRequest, reply: Reply) {
        let bytes = request.bytes.min(PAGE_BYTES_MAX) as usize;
        let Ok(reservation) = self.telling.bytes_of_peers.try_reserve(bytes) else {
            return reply.send(PeerAnswer::Missed(Miss::Overloaded));
        };
        let replica = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let turns = &replica.telling.turns_of_peers;
            let told = replica.page(request, turns, usize::MAX, reply.deadline());
            match told.await {
                Ok(page) => {
                    let page = PeerAnswer::Paged(EncodedPage::of(&page));
                    reply.send_holding(page, Some(reservation));
                }
                Err(why) => reply.send(PeerAnswer::Missed(why)),
            }
        });
    }
}
