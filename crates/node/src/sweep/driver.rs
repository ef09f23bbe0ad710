//! Leads a pass over all nodes that can be reached.

use super::Sweeper;
use base::Timestamp;
use bytes::Bytes;
use cluster::NodeNumber;
use cluster::sweep::{
    Digest, KeyBounds, NodeDigests, Pair, PassId, PassKind, PassProgress, differing,
};
use peer::{SweepAnswer, SweepRequest};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a pass waits at most until the writes from before its cut have arrived. Those
/// that have not make work, no harm.
const SETTLING_MAX: Duration = Duration::from_secs(30);

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// The ranges that were compared.
    pub ranges: u64,
    /// The ranges of pairs that differed.
    pub differing: u64,
    /// The pairs that are clean.
    pub clean_pairs: u64,
    /// The pairs of all nodes of the cluster.
    pub pairs: u64,
}

/// A pass that this node drives.
struct Drive {
    sweeper: Rc<Sweeper>,
    pass: PassId,
    kind: PassKind,
    progress: PassProgress,
    report: PassReport,
}

impl Sweeper {
    /// Leads one pass from the first key to the last.
    pub(crate) async fn drive(self: &Rc<Self>, kind: PassKind) -> PassReport {
        let mut drive = Drive {
            sweeper: Rc::clone(self),
            pass: PassId(self.sweeps.environment.random.next_u64()),
            kind,
            progress: PassProgress::new(Vec::new()),
            report: PassReport::default(),
        };
        drive.begin().await;
        drive.walk().await;
        drive.end().await
    }
}

impl Drive {
    /// Finds out which nodes take part, and what each pair may pass over.
    async fn begin(&mut self) {
        let peers = &self.sweeper.peers;
        let members = &self.sweeper.sweeps.environment.members;
        let is_up = |node: &NodeNumber| peers.is_own(*node) || !peers.is_down(*node);
        let nodes: Vec<NodeNumber> = members.numbers().filter(is_up).collect();
        let (pass, kind) = (self.pass, self.kind);
        let answers = self
            .ask(nodes, |_| SweepRequest::Begin { pass, kind })
            .await;
        // The cut is above all that any of them has acknowledged so far, however
        // far the clocks are apart.
        let mut cut = Timestamp::from_unix_ms(self.sweeper.sweeps.environment.clock.unix_ms());
        let mut taking_part = Vec::new();
        for (node, answer) in answers {
            if let Some(SweepAnswer::Begun {
                greatest_seen,
                bounds,
            }) = answer
            {
                cut = cut.max(greatest_seen);
                taking_part.push((node, bounds));
            }
        }
        // By then a write from before the cut has arrived, or it is a hint. One
        // that is still on its way makes work, no harm.
        let settling = 2 * self.sweeper.sweeps.environment.timeout;
        tokio::time::sleep(settling.min(SETTLING_MAX)).await;
        self.progress = PassProgress::new(taking_part.iter().map(|(node, _)| *node).collect());
        let bounds_of = |node: NodeNumber, with: NodeNumber| {
            let (_, bounds) = taking_part.iter().find(|(number, _)| *number == node)?;
            bounds.get(with.index())
        };
        let steps_max = peer::bound_steps_max(members.names().len());
        let agreed: Vec<Vec<KeyBounds>> = members
            .numbers()
            .map(|node| {
                let with = |other| match (bounds_of(node, other), bounds_of(other, node)) {
                    (Some(own), Some(theirs)) if other != node => match kind {
                        // The same on both, whatever fits a message.
                        PassKind::Recent => own.min(theirs).with_steps_at_most(steps_max),
                        PassKind::Full => KeyBounds::everything(),
                    },
                    // Nothing is compared with a node that does not take part.
                    _ => KeyBounds::constant(Timestamp::MAX),
                };
                members.numbers().map(with).collect()
            })
            .collect();
        let answers = self
            .ask_all(|node| SweepRequest::Agree {
                pass,
                cut,
                bounds: agreed.get(node.index()).cloned().unwrap_or_default(),
            })
            .await;
        for (node, answer) in answers {
            if answer != Some(SweepAnswer::Done) {
                self.progress.lose(node);
            }
        }
    }

    /// Compares range after range.
    async fn walk(&mut self) {
        let mut start = Bytes::new();
        for range in 0..=u32::MAX {
            if self.progress.nodes().count() < 2 {
                return;
            }
            let end = self.advance(&start).await;
            self.compare(range, end.clone()).await;
            self.report.ranges += 1;
            match end {
                Some(end) => start = end,
                None => return,
            }
        }
    }

