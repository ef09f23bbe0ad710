//! Lets a full pass raise the forget bound: all members are fenced before the first scan,
//! and F rises if all of them come out equal.
//!
//! Each member raises its fence as far as its own clock allows, and the pass takes the
//! lowest of these fences. So clocks that differ a little do not hold F back, and a driver
//! whose clock is years ahead fences nobody later than the grace allows.

use super::Sweeper;
use super::driver::{Begun, Drive};
use super::participant::Participant;
use crate::forgetting::{Heard, HeldBack};
use base::Timestamp;
use cluster::NodeId;
use cluster::forgetting::{FencedPass, Vouching};
use cluster::sweep::{Incarnation, Pair, PassId, PassKind};
use peer::{FencedStore, SweepAnswer, SweepRequest};

/// What a pass may do for F.
#[derive(Default)]
pub(super) struct Fencing {
    /// Once all members are fenced: the pass, and what they are fenced at.
    fenced: Option<(FencedPass, Timestamp)>,
    /// Why they are not.
    held_back: Option<HeldBack>,
    /// Whether there is nothing to raise F to.
    pub(super) is_idle: bool,
    /// Whether no store lacks anything, so that the pass fills none.
    pub(super) do_all_lack_nothing: bool,
}

impl Fencing {
    /// What all members are fenced at, if the pass may still raise F to it.
    pub(super) fn fence(&self) -> Option<Timestamp> {
        self.fenced.as_ref().map(|(_, fence)| *fence)
    }

    /// Something below the fence was moved in a range, and the nodes have not compared
    /// afterwards: see [`Drive::settle`].
    pub(super) fn moved_late(&mut self) {
        if self.fenced.take().is_some() {
            self.held_back = Some(HeldBack::Moved);
        }
    }
}

/// A member that was asked to raise its fence, and its answer.
type Fenced = (NodeId, FencedStore);

impl Participant {
    /// Whether this node takes part in a pass with the store with which it began, in which no
    /// damage was found since, and to which nothing old has come behind the scan.
    pub(super) fn is_as_begun(&mut self, pass: PassId, incarnation: Incarnation) -> bool {
        let (damage, unexpected) = (
            self.environment.engine.damage_mark(),
            self.environment.mended.unexpected(pass),
        );
        self.state(pass).is_some_and(|state| {
            let is_undisturbed = state.unexpected_then == unexpected;
            state.incarnation == incarnation && state.damage_then == damage && is_undisturbed
        })
    }

    /// Whether this node has not been restarted since the pass began, so that it knows what has
    /// come behind the scan.
    pub(super) fn is_from_begin(&mut self, pass: PassId) -> bool {
        let state = self.state(pass);
        state.is_some_and(|state| state.sequence.is_some())
    }

    /// Whether the pass has come to the end of this store.
    pub(super) fn has_scanned_all(&mut self, pass: PassId) -> bool {
        self.state(pass).is_some_and(|state| state.is_at_end())
    }

    /// The store has just been fenced for a pass that is about to scan, or to go on with that. What
    /// other passes or repairs have brought must not come in behind the scan, if it is in no
    /// table or memtable yet. Returns whether that is certain.
    pub(super) fn raise_barrier(&mut self, pass: PassId) -> bool {
        let Some(state) = self.state(pass) else {
            return false;
        };
        match state.filling.raise_barrier() {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "the store takes no barrier");
                false
            }
        }
    }

    /// Gives a pass up if the forget bound has risen since all agreed on it. What the pass
    /// has pulled may have been deleted meanwhile, by another pass whose tombstones are gone.
    pub(super) fn give_up_if_outrun(&mut self, pass: PassId) {
        let greatest = self.environment.bounds.greatest();
        if self
            .passes
            .get(&pass)
            .is_some_and(|state| state.forgotten < greatest)
        {
            self.give_up(pass);
        }
    }
}

