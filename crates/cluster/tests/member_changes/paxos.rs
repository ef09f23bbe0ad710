//! Random interleavings of many attempts to change the list of members. For each epoch at most one
//! list is decided, whatever is lost, whoever crashes, and though the members change meanwhile.

use super::names::{NAMES, joiners, member, names_of};
use cluster::layout::paxos::{
    Acceptor, AttemptEnd, Ballot, Proposer, ProposerAction, VoteAnswer, VoteRequest,
};
use cluster::layout::{
    Change, ChangeProgress, ClusterId, Epoch, MemberList, MemberReport, Reports,
};
use cluster::{NodeId, NodeSet, NodeTable, Replicas};
use fastrand::Rng;
use std::collections::BTreeMap;

/// A bug to plant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// An acceptor does not keep what it promises.
    NoPromise,
    /// A proposer proposes its wish, though another list was accepted.
    IgnoreAccepted,
    /// A proposer asks a majority of the members that it wishes.
    OwnMajority,
    /// An acceptor forgets what it has accepted.
    ForgetVote,
    /// A store that has lost its votes votes at once.
    LostVotes,
}

struct Node {
    list: MemberList,
    acceptor: Acceptor,
    /// Whether its store lost its votes, so that it does not vote.
    is_silent: bool,
}

struct Attempt {
    by: NodeId,
    proposer: Proposer,
    has_ended: bool,
}

