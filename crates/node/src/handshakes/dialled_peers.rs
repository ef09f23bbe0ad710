//! Tells all runtimes of a node which peers have dialled it.
//!
//! A restarted peer dials this node first of all, and one runtime serves each of its connections.
//! The other runtimes must hear of it, too: their links to the peer are down, and would notice only
//! after a while.

use cluster::{NODES_MAX, NodeId};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// The peers that have dialled, for each runtime that has yet to take note.
pub(crate) struct DialledPeers {
    runtimes: Box<[RuntimeNews]>,
}

/// What one runtime has yet to take note of.
struct RuntimeNews {
    /// By node: whether it has dialled.
    dialled: Box<[AtomicBool]>,
    changed: Notify,
}

impl DialledPeers {
    /// For a node with so many runtimes.
    pub(crate) fn new(runtimes: usize) -> Self {
        let news = |_| RuntimeNews {
            dialled: (0..NODES_MAX).map(|_| AtomicBool::new(false)).collect(),
            changed: Notify::new(),
        };
        Self {
            runtimes: (0..runtimes).map(news).collect(),
        }
    }

    /// Notes that a peer has dialled this node and is served.
    pub(crate) fn announce(&self, peer: NodeId) {
        for news in &self.runtimes {
            if let Some(dialled) = news.dialled.get(peer.index()) {
                dialled.store(true, Ordering::Release);
                news.changed.notify_one();
            }
        }
    }

    /// Passes each peer that dials from now on to `take_note`, on the runtime with this
    /// number.
    pub(crate) async fn follow(&self, runtime: usize, take_note: impl Fn(NodeId)) {
        let Some(news) = self.runtimes.get(runtime) else {
            return;
        };
        loop {
            news.changed.notified().await;
            for (id, dialled) in (0..=u8::MAX).zip(&news.dialled) {
                if dialled.swap(false, Ordering::AcqRel) {
                    take_note(NodeId::new(id));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    /// What these runtimes have taken note of since the last time.
    async fn heard(following: &mut [&mut (dyn Future<Output = ()> + Unpin)]) {
        poll_fn(|cx| {
            for follow in &mut *following {
                assert!(pin!(follow).poll(cx).is_pending());
            }
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn every_runtime_hears_once_of_each_peer_that_has_dialled() {
        let peers = DialledPeers::new(2);
        let notes = RefCell::new(Vec::new());
        let note = |runtime| {
            let notes = &notes;
            move |peer: NodeId| notes.borrow_mut().push((runtime, peer.index()))
        };
        let mut first = pin!(peers.follow(0, note(0)));
        let mut second = pin!(peers.follow(1, note(1)));
        // Also what was announced before a runtime began to follow.
        peers.announce(NodeId::new(2));
        heard(&mut [&mut first, &mut second]).await;
        assert_eq!(notes.take(), [(0, 2), (1, 2)]);
        heard(&mut [&mut first, &mut second]).await;
        assert_eq!(notes.take(), []);
        peers.announce(NodeId::new(1));
        peers.announce(NodeId::new(1));
        peers.announce(NodeId::new(0));
        heard(&mut [&mut first, &mut second]).await;
        assert_eq!(notes.take(), [(0, 0), (0, 1), (1, 0), (1, 1)]);
        // No node can have this ID.
        peers.announce(NodeId::new(255));
        heard(&mut [&mut first, &mut second]).await;
        assert_eq!(notes.take(), []);
    }
}
