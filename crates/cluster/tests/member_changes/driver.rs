//! The drivers of all nodes: commands are answered, changes end though drivers die at any step, and
//! for each epoch one list is decided.

use super::names::{NAMES, joiner, joiners, member, names_of};
use cluster::layout::driver::{Driver, DriverAction, DriverEvent};
use cluster::layout::paxos::{Acceptor, VoteAnswer, VoteRequest};
use cluster::layout::{Change, ClusterId, Epoch, MemberList, MemberReport, Phase};
use cluster::{NodeId, NodeSet, NodeTable, Replicas, WhichList};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);

struct Node {
    list: MemberList,
    acceptor: Acceptor,
    driver: Driver,
    is_up: bool,
}

enum Message {
    Ask {
        from: NodeId,
        attempt: u64,
        to: NodeId,
        request: VoteRequest,
    },
    Answer {
        to: NodeId,
        attempt: u64,
        from: NodeId,
        answer: VoteAnswer,
    },
}

struct World {
    rng: Rng,
    now: Duration,
    nodes: NodeTable<Node>,
    messages: Vec<Message>,
    decided: BTreeMap<Epoch, MemberList>,
    /// How often each command was answered.
    answered: BTreeMap<u64, u32>,
    succeeded: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let members = NAMES[..rng.usize(2..5)].iter().map(|name| member(name));
        let pair = Replicas { ack: 1, from: 1 };
        let list = MemberList::founding(ClusterId::new(1), members.collect(), pair).unwrap();
        let mut world = Self {
            rng,
            now: Duration::ZERO,
            nodes: NodeTable::default(),
            messages: Vec::new(),
            decided: BTreeMap::from([(list.epoch(), list.clone())]),
            answered: BTreeMap::new(),
            succeeded: 0,
        };
        for it in list.members() {
            world.start(it.id, &list);
        }
        world
    }

    fn start(&mut self, id: NodeId, list: &MemberList) {
        let node = Node {
            list: list.clone(),
            acceptor: Acceptor::default(),
            driver: Driver::new(id, list.clone()),
            is_up: true,
        };
        self.nodes.insert(id, node);
    }

    fn up(&self) -> NodeSet {
        let up = self.nodes.iter().filter(|(_, node)| node.is_up);
        up.map(|(id, _)| id).collect()
    }

    fn newest(&self) -> &MemberList {
        self.decided.last_key_value().unwrap().1
    }

    fn event(&mut self, id: NodeId, event: DriverEvent) {
        let Some(node) = self.nodes.get_mut(id).filter(|node| node.is_up) else {
            return;
        };
        let mut actions = Vec::new();
        node.driver.step(event, self.now, &mut actions);
        for action in actions {
            match action {
                DriverAction::Ask {
                    attempt,
                    node,
                    request,
                } => self.messages.push(Message::Ask {
                    from: id,
                    attempt,
                    to: node,
                    request,
                }),
                DriverAction::Adopt(list) => {
                    let known = self
                        .decided
                        .entry(list.epoch())
                        .or_insert_with(|| (*list).clone());
                    assert_eq!(*known, *list, "two lists for one epoch");
                    self.adopt(id, &list);
                }
                DriverAction::Reply { command, outcome } => {
                    *self.answered.entry(command).or_default() += 1;
                    self.succeeded += u32::from(outcome.is_ok());
                }
            }
        }
    }

    fn adopt(&mut self, id: NodeId, list: &MemberList) {
        for it in list.members_of(WhichList::New) {
            if self.nodes.get(it.id).is_none() {
                self.start(it.id, list);
            }
        }
        let Some(node) = self.nodes.get_mut(id) else {
            return;
        };
        if node.is_up && node.list.epoch() < list.epoch() {
            node.list = list.clone();
            node.acceptor.adopted();
            self.event(id, DriverEvent::Adopted(Box::new(list.clone())));
        }
    }

    fn deliver(&mut self, loses: bool) {
        if self.messages.is_empty() {
            return;
        }
        let index = self.rng.usize(0..self.messages.len());
        match self.messages.swap_remove(index) {
            Message::Ask {
                from,
                attempt,
                to,
                request,
            } => {
                if let VoteRequest::Prepare { on, .. } = &request {
                    self.adopt(to, &on.clone());
                }
                let answer = match self.nodes.get_mut(to).filter(|node| node.is_up && !loses) {
                    Some(node) => node.acceptor.receive(&node.list, request),
                    None => VoteAnswer::Missed,
                };
                self.messages.push(Message::Answer {
                    to: from,
                    attempt,
                    from: to,
                    answer,
                });
            }
            Message::Answer {
                to,
                attempt,
                from,
                answer,
            } => {
                let answer = if loses { VoteAnswer::Missed } else { answer };
                self.event(
                    to,
                    DriverEvent::Voted {
                        attempt,
                        from,
                        answer,
                    },
                );
            }
        }
    }

    /// Heartbeats: nodes that are up hear of the newest lists, of who is up, and of reports.
    fn beat(&mut self) {
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        let id = ids[self.rng.usize(0..ids.len())];
        let from = ids[self.rng.usize(0..ids.len())];
        if !self.up().contains(id) || !self.up().contains(from) {
            return;
        }
        let list = self.nodes.get(from).unwrap().list.clone();
        self.adopt(id, &list);
        let report = MemberReport {
            epoch: list.epoch(),
            change: list.change(),
            equal_with: list.voters(),
        };
        self.event(id, DriverEvent::Up(self.up()));
        self.event(id, DriverEvent::Reported(from, report));
    }

    fn ask(&mut self, command: u64) {
        let members: Vec<NodeId> = self.newest().live().iter().collect();
        let up = self.up();
        let members: Vec<NodeId> = members.into_iter().filter(|it| up.contains(*it)).collect();
        if members.is_empty() {
            return;
        }
        let id = members[self.rng.usize(0..members.len())];
        let list = self.nodes.get(id).unwrap().list.clone();
        let names = names_of(&list);
        let join = joiners(&list, self.rng.usize(0..2));
        let leave = self.rng.usize(0..names.len());
        let change = match self.rng.u8(0..5) {
            0 => Change::Abort,
            1 => Change::Pair(Replicas {
                ack: 1,
                from: self.rng.u8(1..3),
            }),
            2 => Change::Members {
                join,
                leave: vec![names[leave].clone()],
                are_dead: false,
            },
            _ => Change::Members {
                join,
                leave: Vec::new(),
                are_dead: false,
            },
        };
        self.answered.insert(command, 0);
        let deadline = self.now + Duration::from_secs(8);
        self.event(
            id,
            DriverEvent::Asked {
                command,
                change,
                deadline,
            },
        );
    }

    fn tick(&mut self) {
        self.now += TICK;
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        for id in ids {
            self.event(id, DriverEvent::Tick);
        }
    }

    /// A node dies, or one that was dead comes back with what was durable.
    fn kill_or_start(&mut self) {
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        let id = ids[self.rng.usize(0..ids.len())];
        let node = self.nodes.get_mut(id).unwrap();
        if node.is_up {
            node.is_up = false;
        } else {
            node.is_up = true;
            node.driver = Driver::new(id, node.list.clone());
        }
    }
}

