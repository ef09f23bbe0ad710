//! Leads a pass over all nodes that can be reached.
//!
//! A full pass may take hours, so it must survive restarts. From time to time all nodes make
//! durable what it has brought, and the driver stores a [`Checkpoint`]. If the driver is
//! restarted, or a node that took part comes back, the pass goes on from there: what was
//! found equal before is durable. It counts only for the stores that took part then; a
//! store that has lost something since is another [incarnation](Incarnation).

use super::Sweeper;
use super::fencing::Fencing;
use super::journal::Checkpoint;
use super::resuming::Resuming;
use super::settling::Settled;
use base::Timestamp;
use bytes::Bytes;
use cluster::NodeId;
use cluster::forgetting::StoreStart;
use cluster::sweep::{Incarnation, KeyBounds, PassId, PassKind, PassProgress};
use peer::{SweepAnswer, SweepRequest};
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassReport {
    /// The ranges that were compared.
    pub ranges: u64,
    /// The ranges of pairs that differed.
    pub differing: u64,
    /// The surplus copies that a full pass has found, or a recent one among what it read.
    pub surplus: u64,
    /// How often the pass went on from a checkpoint.
    pub resumed: u32,
    /// The pairs that are clean.
    pub clean_pairs: u64,
    /// The pairs of all nodes of the cluster.
    pub pairs: u64,
    /// Whether a full pass has shown that no node keeps an older version than another;
    /// see [`PassProgress`].
    pub is_conclusive: bool,
    /// Whether a full pass was to raise the forget bound, and could not.
    pub is_held_back: bool,
}

/// A pass that this node drives.
pub(super) struct Drive {
    pub(super) sweeper: Rc<Sweeper>,
    pub(super) pass: PassId,
    pub(super) kind: PassKind,
    pub(super) cut: Timestamp,
    pub(super) progress: PassProgress,
    /// The number of the next range.
    pub(super) range: u32,
    /// Where a full pass goes on after a restart.
    pub(super) resuming: Resuming,
    /// What the pass may do for the forget bound.
    pub(super) fencing: Fencing,
    /// When all nodes were last asked for something, on the monotonic clock.
    pub(super) all_asked: Duration,
    pub(super) report: PassReport,
}

/// What a node has answered that takes part.
pub(super) struct Begun {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    start: u64,
    greatest_seen: Timestamp,
    pub(super) forgotten: Timestamp,
    pub(super) latest_fence: Timestamp,
    reach: u8,
    bounds: Vec<KeyBounds>,
}

impl Begun {
    /// The node, and the store with which it takes part.
    pub(super) fn store(&self) -> (NodeId, Incarnation) {
        (self.node, self.incarnation)
    }
}

impl PassReport {
    /// Whether all nodes took part, and all pairs of them are equal.
    pub(super) fn is_clean(&self) -> bool {
        self.clean_pairs == self.pairs
    }
}

impl Sweeper {
    /// Whether to believe the forget bound that a node names in a pass that this node drives. One
    /// that is not believed takes no part: it would have the others leave out what is dead.
    pub(super) fn believes_of(&self, node: NodeId, named: Timestamp) -> bool {
        let environment = &self.sweeps.environment;
        let name = environment.members.name(node);
        environment.forgetting.believes(name, named)
    }

    /// Leads one pass to the last key: from the first one, or from the checkpoint of a
    /// full pass that was interrupted.
    ///
    /// A recent pass that nobody waits for lets writes arrive that are on their way, so that it
    /// does not send them a second time; if meanwhile `is_full_due`, it ends at once. A full pass
    /// lets writes arrive only while a store has to be filled: see `settling`.
    pub async fn drive(
        self: &Rc<Self>,
        kind: PassKind,
        is_full_due: Option<&dyn Fn() -> bool>,
    ) -> PassReport {
        let pass = PassId(self.sweeps.environment.random.next_u64());
        let mut drive = Drive::new(Rc::clone(self), pass, kind);
        let now_unix_ms = self.sweeps.environment.clock.unix_ms();
        let stored = match kind {
            PassKind::Full => self.sweeps.journal.take_up(now_unix_ms),
            PassKind::Recent => None,
        };
        let resumed = match stored {
            Some(stored) => drive.go_on_from(stored).await,
            None => None,
        };
        let start = match resumed {
            Some(start) => start,
            None => {
                drive = Drive::new(Rc::clone(self), pass, kind);
                if let Some(begun) = drive.begin(is_full_due).await {
                    return drive.give_way(&begun).await;
                }
                Bytes::new()
            }
        };
        drive.walk(start).await;
        drive.end().await
    }
}