struct World {
    rng: Rng,
    bug: Option<Bug>,
    nodes: NodeTable<Node>,
    attempts: Vec<Attempt>,
    requests: Vec<(usize, NodeId, VoteRequest)>,
    answers: Vec<(usize, NodeId, VoteAnswer)>,
    decided: BTreeMap<Epoch, MemberList>,
    violation: Option<String>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let members = NAMES[..rng.usize(2..5)].iter().map(|name| member(name));
        let pair = Replicas { ack: 1, from: 1 };
        let list = MemberList::founding(ClusterId::new(1), members.collect(), pair).unwrap();
        let nodes = list.members().iter().map(|it| {
            let node = Node {
                list: list.clone(),
                acceptor: Acceptor::default(),
                is_silent: false,
            };
            (it.id, node)
        });
        Self {
            rng,
            bug,
            nodes: nodes.collect(),
            attempts: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            decided: BTreeMap::from([(list.epoch(), list.clone())]),
            violation: None,
        }
    }

    /// A list that somebody may want after this one.
    fn wish(&mut self, list: &MemberList) -> Option<MemberList> {
        let mut reports = Reports::default();
        for it in list.members() {
            let report = MemberReport {
                epoch: list.epoch(),
                change: list.change(),
                equal_with: list.live(),
            };
            reports.record(it.id, report);
        }
        if let ChangeProgress::Ready(next) = list.progress(&reports)
            && self.rng.u8(0..4) > 0
        {
            return Some(*next);
        }
        let names = names_of(list);
        let leave = match self.rng.u8(0..2) {
            0 => Vec::new(),
            _ => vec![names[self.rng.usize(0..names.len())].clone()],
        };
        let change = match self.rng.u8(0..5) {
            0 => Change::Abort,
            _ => Change::Members {
                join: joiners(list, self.rng.usize(0..3)),
                leave,
                are_dead: self.rng.bool(),
            },
        };
        list.plan(&change, NodeSet::default()).ok()
    }

    fn begin(&mut self) {
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        let by = ids[self.rng.usize(0..ids.len())];
        let node = self.nodes.get(by).unwrap();
        let (mut current, above) = (node.list.clone(), node.acceptor.promised());
        if !current.voters().contains(by) {
            return;
        }
        let Some(wish) = self.wish(&current) else {
            return;
        };
        // Sometimes it has forgotten its last ballot, or knows of a greater one.
        let above = match self.rng.u8(0..4) {
            0 => Ballot::default(),
            1 => above.next_of(NodeId::new(250)),
            _ => above,
        };
        if self.bug == Some(Bug::OwnMajority)
            && let Some(own) = members_of(&wish, &current)
        {
            current = own;
        }
        let mut actions = Vec::new();
        let proposer = Proposer::start(by, current, wish, above, &mut actions);
        self.attempts.push(Attempt {
            by,
            proposer,
            has_ended: false,
        });
        self.act(self.attempts.len() - 1, actions);
    }

    fn act(&mut self, attempt: usize, actions: Vec<ProposerAction>) {
        for action in actions {
            match action {
                ProposerAction::Ask(node, request) => {
                    self.requests.push((attempt, node, request));
                }
                ProposerAction::End(end) => {
                    self.attempts[attempt].has_ended = true;
                    if let AttemptEnd::Decided(list) = end {
                        self.decide(&list);
                        let by = self.attempts[attempt].by;
                        self.adopt(by, &list);
                    }
                }
            }
        }
    }

    fn decide(&mut self, list: &MemberList) {
        let known = self
            .decided
            .entry(list.epoch())
            .or_insert_with(|| list.clone());
        if known != list {
            self.violation = Some(format!("{known:?} and {list:?}"));
        }
    }

    /// A node hears of a decided list.
    fn adopt(&mut self, node: NodeId, list: &MemberList) {
        let node = self.nodes.get_or_insert_with(node, || Node {
            list: list.clone(),
            acceptor: Acceptor::default(),
            is_silent: false,
        });
        if node.list.epoch() < list.epoch() {
            node.list = list.clone();
            node.acceptor.adopted();
        }
    }

    fn deliver(&mut self, request: usize) {
        let (attempt, to, request) = self.requests.swap_remove(request);
        if let VoteRequest::Prepare { on, .. } = &request
            && let Some(decided) = self.decided.get(&on.epoch()).cloned()
        {
            self.adopt(to, &decided);
        }
        let bug = self.bug;
        let Some(node) = self.nodes.get_mut(to).filter(|node| !node.is_silent) else {
            self.answers.push((attempt, to, VoteAnswer::Missed));
            return;
        };
        let request = match request {
            // Its members are those that it wishes.
            VoteRequest::Prepare { ballot, .. } if bug == Some(Bug::OwnMajority) => {
                let on = node.list.clone();
                VoteRequest::Prepare { on, ballot }
            }
            request => request,
        };
        let before = node.acceptor.clone();
        let mut answer = node.acceptor.receive(&node.list, request);
        match (bug, &mut answer) {
            (Some(Bug::NoPromise), VoteAnswer::Promised(_)) => node.acceptor = before,
            (Some(Bug::ForgetVote), VoteAnswer::Accepted) => node.acceptor = before,
            (Some(Bug::IgnoreAccepted), VoteAnswer::Promised(accepted)) => *accepted = None,
            _ => {}
        }
        self.answers.push((attempt, to, answer));
    }

    fn receive(&mut self, answer: usize) {
        let (attempt, from, answer) = self.answers.swap_remove(answer);
        let mut actions = Vec::new();
        self.attempts[attempt]
            .proposer
            .step(from, answer, &mut actions);
        self.act(attempt, actions);
    }

    /// A store loses its votes. It votes again once no attempt is left in which it may have voted,
    /// with what all others know.
    fn lose_votes(&mut self) {
        let ids: Vec<NodeId> = self.nodes.ids().collect();
        let chosen = ids[self.rng.usize(0..ids.len())];
        let is_other_silent = self.nodes.values().any(|node| node.is_silent);
        if is_other_silent {
            return;
        }
        let is_silent = self.bug != Some(Bug::LostVotes);
        if let Some(node) = self.nodes.get_mut(chosen) {
            node.acceptor = Acceptor::default();
            node.is_silent = is_silent;
        }
    }

    fn vote_again(&mut self) {
        let is_over = self.attempts.iter().all(|attempt| attempt.has_ended);
        if !is_over || !self.requests.is_empty() {
            return;
        }
        let newest = self.nodes.values().max_by_key(|node| node.list.epoch());
        let newest = newest.unwrap().list.clone();
        let others = self.nodes.values().filter(|node| !node.is_silent);
        let others: Vec<Acceptor> = others
            .filter(|node| node.list.epoch() == newest.epoch())
            .map(|node| node.acceptor.clone())
            .collect();
        for node in self.nodes.values_mut().filter(|node| node.is_silent) {
            if node.list.epoch() < newest.epoch() {
                node.list = newest.clone();
                node.acceptor.adopted();
            }
            for other in &others {
                node.acceptor.take_over(other);
            }
            node.is_silent = false;
        }
    }

    fn step(&mut self) {
        match self.rng.u8(0..100) {
            0..8 => self.begin(),
            8..45 if !self.requests.is_empty() => {
                let request = self.rng.usize(0..self.requests.len());
                self.deliver(request);
            }
            45..80 if !self.answers.is_empty() => {
                let answer = self.rng.usize(0..self.answers.len());
                self.receive(answer);
            }
            80..84 if !self.requests.is_empty() => {
                let lost = self.rng.usize(0..self.requests.len());
                let (attempt, to, _) = self.requests.swap_remove(lost);
                self.answers.push((attempt, to, VoteAnswer::Missed));
            }
            84..87 if !self.answers.is_empty() => {
                let lost = self.rng.usize(0..self.answers.len());
                self.answers[lost].2 = VoteAnswer::Missed;
            }
            // A proposer crashes, or its time is over. What it has sent stays on its way.
            87..90 if !self.attempts.is_empty() => {
                let attempt = self.rng.usize(0..self.attempts.len());
                let mut actions = Vec::new();
                self.attempts[attempt].proposer.deadline(&mut actions);
                self.act(attempt, actions);
            }
            90..92 => self.lose_votes(),
            92..94 => self.vote_again(),
            94.. => {
                // Somebody hears of a list.
                let ids: Vec<NodeId> = self.nodes.ids().collect();
                let node = ids[self.rng.usize(0..ids.len())];
                let lists: Vec<&MemberList> = self.decided.values().collect();
                let list = lists[self.rng.usize(0..lists.len())].clone();
                if list.get(node).is_some() {
                    self.adopt(node, &list);
                }
            }
            _ => {}
        }
    }
}