impl Sweeper {
    /// Raises the fence of this node, which takes part in the pass.
    pub(super) async fn answer_fence(&self, pass: PassId, fence: Timestamp) -> SweepAnswer {
        let environment = &self.sweeps.environment;
        let forgetting = &environment.forgetting;
        if fence > forgetting.bounds().fence {
            // A store that was lost since may have sent mends of another pass, which this one
            // does not meet in its successor.
            let give_up_others = move |own: &mut Participant| own.give_up_all_but(pass);
            self.in_background(give_up_others).await;
        }
        let Ok(raised) = forgetting.raise(fence).await else {
            return SweepAnswer::Unknown;
        };
        let has_scanned_all = self.in_background(move |own| own.has_scanned_all(pass));
        let is_last = fence > Timestamp::ZERO && has_scanned_all.await == Some(true);
        // Before it looks whether anything has come in behind the scan.
        if is_last && forgetting.seal(fence).await.is_err() {
            return SweepAnswer::Unknown;
        }
        // A mend of another pass, or a repair, may still wait, for a turn of its runtime or for as
        // long as the store holds its writers back. It came before this pass began, or this one
        // would be told of it, and the scan does not see it. Its sender may have a tombstone of
        // fewer copies by now. So it is refused; if it comes again this pass is told of it.
        let is_first = fence > Timestamp::ZERO && !is_last;
        let raise_barrier = move |own: &mut Participant| own.raise_barrier(pass);
        if is_first && self.in_background(raise_barrier).await != Some(true) {
            return SweepAnswer::Unknown;
        }
        // Read afterwards: what was lost meanwhile was not fenced.
        let incarnation = self.incarnation();
        let is_from_begin = self.in_background(move |own| {
            let is_as_begun = own.is_as_begun(pass, incarnation);
            is_as_begun.then(|| own.is_from_begin(pass))
        });
        let Some(is_from_begin) = is_from_begin.await.flatten() else {
            return SweepAnswer::Unknown;
        };
        // The pass does not meet what came in behind its scan before this node was restarted. A
        // higher fence is that of a pass that began later, which may have brought something, too.
        let was_undisturbed = forgetting.disturbed() < fence && raised.before <= fence;
        let may_raise = is_from_begin || was_undisturbed;
        let replica_state = environment.membership.replica_state();
        let has_damage = environment.engine.has_uncompared_damage();
        // Those that lack something besides what damaged blocks have held take whatever they
        // are offered, so they cannot be asked whether a damaged block has held a version.
        let can_say_nothing = has_damage && forgetting.is_receiver(replica_state);
        let forgotten = if can_say_nothing {
            Timestamp::ZERO
        } else {
            forgetting.bounds().forgotten
        };
        SweepAnswer::Fenced(FencedStore {
            incarnation,
            before: if may_raise {
                raised.before
            } else {
                Timestamp::ZERO
            },
            fence: raised.fence,
            forgotten,
            greatest: forgetting.greatest(),
            lacks_nothing: forgetting.lacks_nothing(replica_state) && !has_damage,
        })
    }

    /// Takes note of an F that a pass has shown.
    pub(super) fn answer_forget(&self, forgotten: Timestamp) -> SweepAnswer {
        let environment = &self.sweeps.environment;
        let heard = Heard {
            forgotten,
            fence: Timestamp::ZERO,
        };
        let replica_state = environment.membership.replica_state();
        // The pass has fenced the store, whatever it lacks.
        let _fenced = environment.forgetting.hear(heard, replica_state);
        SweepAnswer::Done
    }
}

