//! The nodes, the lists that were decided, and what happens next.

use super::history::{History, REQUEST_BITS};
use super::node::Node;
use super::operations::{Message, Operation};
use super::serving::Held;
use super::steps::{Rebuild, Session};
use super::{Bug, Scenario};
use base::ByteReader;
use cluster::layout::{ClusterId, Epoch, MemberList, Phase, Placements, Reports};
use cluster::{Member, NodeId, NodeTable, Placement, PreferenceList, Replicas, WhichList};
use fastrand::Rng;

const STEPS: usize = 6_000;
const OPERATIONS: usize = 26;
const RUNNING_MAX: usize = 4;
/// The value that is there before the first write.
const FIRST: u64 = 1 << REQUEST_BITS;
pub(crate) const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) scenario: Scenario,
    pub(crate) bug: Option<Bug>,
    pub(crate) key: [u8; 8],
    pub(crate) replicas: Replicas,
    /// The lists that were decided, by their epochs.
    pub(crate) lists: Vec<MemberList>,
    placements: Vec<Placements>,
    pub(crate) nodes: NodeTable<Node>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) messages: Vec<Message>,
    /// What waits at nodes until a promise is gone.
    pub(crate) held: Vec<Held>,
    /// The version that a client was told of last.
    pub(crate) known: u64,
    /// How many requests of clients there were.
    clients: usize,
    pub(crate) sessions: Vec<Session>,
    pub(crate) rebuilds: Vec<Rebuild>,
    /// What whoever goes on with the change has heard of the members.
    pub(crate) reports: Reports,
    pub(crate) history: History,
    pub(crate) moment: u64,
    pub(crate) writes: u64,
    slow_node: Option<NodeId>,
    /// One message in so many is lost; 0 for none.
    loss: u8,
    /// The epoch in which non-owned copies were last dropped.
    pub(crate) dropped: Epoch,
}

