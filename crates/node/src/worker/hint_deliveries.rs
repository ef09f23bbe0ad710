//! The deliveries of hints, one for each node of the layout in force.

use cluster::{Members, NodeId, NodeTable};
use replica::hints::{HintDelivery, HintReceiver};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// The deliveries under way, by node. They end with this.
pub(super) struct HintDeliveries {
    running: NodeTable<AbortHandle>,
    /// Of all of them, one reads at a time.
    reading: Arc<Semaphore>,
}

impl Default for HintDeliveries {
    fn default() -> Self {
        Self {
            running: NodeTable::default(),
            reading: Arc::new(Semaphore::new(1)),
        }
    }
}

impl HintDeliveries {
    /// Begins the deliveries to nodes that have joined, and ends those to nodes that have left.
    pub(super) fn follow<R: HintReceiver>(
        &mut self,
        members: &Members,
        delivery_to: impl Fn(NodeId, Arc<Semaphore>) -> HintDelivery<R>,
    ) {
        self.running.retain(|node, delivery| {
            let stays = members.contains(node);
            if !stays {
                delivery.abort();
            }
            stays
        });
        for node in members.ids() {
            self.running.get_or_insert_with(node, || {
                let delivery = delivery_to(node, Arc::clone(&self.reading));
                tokio::task::spawn_local(delivery.run()).abort_handle()
            });
        }
    }
}

impl Drop for HintDeliveries {
    fn drop(&mut self) {
        for delivery in self.running.values() {
            delivery.abort();
        }
    }
}