impl Drive {
    /// Has all members raise their fences, before any of them scans.
    pub(super) async fn fence(&mut self, begun: &[Begun]) {
        if self.kind == PassKind::Recent {
            return;
        }
        self.fencing = Fencing::default();
        self.resuming.checkpoint.fence = None;
        // A fence that leads to nothing would only refuse slow writes.
        let members = &self.sweeper.sweeps.environment.members;
        let has_begun = |node: &NodeId| begun.iter().any(|begun| begun.node == *node);
        let away: Vec<NodeId> = members.ids().filter(|node| !has_begun(node)).collect();
        if !away.is_empty() {
            self.fencing.held_back = Some(HeldBack::Away(away));
            return;
        }
        let is_untrusted = |begun: &&Begun| begun.latest_fence == Timestamp::ZERO;
        let untrusted = begun.iter().filter(is_untrusted).map(|begun| begun.node);
        let untrusted: Vec<NodeId> = untrusted.collect();
        let known = begun.iter().map(|begun| begun.forgotten).max();
        let latest = begun.iter().map(|begun| begun.latest_fence).min();
        let latest = latest.filter(|latest| Some(*latest) > known);
        let all: Vec<NodeId> = members.ids().collect();
        self.tell_forgotten(begun, known).await;
        let fenced = self.ask_to_fence(&all, latest.unwrap_or_default()).await;
        let known = self.disregard(&fenced).await;
        if !untrusted.is_empty() {
            // Beside one wrong clock, right ones are not trusted either, for which all have to
            // agree. The wrong one is to blame.
            let environment = &self.sweeper.sweeps.environment;
            let wrong = environment.timestamps.wrong_clocks(&environment.members);
            let to_blame = if wrong.is_empty() { untrusted } else { wrong };
            self.fencing.held_back = Some(HeldBack::Clocks(to_blame));
            return;
        }
        let Some(latest) = latest.filter(|latest| *latest > known) else {
            // The grace has become longer, and F is high enough for now.
            self.fencing.is_idle = true;
            return;
        };
        let is_as_begun = |node: NodeId| {
            let answer = fenced.iter().find(|(member, _)| *member == node);
            answer.is_some_and(|(_, store)| {
                store.fence > known && self.progress.began_with(node, store.incarnation)
            })
        };
        let missing = all.iter().copied().filter(|node| !is_as_begun(*node));
        let missing: Vec<NodeId> = missing.collect();
        if !missing.is_empty() {
            self.fencing.held_back = Some(HeldBack::Unfenced(missing));
            return;
        }
        // A fence may be ahead of what the pass asked for: from an earlier pass.
        let fences = fenced.iter().map(|(_, store)| store.fence);
        let fence = fences.fold(latest, Timestamp::min);
        let mut pass = FencedPass::new(self.pass, fence, all.len());
        for (node, store) in fenced {
            pass.fenced(node, store.incarnation);
        }
        pass.begin();
        self.fencing.fenced = Some((pass, fence));
        self.resuming.checkpoint.fence = Some(fence);
    }

    /// As [`Drive::fence`], when the pass goes on from its checkpoint with these nodes. One
    /// that was restored from before its fence may lack what the pass has brought.
    pub(super) async fn fence_again(&mut self, begun: &[Begun]) {
        self.fencing = Fencing::default();
        let known = begun.iter().map(|begun| begun.forgotten).max();
        self.tell_forgotten(begun, known).await;
        let nodes: Vec<NodeId> = begun.iter().map(|begun| begun.node).collect();
        let Some(fence) = self.resuming.checkpoint.fence else {
            let fenced = self.ask_to_fence(&nodes, Timestamp::ZERO).await;
            self.disregard(&fenced).await;
            return;
        };
        let members = &self.sweeper.sweeps.environment.members;
        let mut pass = FencedPass::new(self.pass, fence, members.names().len());
        for (node, took_part) in self.resuming.checkpoint.progress.taking_part() {
            pass.fenced(*node, took_part.incarnation);
        }
        pass.begin();
        let fenced = self.ask_to_fence(&nodes, fence).await;
        self.disregard(&fenced).await;
        let rejoins = |node: NodeId| {
            let answer = fenced.iter().find(|(member, _)| *member == node);
            answer.is_some_and(|(_, store)| pass.may_rejoin(node, store.incarnation, store.before))
        };
        if nodes.into_iter().all(rejoins) {
            self.fencing.fenced = Some((pass, fence));
        } else {
            self.resuming.checkpoint.fence = None;
        }
    }

    /// Tells the nodes that have not heard of the greatest F. A store that is from before the
    /// fence of the pass that F rests on finds that out by it, and does not raise its fence.
    async fn tell_forgotten(&self, begun: &[Begun], known: Option<Timestamp>) {
        let Some(forgotten) = known else {
            return;
        };
        let unaware = begun.iter().filter(|begun| begun.forgotten < forgotten);
        let unaware = unaware.map(|begun| begun.node).collect();
        let pass = self.pass;
        // One that does not answer does not raise its fence either.
        let request = |_| SweepRequest::Forget { pass, forgotten };
        let _answers = self.ask(unaware, request).await;
    }

    async fn ask_to_fence(&self, nodes: &[NodeId], fence: Timestamp) -> Vec<Fenced> {
        let pass = self.pass;
        let request = |_| SweepRequest::Fence { pass, fence };
        let answers = self.ask(nodes.to_vec(), request).await;
        let fenced = answers
            .into_iter()
            .filter_map(|(node, answer)| match answer {
                Some(SweepAnswer::Fenced(store)) => {
                    let named = store.greatest.max(store.forgotten);
                    self.sweeper
                        .believes_of(node, named)
                        .then_some((node, store))
                }
                _ => None,
            });
        fenced.collect()
    }