impl Drive {
    fn new(sweeper: Rc<Sweeper>, pass: PassId, kind: PassKind) -> Self {
        let now = sweeper.sweeps.environment.clock.monotonic();
        Self {
            pass,
            kind,
            cut: Timestamp::ZERO,
            progress: PassProgress::new([]),
            range: 0,
            resuming: Resuming::new(Checkpoint::at_begin(pass), now),
            fencing: Fencing::default(),
            all_asked: now,
            report: PassReport::default(),
            sweeper,
        }
    }

    /// Begins the pass with all nodes that are up. Gives those that have begun if the pass is not
    /// to go on, as a full one is due.
    async fn begin(&mut self, is_full_due: Option<&dyn Fn() -> bool>) -> Option<Vec<Begun>> {
        let mut begun = self.ask_to_begin(self.nodes_up(), false).await;
        self.cut = self.cut_above(&begun);
        match (self.kind, is_full_due) {
            (PassKind::Recent, Some(is_full_due)) => {
                begun = match self.let_writes_arrive(begun, is_full_due).await {
                    Settled::With(begun) => begun,
                    Settled::Outdone(begun) => return Some(begun),
                };
            }
            (PassKind::Full, _) if !self.sweeper.are_all_voters() => {
                begun = self.outlast_writes(begun).await;
            }
            _ => {}
        }
        self.progress = PassProgress::new(begun.iter().map(Begun::store));
        self.resuming.checkpoint.cut = self.cut;
        self.resuming.checkpoint.progress = self.progress.clone();
        self.fence(&begun).await;
        self.agree(&begun).await;
        None
    }

    /// Ends the pass, which has compared nothing: a full one is due, which compares more.
    async fn give_way(self, begun: &[Begun]) -> PassReport {
        let pass = self.pass;
        let end = |_| SweepRequest::End {
            pass,
            is_conclusive: false,
            single_copies: Vec::new(),
            clean_with: Vec::new(),
        };
        let nodes = begun.iter().map(|begun| begun.node).collect();
        let _answers = self.ask(nodes, end).await;
        PassReport {
            pairs: self.pairs(),
            ..self.report
        }
    }

    /// The pairs of all nodes of the cluster.
    fn pairs(&self) -> u64 {
        let nodes = u64::from(self.sweeper.sweeps.environment.members.count());
        nodes * (nodes - 1) / 2
    }

    /// A cut above all that any of these nodes has acknowledged so far, however far the
    /// clocks are apart.
    pub(super) fn cut_above(&self, begun: &[Begun]) -> Timestamp {
        let clock = &self.sweeper.sweeps.environment.clock;
        let now = Timestamp::from_unix_ms(clock.unix_ms());
        let seen = begun.iter().map(|begun| begun.greatest_seen);
        seen.fold(now, Timestamp::max)
    }

    pub(super) fn nodes_up(&self) -> Vec<NodeId> {
        let members = &self.sweeper.sweeps.environment.members;
        let up = members.ids().filter(|node| self.sweeper.is_up(*node));
        up.collect()
    }

    pub(super) async fn ask_to_begin(
        &mut self,
        nodes: Vec<NodeId>,
        is_resumed: bool,
    ) -> Vec<Begun> {
        let (pass, kind) = (self.pass, self.kind);
        let request = |_| SweepRequest::Begin {
            pass,
            kind,
            is_resumed,
        };
        let answers = self.ask(nodes, request).await;
        let begun = answers.into_iter().filter_map(|(node, answer)| {
            let Some(SweepAnswer::Begun {
                incarnation,
                start,
                greatest_seen,
                forgotten,
                latest_fence,
                reach,
                bounds,
            }) = answer
            else {
                return None;
            };
            if !self.sweeper.believes_of(node, forgotten) {
                return None;
            }
            Some(Begun {
                node,
                incarnation,
                start,
                greatest_seen,
                forgotten,
                latest_fence,
                reach,
                bounds,
            })
        });
        begun.collect()
    }

