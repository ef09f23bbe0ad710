//! How soon after a full session the next one begins, if a store still has to be rebuilt, if a change
//! of the members waits for facts, or if the session has not found all nodes equal or not raised the
//! GC threshold.

use base::Backoff;
use cluster::NodeId;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long after a full session the next one begins while a store has to be rebuilt, or a fact is
/// missing. The time doubles with each further session for the same stores or facts: a node or a disk
/// may be missing, however often the others compare. Another store that is lost does not wait for
/// that, nor a fact that has become possible.
const REBUILD_PERIOD: Duration = Duration::from_secs(5);
/// The longest such time.
const REBUILD_PERIOD_MAX: Duration = Duration::from_secs(600);

/// How long after a full session that did not find all nodes equal, as one of them was away,
/// or that could not raise the GC threshold, the next one begins once all are up. The time
/// doubles with each such session, up to the interval of full ones, and begins anew with each
/// node that returns.
const RETRY_PERIOD: Duration = Duration::from_secs(3600);

/// The store of a node, by its id. A store that replaces a lost one has another id.
pub(super) type StoreOfNode = (NodeId, Option<u64>);

/// How long after a full session the next one begins that is to bring something: to rebuild stores,
/// or to show facts.
pub(super) struct Lacking<T> {
    backoff: Backoff,
    /// That for which a session has begun, and which was still lacking when this node last looked.
    tried: BTreeSet<T>,
}

/// How long after a full session that is not done the next one begins.
pub(super) struct Retry {
    /// The first wait is that after a session that is done, too.
    backoff: Backoff,
    were_all_up: bool,
}

impl<T: Ord> Lacking<T> {
    pub(super) fn new() -> Self {
        Self {
            backoff: Backoff::new(REBUILD_PERIOD, REBUILD_PERIOD_MAX),
            tried: BTreeSet::new(),
        }
    }

    /// This is lacking now, and nothing else, so a session for another one has succeeded.
    pub(super) fn looked(&mut self, lacking: &BTreeSet<T>) {
        self.tried.retain(|tried| lacking.contains(tried));
    }

    /// How long after a full session the next one begins, if this is lacking.
    pub(super) fn period_for(&self, lacking: &BTreeSet<T>) -> Duration {
        if lacking.is_subset(&self.tried) {
            self.backoff.wait()
        } else {
            REBUILD_PERIOD
        }
    }

    /// A full session begins for this. It counts as a failure only once another one has to begin for
    /// the same: that a store is rebuilt, or a fact shown, is heard of after the session.
    pub(super) fn began(&mut self, lacking: BTreeSet<T>) {
        if lacking.is_empty() || !lacking.is_subset(&self.tried) {
            self.backoff.reset();
        }
        self.backoff.fail();
        self.tried = lacking;
    }
}

impl Retry {
    pub(super) fn new() -> Self {
        let mut backoff = Backoff::new(RETRY_PERIOD, Duration::MAX);
        backoff.fail();
        Self {
            backoff,
            were_all_up: false,
        }
    }

    /// A node has returned, if all are up now and were not before: it may have been what the
    /// sessions lacked.
    pub(super) fn looked(&mut self, are_all_up: bool) {
        if are_all_up && !self.were_all_up {
            self.backoff.count_at_most(1);
        }
        self.were_all_up = are_all_up;
    }

    /// How long after a full session that is not done the next one begins.
    pub(super) fn period(&self) -> Duration {
        self.backoff.wait()
    }

    /// A full session has ended.
    pub(super) fn ended(&mut self, is_done: bool) {
        if is_done {
            self.backoff.count_at_most(1);
        } else {
            self.backoff.fail();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores<const N: usize>(stores: [(u8, u64); N]) -> BTreeSet<StoreOfNode> {
        let of = |(node, store)| (NodeId::new(node), Some(store));
        stores.map(of).into()
    }

    #[test]
    fn sessions_that_have_rebuilt_a_store_make_the_next_store_wait_no_longer() {
        let mut rebuilding = Lacking::new();
        for store in 0..10 {
            // Now one disk is lost, now another, and the node may not look in between.
            let lost = stores([((store % 2) as u8, store)]);
            rebuilding.looked(&lost);
            assert_eq!(rebuilding.period_for(&lost), REBUILD_PERIOD);
            rebuilding.began(lost.clone());
            // That it is rebuilt has not been heard of yet.
            rebuilding.looked(&lost);
            assert_eq!(rebuilding.period_for(&lost), REBUILD_PERIOD);
        }
        // One that is rebuilt, and lost again.
        let lost = stores([(1, 9)]);
        rebuilding.looked(&BTreeSet::new());
        rebuilding.began(lost.clone());
        assert_eq!(rebuilding.period_for(&lost), REBUILD_PERIOD);
    }

    #[test]
    fn a_store_that_sessions_do_not_rebuild_is_tried_less_and_less_often() {
        let mut rebuilding = Lacking::new();
        let lost = stores([(1, 7)]);
        for doublings in 0..20 {
            rebuilding.began(lost.clone());
            rebuilding.looked(&lost);
            let period = REBUILD_PERIOD.saturating_mul(1 << doublings);
            assert_eq!(rebuilding.period_for(&lost), period.min(REBUILD_PERIOD_MAX));
        }
        // Another one does not wait so long for its first session.
        let both = stores([(1, 7), (2, 8)]);
        assert_eq!(rebuilding.period_for(&both), REBUILD_PERIOD);
        rebuilding.began(both.clone());
        rebuilding.began(both.clone());
        assert_eq!(rebuilding.period_for(&both), 2 * REBUILD_PERIOD);
        rebuilding.looked(&lost);
        assert_eq!(rebuilding.period_for(&lost), 2 * REBUILD_PERIOD);
    }

    #[test]
    fn a_full_session_is_tried_again_soon_once_a_node_has_returned() {
        let mut retry = Retry::new();
        retry.looked(true);
        retry.ended(false);
        assert_eq!(retry.backoff.wait(), 2 * RETRY_PERIOD);
        retry.looked(true);
        retry.looked(false);
        for _ in 0..100 {
            retry.ended(false);
        }
        retry.looked(false);
        assert!(retry.backoff.wait() > 100 * RETRY_PERIOD);
        retry.looked(true);
        assert_eq!(retry.backoff.wait(), RETRY_PERIOD);
        retry.ended(false);
        retry.ended(true);
        assert_eq!(retry.backoff.wait(), RETRY_PERIOD);
    }
}
