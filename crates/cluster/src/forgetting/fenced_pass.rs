//! What the driver of a pass knows about fences, and when F may rise.

use crate::members::NodeId;
use crate::sweep::{Incarnation, Pair, PassId};
use base::Timestamp;
use std::collections::BTreeSet;

/// A pass that may raise F. Its results count for its own id only.
#[derive(Clone, Debug)]
pub struct FencedPass {
    pass: PassId,
    fence: Timestamp,
    /// By node number, what each member was when it was durably fenced.
    fenced: Vec<Option<Incarnation>>,
    has_begun: bool,
    clean: BTreeSet<Pair>,
    is_void: bool,
}

impl FencedPass {
    /// A pass that is to raise F to `fence` in a cluster of `members`.
    #[must_use]
    pub fn new(pass: PassId, fence: Timestamp, members: usize) -> Self {
        Self {
            pass,
            fence,
            fenced: vec![None; members],
            has_begun: false,
            clean: BTreeSet::new(),
            is_void: false,
        }
    }

    /// Notes that a member is durably fenced. Once the pass has begun this is too
    /// late, because something older may have come to ranges that were compared.
    pub fn fenced(&mut self, member: NodeId, incarnation: Incarnation) {
        if let Some(fenced) = self.fenced.get_mut(member.index())
            && !self.has_begun
        {
            *fenced = Some(incarnation);
        }
    }

    /// Begins to compare.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Whether a member that was restarted goes on in this pass. `fence` is the one
    /// that it had before it was asked. A folder that was restored from before the
    /// pass has a lower one, and lacks what the pass has brought.
    #[must_use]
    pub fn may_rejoin(&self, member: NodeId, incarnation: Incarnation, fence: Timestamp) -> bool {
        self.fenced.get(member.index()) == Some(&Some(incarnation)) && fence >= self.fence
    }

    /// Notes that two members were found or made equal in the whole key space, and
    /// that what they took is durable. `incarnations` are those of the lower and the
    /// upper one. One that has changed since its fence voids the pass.
    pub fn found_clean(&mut self, pass: PassId, pair: Pair, incarnations: [Incarnation; 2]) {
        if pass != self.pass || !self.has_begun {
            return;
        }
        for (member, now) in [pair.lower, pair.upper].into_iter().zip(incarnations) {
            let fenced = self.fenced.get(member.index()).copied().flatten();
            self.is_void |= fenced.is_some_and(|fenced| fenced != now);
        }
        self.clean.insert(pair);
    }

    /// What F may rise to: every member was fenced before the pass began, and every
    /// two were clean.
    #[must_use]
    pub fn forgets(&self) -> Option<Timestamp> {
        let members = self.fenced.len();
        let are_all_fenced = self.fenced.iter().all(Option::is_some);
        let are_all_clean = self.clean.len() == members * members.saturating_sub(1) / 2;
        (are_all_fenced && are_all_clean && self.has_begun && !self.is_void).then_some(self.fence)
    }
}
