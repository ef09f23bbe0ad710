//! What happens beside the requests: repair sessions, changes of the list, faults.

use super::Bug;
use super::node::Node;
use super::world::{NAMES, World, member};
use cluster::layout::{
    Change, ChangeProgress, Epoch, JoinedStore, Joiner, Lists, MemberReport, Phase, Reports,
};
use cluster::{NodeId, NodeSet, WhichList};

/// The changes of a run, at most.
const CHANGES: usize = 5;

/// Two nodes exchange their newest versions.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    nodes: [NodeId; 2],
    losses: [u32; 2],
    /// For a change: its epoch.
    change: Epoch,
    /// For the rebuild of the first one.
    is_rebuild: bool,
    stage: u8,
    newest: [u64; 2],
    /// Which of them stores first.
    first: usize,
}

/// A lost store is compared with all others before it is a voter again.
#[derive(Clone, Debug)]
pub(crate) struct Rebuild {
    node: NodeId,
    losses: u32,
    /// The operations that began before the loss.
    operations_before: usize,
    equal_with: NodeSet,
}

impl World {
    fn report(&self, node: NodeId) -> MemberReport {
        self.node(node).report(self.oldest_of(node))
    }

    pub(crate) fn step_sessions(&mut self) {
        if !self.sessions.is_empty() && self.rng.u8(0..4) > 0 {
            let session = self.rng.usize(0..self.sessions.len());
            self.step_session(session);
        } else if !self.rebuilds.is_empty() && self.rng.bool() {
            self.step_rebuild();
        } else if self.sessions.len() < 3 {
            self.begin_session();
        }
    }

    /// A session of the change begins: both have reported it, and serve nothing older from now on.
    fn begin_session(&mut self) {
        let mut replicas = self.live_replicas();
        if self.last().phase() != Phase::Copying || replicas.len() < 2 {
            return;
        }
        self.rng.shuffle(&mut replicas);
        let nodes = [replicas[0], replicas[1]];
        let epoch = self.last().epoch();
        let is_ready = nodes
            .iter()
            .all(|node| self.node(*node).is_up && self.report(*node).epoch >= epoch);
        if !is_ready {
            return;
        }
        for node in nodes {
            let node = self.node_mut(node);
            node.floor = node.floor.max(epoch);
        }
        let change = self.last().change();
        self.open(nodes, change, false);
    }

    fn open(&mut self, nodes: [NodeId; 2], change: Epoch, is_rebuild: bool) {
        let session = Session {
            nodes,
            losses: nodes.map(|node| self.node(node).losses),
            change,
            is_rebuild,
            stage: 0,
            newest: [0; 2],
            first: self.rng.usize(0..2),
        };
        self.sessions.push(session);
    }

    fn step_session(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        let Session { nodes, stage, .. } = *session;
        session.stage += 1;
        let are_up = nodes.iter().all(|node| self.node(*node).is_up);
        if !are_up {
            self.sessions.swap_remove(index);
            return;
        }
        match stage {
            0 | 1 => {
                let place = usize::from(stage);
                self.sessions[index].newest[place] = self.node(nodes[place]).store.newest();
            }
            2 | 3 => {
                let Session { newest, first, .. } = self.sessions[index];
                let place = if stage == 2 { first } else { 1 - first };
                let newest = newest[0].max(newest[1]);
                if newest > 0 && self.node_mut(nodes[place]).store.put(newest).is_none() {
                    // It waits for a promise.
                    self.sessions[index].stage = stage;
                }
                self.wake(nodes[place]);
            }
            _ => {
                let session = self.sessions.swap_remove(index);
                self.end_session(&session);
            }
        }
    }