    /// Names to all members the greatest F that one of them knows, and what each can say about
    /// versions below. Gives that F. If a member is missing, each leaves out what is dead below
    /// the F that it knows itself.
    async fn disregard(&mut self, fenced: &[Fenced]) -> Timestamp {
        self.fencing.do_all_lack_nothing = false;
        let environment = &self.sweeper.sweeps.environment;
        let own = environment.forgetting.greatest();
        let below = fenced
            .iter()
            .map(|(_, store)| store.greatest)
            .fold(own, Timestamp::max);
        if fenced.len() < environment.members.names().len() {
            return below;
        }
        self.fencing.do_all_lack_nothing = fenced.iter().all(|(_, store)| store.lacks_nothing);
        // In the order of their IDs.
        let vouching = fenced
            .iter()
            .map(|(_, store)| Vouching::of(store.lacks_nothing, store.forgotten, below));
        let vouching: Vec<Vouching> = vouching.collect();
        let pass = self.pass;
        let nodes = fenced.iter().map(|(node, _)| *node).collect();
        let request = |_| SweepRequest::Disregard {
            pass,
            below,
            vouching: vouching.clone(),
        };
        for (node, answer) in self.ask(nodes, request).await {
            if answer != Some(SweepAnswer::Done) {
                self.progress.lose(node);
            }
        }
        below
    }

    /// Whether all members are what they were when they were fenced, now that all that the
    /// pass has brought is durable. A block in which damage was found may have held a tombstone
    /// after it was compared. Each member seals its store before it answers, so it does not matter
    /// how long the others take to answer, nor when it hears what came of it.
    pub(super) async fn are_as_fenced(&self) -> bool {
        let nodes: Vec<NodeId> = self.progress.nodes().collect();
        let fence = self.fencing.fence().unwrap_or_default();
        let fenced = self.ask_to_fence(&nodes, fence).await;
        let is_same = |(node, store): &Fenced| self.progress.began_with(*node, store.incarnation);
        fenced.len() == nodes.len() && fenced.iter().all(is_same)
    }

    /// What F may rise to, now that the pass has ended and all that it brought is durable.
    pub(super) fn forgets(&self, clean: &[Pair]) -> Option<Timestamp> {
        let (mut pass, _) = self.fencing.fenced.clone()?;
        for pair in clean {
            let [Some(lower), Some(upper)] = [pair.lower, pair.upper].map(|node| {
                let taking_part = self.progress.taking_part().get(&node);
                taking_part.map(|taking_part| taking_part.incarnation)
            }) else {
                return None;
            };
            pass.found_clean(self.pass, *pair, [lower, upper]);
        }
        pass.forgets()
    }

    /// Tells all members of the F that the pass has shown, or remembers why there is none.
    /// Returns whether F was held back.
    pub(super) async fn forget(&mut self, forgotten: Option<Timestamp>, clean: &[Pair]) -> bool {
        if self.kind == PassKind::Recent || self.fencing.is_idle {
            return false;
        }
        let held_back = match forgotten {
            Some(_) => None,
            None => Some(self.why_held_back(clean)),
        };
        let forgetting = &self.sweeper.sweeps.environment.forgetting;
        forgetting.set_held_back(held_back);
        if let Some(forgotten) = forgotten {
            let pass = self.pass;
            let nodes = self.progress.nodes().collect();
            // Those that do not hear it now do so with heartbeats.
            let _answers = self
                .ask(nodes, |_| SweepRequest::Forget { pass, forgotten })
                .await;
        }
        forgotten.is_none()
    }

    fn why_held_back(&self, clean: &[Pair]) -> HeldBack {
        let members = &self.sweeper.sweeps.environment.members;
        let takes_part = |node: &NodeId| self.progress.taking_part().contains_key(node);
        let away: Vec<NodeId> = members.ids().filter(|node| !takes_part(node)).collect();
        match &self.fencing.held_back {
            // What was moved matters only once all nodes are equal.
            Some(held_back) if *held_back != HeldBack::Moved => return held_back.clone(),
            _ if !away.is_empty() => return HeldBack::Away(away),
            _ => {}
        }
        let mut unequal = Vec::new();
        for one in members.ids() {
            for other in members.ids().filter(|other| *other > one) {
                if !clean.contains(&Pair::of(one, other)) {
                    unequal.push((one, other));
                }
            }
        }
        match (unequal.is_empty(), &self.fencing.held_back) {
            (false, _) => HeldBack::Unequal(unequal),
            (true, Some(moved)) => moved.clone(),
            (true, None) => HeldBack::Interrupted,
        }
    }
}