/// A list of the epoch of `current` whose old members are the new ones of `wish`.
fn members_of(wish: &MemberList, current: &MemberList) -> Option<MemberList> {
    let members = wish.members_of(cluster::WhichList::New);
    let members = members.map(|it| it.member.clone()).collect();
    let pair = Replicas { ack: 1, from: 1 };
    let founded = MemberList::founding(ClusterId::new(1), members, pair)?;
    // The IDs have to be those of the wish.
    let are_same = founded.members().iter().all(|it| {
        let listed = wish.named(it.member.name());
        listed.is_some_and(|listed| listed.id == it.id)
    });
    (are_same && current.epoch() == Epoch::default()).then_some(founded)
}

fn run(seed: u64, bug: Option<Bug>) -> World {
    let mut world = World::new(seed, bug);
    for _ in 0..400 {
        world.step();
        if world.violation.is_some() {
            break;
        }
    }
    world
}

#[test]
fn at_most_one_list_is_decided_for_each_epoch() {
    let mut decided = 0;
    for seed in 0..3_000 {
        let world = run(seed, None);
        assert_eq!(world.violation, None, "seed {seed}");
        decided += world.decided.len() - 1;
    }
    assert!(decided > 3_000, "{decided} lists");
}

#[test]
fn broken_rules_are_caught() {
    for bug in [
        Bug::NoPromise,
        Bug::IgnoreAccepted,
        Bug::OwnMajority,
        Bug::ForgetVote,
        Bug::LostVotes,
    ] {
        let is_caught = (0..5_000).any(|seed| run(seed, Some(bug)).violation.is_some());
        assert!(is_caught, "{bug:?}");
    }
}