    fn end_session(&mut self, session: &Session) {
        let [one, other] = session.nodes;
        for (place, node, with) in [(0, one, other), (1, other, one)] {
            if self.node(node).losses != session.losses[place] {
                continue;
            }
            if session.is_rebuild {
                let mut rebuilds = self.rebuilds.iter_mut();
                let is_its =
                    |it: &&mut Rebuild| it.node == node && it.losses == session.losses[place];
                if let Some(rebuild) = rebuilds.find(is_its) {
                    rebuild.equal_with.insert(with);
                }
                continue;
            }
            let node = self.node_mut(node);
            if node.change < session.change {
                node.change = session.change;
                node.equal_with = NodeSet::default();
            }
            if node.change == session.change {
                node.equal_with.insert(with);
            }
        }
    }

    fn step_rebuild(&mut self) {
        let index = self.rng.usize(0..self.rebuilds.len());
        let rebuild = self.rebuilds[index].clone();
        if self.node(rebuild.node).losses != rebuild.losses {
            self.rebuilds.swap_remove(index);
            return;
        }
        if (0..rebuild.operations_before).any(|operation| self.is_under_way(operation)) {
            return;
        }
        let mut others = self.live_replicas();
        others.retain(|node| *node != rebuild.node && !rebuild.equal_with.contains(*node));
        if others.is_empty() {
            if self.node(rebuild.node).is_up {
                self.node_mut(rebuild.node).is_voter = true;
                self.rebuilds.swap_remove(index);
            }
            return;
        }
        if let Some(other) = self.choose(&others)
            && [other, rebuild.node].iter().all(|it| self.node(*it).is_up)
        {
            self.open([rebuild.node, other], Epoch::default(), true);
        }
    }

    /// Somebody goes on with the change, or an operator asks for one.
    pub(crate) fn step_list(&mut self) {
        // A report is on its way for a while.
        let members: Vec<NodeId> = self.last().live().iter().collect();
        if let Some(node) = self.choose(&members)
            && self.node(node).is_up
        {
            self.reports.record(node, self.report(node));
        }
        let list = self.last().clone();
        let chance = self.rng.u8(0..100);
        match list.phase() {
            Phase::Stable => {
                self.drop_non_owned();
                if chance < 30 {
                    self.go_on();
                }
                if chance >= 60 && self.last().phase() == Phase::Stable {
                    self.ask_for_change();
                }
            }
            Phase::Copying => {
                if self.scenario.has_faults && chance < 3 {
                    self.abort();
                } else if self.bug == Some(Bug::NoSettling) {
                    self.go_on_without_settling();
                } else {
                    self.go_on();
                }
            }
            Phase::Settling => {
                let aborts = match self.bug {
                    Some(Bug::AbortAtOnce | Bug::AbortTooEarly) => 60,
                    _ => 10,
                };
                if self.scenario.has_faults && chance < aborts {
                    self.abort();
                } else {
                    self.go_on();
                }
            }
            Phase::Aborting => self.go_on(),
        }
    }

    /// What is known of the members, where no bug hides it.
    fn known(&mut self) -> Reports {
        let list = self.last();
        let hides_reports = match self.bug {
            Some(Bug::NoBarrier) => self.rng.u8(0..100) < 30,
            Some(Bug::AbortTooEarly) => list.phase() == Phase::Aborting,
            _ => false,
        };
        let list = self.last();
        let hides_facts = self.bug == Some(Bug::NoSync);
        if !hides_reports && !hides_facts {
            return self.reports.clone();
        }
        let mut known = Reports::default();
        let of_new: NodeSet = list.members_of(WhichList::New).map(|it| it.id).collect();
        for node in list.live().iter() {
            let mut report = self.reports.of(node);
            if hides_reports {
                report.epoch = list.epoch();
            }
            if hides_facts {
                if report.change != list.change() {
                    report.change = list.change();
                    report.equal_with = NodeSet::default();
                }
                let leavers = list.voters().without(of_new);
                let others = self.list_of(list.epoch(), WhichList::Old);
                let kept = self.list_of(list.epoch(), WhichList::New);
                let gone = others.iter().filter(|it| !kept.contains(it)).copied();
                report.equal_with = report.equal_with.union(leavers).union(gone.collect());
            }
            known.record(node, report);
        }
        known
    }