    /// Has all nodes scan on; gives where the range ends that all have scanned.
    async fn advance(&mut self, start: &Bytes) -> Option<Bytes> {
        let pass = self.pass;
        let answers = self
            .ask_all(|_| SweepRequest::Advance {
                pass,
                start: start.clone(),
            })
            .await;
        let mut least: Option<Bytes> = None;
        for (node, answer) in answers {
            match answer {
                Some(SweepAnswer::Advanced(None)) => {}
                Some(SweepAnswer::Advanced(Some(reached))) if reached > *start => {
                    least = Some(least.map_or(reached.clone(), |least| least.min(reached)));
                }
                _ => self.progress.lose(node),
            }
        }
        least
    }

    /// Compares a range, and has the nodes exchange what differs.
    async fn compare(&mut self, range: u32, end: Option<Bytes>) {
        let pass = self.pass;
        let answers = self
            .ask_all(|_| SweepRequest::Digest {
                pass,
                range,
                end: end.clone(),
            })
            .await;
        let mut all = Vec::new();
        let mut with_surplus = Vec::new();
        for (node, answer) in answers {
            match answer {
                Some(SweepAnswer::Digests { surplus, digests }) => {
                    if surplus > 0 {
                        with_surplus.push(node);
                    }
                    let with = digests;
                    all.push(NodeDigests { node, with });
                }
                _ => self.progress.lose(node),
            }
        }
        self.announce(range, with_surplus).await;
        self.reconcile(range, &all).await;
    }

    /// Has surplus copies sent to the replicas of their keys. While one of those
    /// may lack them, the holder is equal with nobody: a copy that no pair
    /// compares would survive the tombstone that hides it.
    async fn announce(&mut self, range: u32, nodes: Vec<NodeNumber>) {
        let pass = self.pass;
        let request = |_| SweepRequest::Announce { pass, range };
        for (node, answer) in self.ask(nodes, request).await {
            if !matches!(answer, Some(SweepAnswer::Sent { all: true, .. })) {
                let others: Vec<NodeNumber> = self.progress.nodes().collect();
                for other in others.into_iter().filter(|other| *other != node) {
                    self.progress.spoil(Pair::of(node, other));
                }
            }
        }
    }

    async fn reconcile(&mut self, range: u32, digests: &[NodeDigests]) {
        let pass = self.pass;
        let digest_of = |node: NodeNumber, with: NodeNumber| {
            let digests = digests.iter().find(|digests| digests.node == node);
            let digest = digests.and_then(|digests| digests.with.get(with.index()));
            digest.copied().unwrap_or_else(Digest::default)
        };
        let mut pairs = differing(digests);
        // A node that lacks most of the range pulls it from the first peer. So the peers
        // take turns.
        let first = range as usize % pairs.len().max(1);
        pairs.rotate_left(first);
        for pair in pairs {
            self.report.differing += 1;
            let is_lower_fuller =
                digest_of(pair.lower, pair.upper).items > digest_of(pair.upper, pair.lower).items;
            let (emptier, fuller) = match is_lower_fuller {
                true => (pair.upper, pair.lower),
                false => (pair.lower, pair.upper),
            };
            let request = SweepRequest::Reconcile {
                pass,
                range,
                with: fuller,
                theirs: digest_of(fuller, emptier),
            };
            let answer = self.sweeper.ask(emptier, request).await;
            if !matches!(answer, Ok(SweepAnswer::Reconciled { is_equal: true, .. })) {
                self.progress.spoil(pair);
            }
        }
    }

    /// Has everything made durable, and tells all which pairs are clean.
    async fn end(mut self) -> PassReport {
        let pass = self.pass;
        for (node, answer) in self.ask_all(|_| SweepRequest::Sync { pass }).await {
            if answer != Some(SweepAnswer::Done) {
                self.progress.lose(node);
            }
        }
        let clean = self.progress.clean();
        self.ask_all(|node| SweepRequest::End {
            pass,
            clean_with: clean
                .iter()
                .filter_map(|pair| pair.other_than(node))
                .collect(),
        })
        .await;
        let nodes = u64::from(self.sweeper.sweeps.environment.members.count());
        PassReport {
            clean_pairs: clean.len() as u64,
            pairs: nodes * (nodes - 1) / 2,
            ..self.report
        }
    }

    /// Asks all that take part, at the same time.
    async fn ask_all(
        &self,
        request: impl Fn(NodeNumber) -> SweepRequest,
    ) -> Vec<(NodeNumber, Option<SweepAnswer>)> {
        self.ask(self.progress.nodes().collect(), request).await
    }

    async fn ask(
        &self,
        nodes: Vec<NodeNumber>,
        request: impl Fn(NodeNumber) -> SweepRequest,
    ) -> Vec<(NodeNumber, Option<SweepAnswer>)> {
        let mut asked = JoinSet::new();
        for node in nodes {
            let (sweeper, request) = (Rc::clone(&self.sweeper), request(node));
            asked.spawn_local(async move { (node, sweeper.ask(node, request).await.ok()) });
        }
        let mut answers = Vec::new();
        while let Some(joined) = asked.join_next().await {
            answers.extend(joined);
        }
        answers.sort_unstable_by_key(|(node, _)| *node);
        answers
    }
}