#[test]
fn changes_end_though_drivers_die_at_any_step() {
    let (mut lists, mut succeeded) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        let mut died = NodeSet::default();
        for step in 0..1_500_u64 {
            match world.rng.u8(0..100) {
                0..55 => {
                    let loses = world.rng.u8(0..20) == 0;
                    world.deliver(loses);
                }
                55..80 => world.beat(),
                80..96 => world.tick(),
                96..98 => world.ask(step),
                _ => {
                    let before = world.up();
                    world.kill_or_start();
                    died = died.union(before.without(world.up()));
                }
            }
        }
        // All come back, and nothing is lost any more.
        for id in world.nodes.ids().collect::<Vec<_>>() {
            if !world.up().contains(id) {
                let node = world.nodes.get_mut(id).unwrap();
                node.is_up = true;
                node.driver = Driver::new(id, node.list.clone());
            }
        }
        for step in 0..20_000 {
            match step % 4 {
                0 => world.tick(),
                1 => world.beat(),
                _ => world.deliver(false),
            }
        }
        let newest = world.newest().clone();
        assert_eq!(newest.phase(), Phase::Stable, "seed {seed}: {newest:?}");
        for it in newest.members() {
            let list = &world.nodes.get(it.id).unwrap().list;
            assert_eq!(*list, newest, "seed {seed}");
        }
        // A command is answered once, unless its node died.
        assert!(world.answered.values().all(|times| *times <= 1));
        if died.is_empty() {
            assert!(world.answered.values().all(|times| *times == 1));
        }
        lists += world.decided.len() - 1;
        succeeded += world.succeeded;
    }
    assert!(lists > 1_000 && succeeded > 200, "{lists} {succeeded}");
}

/// Without faults a step is one attempt: nobody is outvoted.
#[test]
fn nodes_take_turns() {
    let mut world = World::new(1);
    let mut asked = NodeSet::default();
    let first = world.newest().members()[0].id;
    world.event(
        first,
        DriverEvent::Asked {
            command: 1,
            change: Change::Members {
                join: vec![joiner("z")],
                leave: Vec::new(),
                are_dead: false,
            },
            deadline: Duration::from_secs(8),
        },
    );
    // One step of time for many messages, as on a network that is fast.
    for _ in 0..200 {
        for _ in 0..100 {
            world.beat();
        }
        for message in &world.messages {
            if let Message::Ask { from, .. } = message {
                asked.insert(*from);
            }
        }
        while !world.messages.is_empty() {
            world.deliver(false);
        }
        world.tick();
    }
    assert_eq!(world.newest().phase(), Phase::Stable);
    assert!(world.newest().named("z").is_some());
    assert_eq!(world.answered[&1], 1);
    assert_eq!(
        asked.iter().collect::<Vec<_>>(),
        [first],
        "only the first proposes"
    );
}
