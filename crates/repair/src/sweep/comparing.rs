//! Has the nodes of a pass compare a range, and exchange what differs.

use super::PASS_IDLE_MAX;
use super::driver::Drive;
use bytes::Bytes;
use cluster::NodeId;
use cluster::sweep::{Digest, NodeDigests, Pair, differing};
use peer::{SweepAnswer, SweepRequest};

/// How often the nodes compare a range at most: see [`Drive::settle`]. Each time settles
/// what the one before has moved, and a version moves no further than from a holder to its
/// replicas and from those to all that have an older one.
const ROUNDS_MAX: u32 = 4;

/// What the nodes have exchanged in a range.
struct Exchanged {
    /// Whether it was nothing.
    is_settled: bool,
    /// Whether some of it was below the fence of a node.
    is_below_fence: bool,
}

impl Exchanged {
    fn and(&self, other: &Self) -> Self {
        Self {
            is_settled: self.is_settled && other.is_settled,
            is_below_fence: self.is_below_fence || other.is_below_fence,
        }
    }
}

impl Drive {
    /// Compares a range, and has the nodes exchange what differs.
    pub(super) async fn compare(&mut self, start: &Bytes, end: Option<Bytes>) {
        let (pass, range) = (self.pass, self.range);
        self.range += 1;
        let answers = self
            .ask_all(|_| SweepRequest::Digest {
                pass,
                range,
                end: end.clone(),
            })
            .await;
        let (mut all, mut announcing, mut surplus_copies) = (Vec::new(), Vec::new(), 0);
        for (node, answer) in answers {
            match answer {
                Some(SweepAnswer::Digests {
                    surplus,
                    announces,
                    single_copies,
                    digests,
                }) => {
                    surplus_copies += u64::from(surplus);
                    if announces > 0 {
                        announcing.push(node);
                    }
                    self.progress
                        .count_single_copies(node, single_copies.into());
                    let with = digests;
                    all.push(NodeDigests { node, with });
                }
                _ => self.progress.lose(node),
            }
        }
        self.report.surplus += surplus_copies;
        let announced = self.announce(range, announcing).await;
        let reconciled = self.reconcile(range, start, differing(&all), &all).await;
        let exchanged = announced.and(&reconciled);
        let exchanged = self.settle(range, start, &all, exchanged).await;
        if !exchanged.is_settled {
            self.progress.leave_unsettled();
        }
    }

    /// Has all nodes compare a range again if something below the fence was moved in it, until
    /// nothing is. A version that a node gets is not compared with what the nodes hold that it
    /// was compared with before. So a tombstone of fewer copies, which does not name this node
    /// as a replica, may hide it elsewhere, and F would let that tombstone go. A surplus copy is
    /// offered only to the replicas of its own version, and one of them may get a tombstone
    /// later. What is above the fence may be moved: its tombstones stay.
    ///
    /// If that has no end, or a store is being filled, so that most of it is moved, the next
    /// pass shows that all is settled. Gives what was exchanged at last.
    async fn settle(
        &mut self,
        range: u32,
        start: &Bytes,
        digests: &[NodeDigests],
        mut exchanged: Exchanged,
    ) -> Exchanged {
        let mut rounds = 1;
        while exchanged.is_below_fence && self.fencing.fence().is_some() {
            if rounds == ROUNDS_MAX || !self.fencing.do_all_lack_nothing {
                self.fencing.moved_late();
                break;
            }
            rounds += 1;
            let pairs = self.progress.clean();
            let reconciled = self.reconcile(range, start, pairs, digests).await;
            // The surplus copies may be other ones by now.
            let announced = self.announce(range, self.progress.nodes().collect()).await;
            exchanged = reconciled.and(&announced);
        }
        exchanged
    }

    /// Has versions offered to nodes that do not compare them. A holder and a node that
    /// may still lack one of them are not equal.
    async fn announce(&mut self, range: u32, nodes: Vec<NodeId>) -> Exchanged {
        let pass = self.pass;
        let request = |_| SweepRequest::Announce { pass, range };
        let mut exchanged = Exchanged {
            is_settled: true,
            is_below_fence: false,
        };
        for (node, answer) in self.ask(nodes, request).await {
            let not_told = match answer {
                Some(SweepAnswer::Announced {
                    sent,
                    unsettled,
                    below_fence,
                    not_told,
                }) => {
                    exchanged.is_settled &= sent == 0 && unsettled == 0 && not_told.is_empty();
                    exchanged.is_below_fence |= below_fence > 0;
                    not_told
                }
                _ => {
                    exchanged.is_settled = false;
                    self.progress.nodes().collect()
                }
            };
            for other in not_told.into_iter().filter(|other| *other != node) {
                self.progress.spoil(Pair::of(node, other));
            }
        }
        exchanged
    }

    /// Has pairs made equal, which kept these `digests` at first.
    async fn reconcile(
        &mut self,
        range: u32,
        start: &Bytes,
        mut pairs: Vec<Pair>,
        digests: &[NodeDigests],
    ) -> Exchanged {
        let pass = self.pass;
        let digest_of = |node: NodeId, with: NodeId| {
            let digests = digests.iter().find(|digests| digests.node == node);
            let digest = digests.and_then(|digests| digests.with.get(with.index()));
            digest.copied().unwrap_or_else(Digest::default)
        };
        let mut exchanged = Exchanged {
            is_settled: true,
            is_below_fence: false,
        };
        // A node that lacks most of the range pulls it from the first peer. So the peers
        // take turns.
        let first = range as usize % pairs.len().max(1);
        pairs.rotate_left(first);
        for pair in pairs {
            self.report.differing += 1;
            let is_lower_fuller =
                digest_of(pair.lower, pair.upper).items > digest_of(pair.upper, pair.lower).items;
            let (emptier, fuller) = if is_lower_fuller {
                (pair.upper, pair.lower)
            } else {
                (pair.lower, pair.upper)
            };
            let request = SweepRequest::Reconcile {
                pass,
                range,
                with: fuller,
            };
            let answer = self.sweeper.ask(emptier, request).await;
            match answer {
                Ok(SweepAnswer::Reconciled {
                    is_equal: true,
                    sent,
                    received,
                    below_fence,
                }) => {
                    exchanged.is_settled &= sent == 0 && received == 0;
                    exchanged.is_below_fence |= below_fence > 0;
                }
                _ => self.progress.spoil(pair),
            }
            if self.now().saturating_sub(self.all_asked) > PASS_IDLE_MAX / 4 {
                // Lest those that have nothing to exchange forget the pass. They scan on.
                self.advance(start).await;
            }
        }
        exchanged
    }
}