    fn go_on(&mut self) {
        let known = self.known();
        // Nodes that do not keep the key have nothing to be equal with.
        let known = self.with_facts_of_others(&known);
        if let ChangeProgress::Ready(next) = self.last().progress(&known) {
            self.decide(*next);
        }
    }

    /// The sessions of this model compare only replicas of the key. All others are equal.
    fn with_facts_of_others(&self, known: &Reports) -> Reports {
        let list = self.last();
        let replicas: NodeSet = self.live_replicas().into_iter().collect();
        let old: NodeSet = self
            .list_of(list.epoch(), WhichList::Old)
            .into_iter()
            .collect();
        let new: NodeSet = self
            .list_of(list.epoch(), WhichList::New)
            .into_iter()
            .collect();
        let mut all = known.clone();
        for node in list.live().iter() {
            let mut report = known.of(node);
            if report.change != list.change() {
                report.change = list.change();
                report.equal_with = NodeSet::default();
            }
            let gains = new.contains(node) && !old.contains(node);
            let others = if gains {
                list.voters().without(replicas).union(replicas.without(old))
            } else {
                list.voters()
            };
            report.equal_with = report.equal_with.union(others);
            all.record(node, report);
        }
        all
    }

    fn go_on_without_settling(&mut self) {
        let known = self.known();
        let known = self.with_facts_of_others(&known);
        if let ChangeProgress::Ready(next) = self.last().progress(&known) {
            let mut reports = known;
            for node in next.live().iter() {
                let report = reports.of(node);
                let epoch = next.epoch();
                reports.record(node, MemberReport { epoch, ..report });
            }
            if let ChangeProgress::Ready(stable) = next.progress(&reports) {
                self.decide(*next);
                self.decide(*stable);
            }
        }
    }

    fn abort(&mut self) {
        let Ok(next) = self.last().plan(&Change::Abort, NodeSet::default()) else {
            return;
        };
        self.decide(next);
        if self.bug == Some(Bug::AbortAtOnce) && self.last().phase() == Phase::Aborting {
            self.force_on();
        }
    }

    /// The next list, whatever was reported.
    fn force_on(&mut self) {
        let mut reports = Reports::default();
        let list = self.last();
        for node in list.live().iter() {
            let report = MemberReport {
                epoch: list.epoch(),
                change: list.change(),
                equal_with: list.voters(),
            };
            reports.record(node, report);
        }
        if let ChangeProgress::Ready(next) = list.progress(&reports) {
            self.decide(*next);
        }
    }

    /// A session below the GC threshold has let go what nodes keep that are no replicas.
    fn drop_non_owned(&mut self) {
        let list = self.last();
        let epoch = list.epoch();
        let have_reported = list
            .live()
            .iter()
            .all(|node| self.report(node).epoch >= epoch);
        if self.dropped >= list.change() || !have_reported {
            return;
        }
        self.dropped = list.change();
        let replicas = self.live_replicas();
        for (id, node) in self.nodes.iter_mut() {
            if !replicas.contains(&id) {
                self.held.retain(|held| !held.is_at(id));
                node.store = Default::default();
            }
        }
    }

