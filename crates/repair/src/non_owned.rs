//! Which copies this node may drop although they are alive: **non-owned** copies, of versions
//! whose number of copies does not reach down the preference list to this node.
//!
//! A read of more replicas than a version has leaves one behind, and so does a write of fewer
//! copies than the one before. Repairs offer such a copy to the replicas of its version. A full
//! session that raises the GC threshold has offered all that are below, so compaction may drop
//! them there: each replica holds that version or a newer one, and so does every other node
//! that holds one at all ([`cluster::repair`]).
//!
//! That holds for the lists of members by which the session has placed the keys, and only a session
//! in which this store took part shows it: see [`store`](crate::store). A session during a change of
//! the members places keys by the old and by the new list, so what it shows holds for the whole
//! change, and for the list that the change ends with. What was shown before a change says nothing
//! of replicas that the new list adds.
//!
//! The contract asks for no more copies than a version names. Still, as long as a store is
//! known to lack something, a non-owned copy may be the last one of what it has lost, and stays.
//! A store with a damaged block does not count as one that lacks something. That brings nothing
//! deleted back, because a copy only goes where nothing older is left beneath it. It may cost a
//! version of which every replica has lost its block within one interval of full repairs, and for
//! that no store could answer anyway.

use base::Timestamp;
use lsm::NonOwned;
use membership::Layouts;
use replica::SharedBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};

/// The non-owned copies that a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonOwnedStatus {
    /// How many its tables hold.
    pub copies: u64,
    /// Those of versions below it may be dropped; [`Timestamp::ZERO`] while none may.
    pub below: Timestamp,
}

/// What compaction asks about non-owned copies.
pub struct NonOwnedRule {
    /// The layout in force.
    pub layouts: Layouts,
    /// The bound below which non-owned copies may go.
    pub bounds: Arc<SharedBounds>,
    /// Whether the data folder is one of a cluster of these nodes, this store is a voter, and
    /// no other one is known to lack something.
    pub are_all_whole: Arc<AtomicBool>,
}

impl NonOwnedRule {
    /// What the engine is told.
    pub fn for_engine(self) -> NonOwned {
        let Self {
            layouts,
            bounds,
            are_all_whole,
        } = self;
        NonOwned {
            is_non_owned: Arc::new(move |key, copies| {
                let layout = layouts.peek();
                !layout.is_replica(layout.members().own(), key, copies)
            }),
            gc_threshold: Arc::new(move || {
                if are_all_whole.load(Acquire) {
                    bounds.non_owned_below()
                } else {
                    Timestamp::ZERO
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::repair::{ShownBelow, StoreRecord, StoreState};
    use cluster::{Epoch, Layout, NodeId};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn non_owned_is_what_other_nodes_keep_and_goes_only_while_all_are_whole() {
        let layout = Layout::named(&["a", "b", "c"], NodeId::new(0)).unwrap();
        let are_all_whole = Arc::<AtomicBool>::default();
        let own = layout.members().own();
        let last = |key: &[u8]| layout.preference_list(key, 3)[2];
        let key = (0..u8::MAX).map(|key| [key]).find(|key| last(key) == own);
        let key = key.unwrap();
        let (below, epoch) = (Timestamp::from_u64(7), Epoch::new(4));
        let record = StoreRecord {
            non_owned: ShownBelow { below, epoch },
            ..StoreRecord::default()
        };
        let state = StoreState::opened(record);
        // A change that began since has given keys to other nodes.
        let before_change = SharedBounds::of(state, Epoch::new(5));
        assert_eq!(before_change.non_owned_below(), Timestamp::ZERO);
        // What is shown in a change holds to its end, and until the next one.
        let shared = SharedBounds::of(state, Epoch::new(3));
        let rule = NonOwnedRule {
            layouts: Layouts::new(layout),
            bounds: Arc::new(shared),
            are_all_whole: Arc::clone(&are_all_whole),
        };
        let non_owned = rule.for_engine();
        let is_non_owned = |copies| (non_owned.is_non_owned)(&key, copies);
        assert!(is_non_owned(1) && is_non_owned(2) && !is_non_owned(3));
        assert_eq!((non_owned.gc_threshold)(), Timestamp::ZERO);
        are_all_whole.store(true, Relaxed);
        assert_eq!((non_owned.gc_threshold)(), Timestamp::from_u64(7));
    }
}
