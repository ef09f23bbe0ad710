//! Lets a full pass go on from its last checkpoint, after a restart of its driver or of a
//! node that takes part.

use super::driver::{Begun, Drive};
use super::journal::Checkpoint;
use bytes::Bytes;
use cluster::NodeId;
use cluster::sweep::PassKind;
use std::time::Duration;

/// How long a pass that has lost a node takes no checkpoint, so that the node can join
/// again from the last one. Until then the others compare on.
const AWAY_MAX: Duration = Duration::from_secs(120);

/// How often a pass tries to take back nodes that it has lost, at most.
const RETURNS_MAX: u32 = 8;
/// How long after a try the next one is made.
const RETURN_PAUSE: Duration = Duration::from_secs(1);

/// How far a pass has come, and how often it has gone back.
pub(super) struct Resuming {
    /// The last checkpoint; at first, the beginning of the pass.
    pub(super) checkpoint: Checkpoint,
    /// The ranges since then.
    ranges_since: u32,
    /// When that was, on the monotonic clock.
    time: Duration,
    /// How often it was tried to take back lost nodes.
    tries: u32,
    /// When last, on the monotonic clock.
    last_try: Duration,
}

impl Resuming {
    /// A pass that begins `now`, on the monotonic clock.
    pub(super) fn new(begin: Checkpoint, now: Duration) -> Self {
        Self {
            checkpoint: begin,
            ranges_since: 0,
            time: now,
            tries: 0,
            last_try: Duration::ZERO,
        }
    }
}

impl Drive {
    /// Goes on from a checkpoint that was stored before this node was restarted. Gives
    /// the next key; [`None`] if a node that is up did not take part with its present
    /// store: then the pass has to begin anew to include it.
    pub(super) async fn go_on_from(&mut self, stored: Checkpoint) -> Option<Bytes> {
        self.pass = stored.pass;
        self.resuming.checkpoint = stored;
        // What was asked for a range before the restart may still be on its way.
        let random = &self.sweeper.sweeps.environment.random;
        self.range = u32::from(random.next_u64() as u16) << 15;
        let begun = self.ask_to_begin(self.nodes_up(), true).await;
        if begun.len() < 2 || !begun.iter().all(|begun| self.took_part(begun)) {
            return None;
        }
        Some(self.return_to_checkpoint(&begun).await)
    }

    /// Goes on from the checkpoint with these nodes. Gives the next key.
    async fn return_to_checkpoint(&mut self, begun: &[Begun]) -> Bytes {
        self.cut = self.resuming.checkpoint.cut;
        self.progress = self.resuming.checkpoint.progress.clone();
        let absent: Vec<NodeId> = self
            .progress
            .nodes()
            .filter(|node| begun.iter().all(|begun| begun.node != *node))
            .collect();
        for node in absent {
            self.progress.lose(node);
        }
        self.report.resumed += 1;
        self.fence_again(begun).await;
        self.agree(begun).await;
        self.resuming.checkpoint.next.clone()
    }

    /// Takes nodes back that took part up to the checkpoint, were lost, and are up again
    /// with the same stores. Gives the key from which on they lack something.
    pub(super) async fn take_back(&mut self) -> Option<Bytes> {
        let since_try = self.now().saturating_sub(self.resuming.last_try);
        let may_try = self.resuming.tries < RETURNS_MAX && since_try >= RETURN_PAUSE;
        if self.kind == PassKind::Recent || !may_try {
            return None;
        }
        let up = self.nodes_up();
        let back = self.lost_since_checkpoint();
        let back: Vec<NodeId> = back.filter(|node| up.contains(node)).collect();
        if back.is_empty() {
            return None;
        }
        self.resuming.tries += 1;
        self.resuming.last_try = self.now();
        let mut nodes = Vec::new();
        for begun in self.ask_to_begin(back, true).await {
            if self.took_part(&begun) {
                nodes.push(begun.node);
            } else {
                // What that node showed was shown by a store that is no more.
                self.resuming.checkpoint.progress.lose(begun.node);
            }
        }
        if nodes.is_empty() {
            return None;
        }
        nodes.extend(self.progress.nodes());
        let mut begun = self.ask_to_begin(nodes, true).await;
        begun.retain(|begun| self.took_part(begun));
        Some(self.return_to_checkpoint(&begun).await)
    }

    /// Whether a node took part up to the checkpoint with the store that it has now.
    fn took_part(&self, begun: &Begun) -> bool {
        let progress = &self.resuming.checkpoint.progress;
        progress.began_with(begun.node, begun.incarnation)
    }

    pub(super) fn lost_since_checkpoint(&self) -> impl Iterator<Item = NodeId> + '_ {
        let took_part = self.resuming.checkpoint.progress.nodes();
        took_part.filter(|node| !self.progress.taking_part().contains_key(node))
    }

    /// Stores how far a full pass has come, if that is due. All nodes make durable what
    /// it has brought before.
    pub(super) async fn store_checkpoint(&mut self, next: &Bytes) {
        let sizes = self.sweeper.sweeps.environment.sizes;
        self.resuming.ranges_since += 1;
        let since = self.now().saturating_sub(self.resuming.time);
        let is_due = self.resuming.ranges_since >= sizes.checkpoint_ranges
            || since >= sizes.checkpoint_period;
        let is_any_away = self.lost_since_checkpoint().next().is_some();
        if self.kind == PassKind::Recent || !is_due || (is_any_away && since < AWAY_MAX) {
            return;
        }
        let taking_part = self.progress.nodes().count();
        self.sync().await;
        if self.progress.nodes().count() < taking_part {
            // The node can join again from the last checkpoint; from this one it could not.
            return;
        }
        self.resuming.ranges_since = 0;
        self.resuming.time = self.now();
        self.resuming.checkpoint = Checkpoint {
            pass: self.pass,
            cut: self.cut,
            fence: self.fencing.fence().and(self.resuming.checkpoint.fence),
            stored_unix_ms: self.sweeper.sweeps.environment.clock.unix_ms(),
            next: next.clone(),
            progress: self.progress.clone(),
        };
        self.sweeper
            .store_checkpoint(Some(self.resuming.checkpoint.clone()));
    }
}