pub(crate) fn member(name: &str) -> Member {
    #[expect(clippy::unwrap_used, reason = "these are names")]
    format!("{name}=http://{name}:80").parse().unwrap()
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut names = NAMES;
        rng.shuffle(&mut names);
        let members = &names[..[3, 3, 4][rng.usize(0..3)]];
        let copies = scenario.copies;
        let replicas = Replicas::quorum(copies[rng.usize(0..copies.len())]);
        let founders = members.iter().map(|name| member(name)).collect();
        let list = MemberList::founding(ClusterId::new(1), founders, replicas);
        let list = list.unwrap_or_else(|| panic!("the founders are no list"));
        let nodes = list.members().iter().map(|it| {
            let mut node = Node::new(list.epoch());
            let _first = node.store.put(FIRST);
            (it.id, node)
        });
        let loss = if scenario.has_faults && rng.bool() {
            10
        } else {
            0
        };
        Self {
            key: rng.u64(..).to_le_bytes(),
            scenario,
            bug: scenario.bug,
            replicas,
            nodes: nodes.collect(),
            placements: vec![Placements::from(&list)],
            lists: vec![list],
            operations: Vec::new(),
            messages: Vec::new(),
            held: Vec::new(),
            known: FIRST,
            clients: 0,
            sessions: Vec::new(),
            rebuilds: Vec::new(),
            reports: Reports::default(),
            history: History::default(),
            moment: 0,
            writes: 0,
            slow_node: scenario.has_slow_node.then(|| NodeId::new(0)),
            loss,
            dropped: Epoch::default(),
            rng,
        }
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        self.nodes
            .get(node)
            .unwrap_or_else(|| panic!("no node {node}"))
    }

    pub(crate) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        self.nodes
            .get_mut(node)
            .unwrap_or_else(|| panic!("no node {node}"))
    }

    pub(crate) fn list(&self, epoch: Epoch) -> &MemberList {
        &self.lists[epoch.as_u64() as usize]
    }

    pub(crate) fn last(&self) -> &MemberList {
        &self.lists[self.lists.len() - 1]
    }

    pub(crate) fn placements_of(&self, epoch: Epoch) -> &Placements {
        &self.placements[epoch.as_u64() as usize]
    }

    /// The replicas of the key in the old or the new list of an epoch.
    pub(crate) fn list_of(&self, epoch: Epoch, which: WhichList) -> PreferenceList {
        let members = self.list(epoch).members_of(which);
        let listed = members.map(|it| (it.id, it.member.name(), it.zone.as_deref()));
        Placement::listed(listed).preference_list(&self.key, self.replicas.from)
    }

    /// The replicas of the key in either list of the present epoch that are not dead.
    pub(crate) fn live_replicas(&self) -> Vec<NodeId> {
        let dead = self.last().dead();
        let epoch = self.last().epoch();
        let replicas = self
            .placements_of(epoch)
            .replicas(&self.key, self.replicas.from);
        let live = replicas
            .iter()
            .copied()
            .filter(|node| !dead.contains(*node));
        live.collect()
    }

    /// A list is decided.
    pub(crate) fn decide(&mut self, list: MemberList) {
        let list = match self.bug {
            Some(Bug::DeadReturns) if list.phase() == Phase::Stable => revived(&list),
            _ => list,
        };
        self.placements.push(Placements::from(&list));
        self.lists.push(list);
    }

    pub(crate) fn is_slow(&self, node: NodeId) -> bool {
        self.slow_node == Some(node)
    }

    /// Whether a message is lost.
    pub(crate) fn loses(&mut self) -> bool {
        self.loss > 0 && self.rng.u8(0..self.loss) == 0
    }

    pub(crate) fn choose(&mut self, nodes: &[NodeId]) -> Option<NodeId> {
        (!nodes.is_empty()).then(|| nodes[self.rng.usize(0..nodes.len())])
    }

    pub(crate) fn run(&mut self) {
        let pace = self.scenario.pace;
        for _ in 0..STEPS {
            let running = self.running();
            if self.clients == OPERATIONS && running.is_empty() {
                break;
            }
            let own = running
                .iter()
                .filter(|it| self.operations[**it].parent.is_none());
            if own.count() < RUNNING_MAX && self.clients < OPERATIONS && self.rng.u8(0..16) == 0 {
                self.begin();
            }
            if self.scenario.conditional > 0 && self.rng.u8(0..100) == 0 {
                self.settle_stale();
            }
            let next = self.rng.u8(0..100);
            let sessions = pace.requests + pace.sessions;
            let lists = sessions + pace.lists;
            if next < pace.requests {
                self.step_operations(&running);
            } else if next < sessions {
                self.step_sessions();
            } else if next < lists {
                self.step_list();
            } else if next < lists + pace.adoption {
                self.step_adoption();
            } else if self.scenario.has_faults {
                self.step_faults();
            }
        }
        self.end_operations();
    }

    fn running(&self) -> Vec<usize> {
        let operations = 0..self.operations.len();
        operations.filter(|it| self.is_running(*it)).collect()
    }

    /// The nodes that are up and believe that they are members.
    pub(crate) fn believers(&self) -> Vec<NodeId> {
        let believe = self
            .nodes
            .iter()
            .filter(|(id, node)| node.is_up && self.list(node.epoch).live().contains(*id));
        believe.map(|(id, _)| id).collect()
    }

    /// A client's request comes to a node that believes it is a member.
    fn begin(&mut self) {
        let mut believe = self.believers();
        if self.rng.bool() && believe.iter().any(|it| self.is_slow(*it)) {
            believe.retain(|it| self.slow_node == Some(*it));
        }
        if let Some(coordinator) = self.choose(&believe) {
            self.clients += 1;
            let conditional = self.scenario.conditional;
            if conditional > 0 && self.rng.u8(0..100) < conditional {
                self.begin_conditional(coordinator);
            } else if self.rng.u8(0..100) < 45 {
                self.begin_write(coordinator);
            } else {
                self.begin_read(coordinator, None);
            }
        }
    }

    fn step_operations(&mut self, running: &[usize]) {
        if !self.messages.is_empty() {
            let message = self.rng.usize(0..self.messages.len());
            self.deliver(message);
        }
        let Some(operation) = running.get(self.rng.usize(0..running.len().max(1))) else {
            return;
        };
        let is_over = self.scenario.has_faults && self.rng.u8(0..100) == 0;
        if !self.held.is_empty() && self.is_stuck(*operation) && !is_over {
            return self.settle_stale();
        }
        if self.is_stuck(*operation) || is_over {
            self.time_passes(*operation);
        }
    }
}

/// The list without its dead: the flag is taken out of its bytes.
fn revived(list: &MemberList) -> MemberList {
    let mut alive = list.clone();
    for it in list.members().iter().filter(|it| it.is_dead) {
        let mut bytes = Vec::new();
        alive.encode(&mut bytes);
        let name = it.member.name().as_bytes();
        let length = (name.len() as u16).to_le_bytes();
        let begin = [&length[..], name].concat();
        let at = bytes.windows(begin.len()).position(|bytes| bytes == begin);
        if let Some(flags) = at.and_then(|at| bytes.get_mut(at - 1)) {
            *flags &= !4;
        }
        if let Some(decoded) = MemberList::decode(&mut ByteReader::new(&bytes)) {
            alive = decoded;
        }
    }
    alive
}