    fn ask_for_change(&mut self) {
        let list = self.last().clone();
        let begun = self.lists.iter().filter(|it| it.epoch() == it.change());
        if begun.count() > CHANGES {
            return;
        }
        let mut free: Vec<&str> = NAMES
            .into_iter()
            .filter(|name| list.named(name).is_none())
            .collect();
        self.rng.shuffle(&mut free);
        free.truncate([0, 1, 1, 2][self.rng.usize(0..4)]);
        let members: Vec<NodeId> = list.members().iter().map(|it| it.id).collect();
        let mut leave = Vec::new();
        if self.rng.u8(0..3) == 0 {
            leave.extend(self.choose(&members));
        }
        let away: Vec<NodeId> = members
            .iter()
            .copied()
            .filter(|node| !self.node(*node).is_up || self.rng.u8(0..10) == 0)
            .collect();
        let are_whole = members.iter().all(|node| self.node(*node).is_voter);
        // Perhaps it runs on.
        let are_dead = self.scenario.has_faults
            && away.len() == 1
            && are_whole
            && list.dead().is_empty()
            && self.replicas.from > 1
            && self.rng.bool();
        if are_dead {
            leave = away;
        }
        let join = free.iter().map(|name| Joiner {
            member: member(name),
            zone: None,
            store: JoinedStore {
                store_id: 1,
                start: 1,
            },
        });
        let name_of = |node: &NodeId| list.get(*node).map(|it| it.member.name().to_owned());
        let change = Change::Members {
            join: join.collect(),
            leave: leave.iter().filter_map(name_of).collect(),
            are_dead,
        };
        let Ok(next) = list.plan(&change, NodeSet::default()) else {
            return;
        };
        for it in next.members() {
            if self.nodes.get(it.id).is_none() {
                self.nodes.insert(it.id, Node::new(next.epoch()));
            }
        }
        self.decide(next);
    }

    /// A member hears of a later list.
    pub(crate) fn step_adoption(&mut self) {
        let members: Vec<NodeId> = self.last().live().iter().collect();
        let last = self.last().epoch();
        if let Some(id) = self.choose(&members)
            && self.node(id).is_up
            && self.node(id).epoch < last
            && (!self.is_slow(id) || self.rng.u8(0..8) == 0)
        {
            let one_by_one = self.rng.bool();
            let node = self.node_mut(id);
            node.epoch = if one_by_one { node.epoch.next() } else { last };
        }
    }

    pub(crate) fn step_faults(&mut self) {
        let members: Vec<NodeId> = self.last().live().iter().collect();
        let Some(id) = self.choose(&members) else {
            return;
        };
        let are_whole = members
            .iter()
            .all(|node| self.node(*node).is_voter && self.node(*node).is_up);
        let may_lose = are_whole && self.last().dead().is_empty() && self.replicas.from > 2;
        let operations_before = self.operations.len();
        match self.rng.u16(0..1_000) {
            0..10 => {
                self.held.retain(|held| !held.is_at(id));
                let node = self.node_mut(id);
                node.is_up = false;
                node.life += 1;
            }
            10..50 if !self.node(id).is_up => {
                let node = self.node_mut(id);
                node.is_up = true;
                node.floor = node.floor.max(node.epoch);
                node.store.restart(node.epoch);
            }
            50..56 if may_lose => {
                self.held.retain(|held| !held.is_at(id));
                let node = self.node_mut(id);
                node.store = Default::default();
                node.is_voter = false;
                node.life += 1;
                node.losses += 1;
                node.change = Epoch::default();
                node.equal_with = NodeSet::default();
                let losses = node.losses;
                self.rebuilds.push(Rebuild {
                    node: id,
                    losses,
                    operations_before,
                    equal_with: NodeSet::default(),
                });
            }
            _ => self.declare_dead(),
        }
    }

    /// While a change is under way, an operator declares a member dead that is down.
    fn declare_dead(&mut self) {
        let list = self.last().clone();
        let down: Vec<NodeId> = list
            .live()
            .iter()
            .filter(|node| !self.node(*node).is_up)
            .collect();
        let are_whole = list.live().iter().all(|node| self.node(node).is_voter);
        if list.phase() == Phase::Stable
            || !list.dead().is_empty()
            || !are_whole
            || down.len() != 1
            || self.replicas.from < 2 && list.get(down[0]).is_some_and(|it| it.lists != Lists::New)
            || self.rng.u8(0..20) > 0
        {
            return;
        }
        let leave = down.iter().filter_map(|node| list.get(*node));
        let change = Change::Members {
            join: Vec::new(),
            leave: leave.map(|it| it.member.name().to_owned()).collect(),
            are_dead: true,
        };
        if let Ok(next) = list.plan(&change, NodeSet::default()) {
            self.decide(next);
        }
    }
}