    /// Tells all what they agree on: the cut, the forget bound, their stores, and what each
    /// pair may pass over.
    pub(super) async fn agree(&mut self, begun: &[Begun]) {
        let (pass, kind, cut) = (self.pass, self.kind, self.cut);
        let members = &self.sweeper.sweeps.environment.members;
        let begun_by = |node: NodeId| begun.iter().find(|begun| begun.node == node);
        let bounds_of = |node: NodeId, with: NodeId| begun_by(node)?.bounds.get(with.index());
        let reach_of = |node: NodeId| begun_by(node).map_or(0, |begun| begun.reach);
        let reaches: Vec<u8> = members.ids().map(reach_of).collect();
        let store_of = |node: NodeId| {
            let store = begun_by(node).map(|begun| StoreStart {
                store_id: begun.incarnation.store_id,
                start: begun.start,
            });
            store.unwrap_or_default()
        };
        let stores: Vec<StoreStart> = members.ids().map(store_of).collect();
        let forgotten = begun.iter().map(|begun| begun.forgotten).max();
        let forgotten = forgotten.unwrap_or(Timestamp::ZERO);
        let steps_max = peer::bound_steps_max(members.names().len());
        let agreed: Vec<Vec<KeyBounds>> = members
            .ids()
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
                members.ids().map(with).collect()
            })
            .collect();
        let answers = self
            .ask_all(|node| SweepRequest::Agree {
                pass,
                cut,
                forgotten,
                reaches: reaches.clone(),
                stores: stores.clone(),
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
    async fn walk(&mut self, mut start: Bytes) {
        loop {
            if let Some(back) = self.take_back().await {
                start = back;
            }
            if self.progress.nodes().count() < 2 || self.range == u32::MAX {
                return;
            }
            let end = self.advance(&start).await;
            self.compare(&start, end.clone()).await;
            self.report.ranges += 1;
            match end {
                Some(end) => {
                    start = end;
                    self.store_checkpoint(&start).await;
                }
                None => match self.take_back().await {
                    Some(back) => start = back,
                    None => return,
                },
            }
        }
    }

    /// Has all nodes scan on; gives where the range ends that all have scanned.
    pub(super) async fn advance(&mut self, start: &Bytes) -> Option<Bytes> {
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

    /// Has everything made durable.
    pub(super) async fn sync(&mut self) {
        let pass = self.pass;
        for (node, answer) in self.ask_all(|_| SweepRequest::Sync { pass }).await {
            match answer {
                Some(SweepAnswer::Synced(incarnation)) => {
                    self.progress.durable_in(node, incarnation);
                }
                _ => self.progress.lose(node),
            }
        }
    }

    /// Has everything made durable, and tells all which pairs are clean.
    async fn end(mut self) -> PassReport {
        self.sync().await;
        let pass = self.pass;
        let members = &self.sweeper.sweeps.environment.members;
        let clean = self.progress.clean();
        let is_full = self.kind == PassKind::Full;
        let is_conclusive = is_full && self.progress.is_conclusive(members.names().len());
        let forgotten = match self.forgets(&clean) {
            Some(forgotten) if self.are_as_fenced().await => Some(forgotten),
            _ => None,
        };
        let pairs = self.pairs();
        let members = &self.sweeper.sweeps.environment.members;
        let is_held_back = forgotten.is_none() && !self.fencing.is_idle;
        if is_full && (is_held_back || (clean.len() as u64) < pairs) {
            self.sweeper.sweeps.record.not_done(pass);
        }
        let single_copies_of = |node: NodeId| {
            let taking_part = self.progress.taking_part().get(&node);
            taking_part.map_or(u64::MAX, |taking_part| taking_part.single_copies)
        };
        let single_copies: Vec<u64> = if is_full {
            members.ids().map(single_copies_of).collect()
        } else {
            Vec::new()
        };
        self.ask_all(|node| SweepRequest::End {
            pass,
            is_conclusive,
            single_copies: single_copies.clone(),
            clean_with: clean
                .iter()
                .filter_map(|pair| pair.other_than(node))
                .collect(),
        })
        .await;
        let is_held_back = self.forget(forgotten, &clean).await;
        // A node that was lost may be back soon, and need not begin anew then.
        if is_full {
            match self.lost_since_checkpoint().next() {
                // One that is lost again waits for the next try.
                Some(_) if self.report.resumed > 0 => {}
                Some(_) => self.sweeper.sweeps.journal.lost_a_node(self.pass),
                None => self.sweeper.store_checkpoint(None),
            }
        }
        PassReport {
            clean_pairs: clean.len() as u64,
            pairs,
            is_conclusive,
            is_held_back,
            ..self.report
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.sweeper.sweeps.environment.clock.monotonic()
    }

    /// Asks all that take part, at the same time.
    pub(super) async fn ask_all(
        &mut self,
        request: impl Fn(NodeId) -> SweepRequest,
    ) -> Vec<(NodeId, Option<SweepAnswer>)> {
        self.all_asked = self.now();
        self.ask(self.progress.nodes().collect(), request).await
    }

    pub(super) async fn ask(
        &self,
        nodes: Vec<NodeId>,
        request: impl Fn(NodeId) -> SweepRequest,
    ) -> Vec<(NodeId, Option<SweepAnswer>)> {
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
