//! Takes changes of the list of members forward: every node runs a [`Driver`].
//!
//! It is a state machine: a shell feeds it events, and carries out its actions. A command of an
//! operator is planned on the present list, and has an attempt at once. What follows by itself
//! ([`MemberList::progress`]) is the same on each node that has heard of the same reports, so any of
//! them may propose it. To spare attempts that outvote each other, the members that are up take
//! turns in the order of their names: the first one proposes at once, and each further one
//! [`TURN`] later. So the next one goes on if the one before it has died, and no step is lost: all
//! that a change waits for is durable at those who report it.

use super::paxos::{AttemptEnd, Ballot, Proposer, ProposerAction, VoteAnswer, VoteRequest};
use super::{Change, ChangeProgress, MemberList, MemberReport, Refusal, Reports};
use crate::members::{NodeId, NodeSet};
use std::time::Duration;

/// How long a node leaves a step to the one whose turn comes before its own.
pub const TURN: Duration = Duration::from_secs(1);
/// How long an attempt may take. A store that has lost its votes waits longer before it votes.
pub const ATTEMPT_MAX: Duration = Duration::from_secs(2);
/// How long a node pauses after an attempt that was outvoted or had no majority, and as long again
/// for each member whose name comes before its own.
pub const PAUSE: Duration = Duration::from_millis(200);

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    /// This node has adopted a list, durably.
    Adopted(Box<MemberList>),
    /// A member, or this node, reports.
    Reported(NodeId, MemberReport),
    /// These nodes are up, with this one.
    Up(NodeSet),
    /// An operator asks for a change.
    Asked {
        /// The number of the command, which is answered once.
        command: u64,
        /// What is asked for.
        change: Change,
        /// Until when, on the monotonic clock.
        deadline: Duration,
    },
    /// A member answers, or does not: [`VoteAnswer::Missed`].
    Voted {
        /// In which attempt.
        attempt: u64,
        /// Who.
        from: NodeId,
        /// What.
        answer: VoteAnswer,
    },
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverAction {
    /// Send it to a member, which may be this node; [`DriverEvent::Voted`] is to follow.
    Ask {
        /// In which attempt.
        attempt: u64,
        /// To whom.
        node: NodeId,
        /// What.
        request: VoteRequest,
    },
    /// Adopt a list that was decided; [`DriverEvent::Adopted`] is to follow.
    Adopt(Box<MemberList>),
    /// Answer an operator.
    Reply {
        /// The number of the command.
        command: u64,
        /// What became of it.
        outcome: Result<(), CommandFailure>,
    },
}

/// Why a command has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandFailure {
    /// It cannot be done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too few of those who decide answer. The change may yet be decided.
    #[error(
        "no majority of the members answers in time, so nothing may have changed: see the list of \
         members, start nodes that are down, and try again"
    )]
    NoMajority,
    /// Another command is under way at this node.
    #[error("another command is under way at this node: try again once it has ended")]
    Busy,
}

/// The state of a node's part in changes of the list.
#[derive(Clone, Debug)]
pub struct Driver {
    own: NodeId,
    list: MemberList,
    reports: Reports,
    up: NodeSet,
    command: Option<Command>,
    attempt: Option<Attempt>,
    /// The attempts so far.
    attempts: u64,
    /// The greatest ballot that is known.
    above: Ballot,
    /// When the next step became possible.
    ready_since: Option<Duration>,
    /// No attempt begins earlier.
    paused_until: Duration,
}

#[derive(Clone, Debug)]
struct Command {
    number: u64,
    change: Change,
    deadline: Duration,
    /// The list that was proposed for it last.
    wish: Option<MemberList>,
}

#[derive(Clone, Debug)]
struct Attempt {
    proposer: Proposer,
    deadline: Duration,
}

impl Driver {
    /// That of a node which has adopted this list.
    #[must_use]
    pub fn new(own: NodeId, list: MemberList) -> Self {
        Self {
            own,
            list,
            reports: Reports::default(),
            up: NodeSet::from_iter([own]),
            command: None,
            attempt: None,
            attempts: 0,
            above: Ballot::default(),
            ready_since: None,
            paused_until: Duration::ZERO,
        }
    }

    /// Whether it has adopted this list, or a later one of the same cluster.
    #[must_use]
    pub fn has(&self, list: &MemberList) -> bool {
        list.epoch() <= self.list.epoch() && list.cluster() == self.list.cluster()
    }

    /// What the change waits for, or is ready for.
    #[must_use]
    pub fn progress(&self) -> ChangeProgress {
        self.list.progress(&self.reports)
    }

    /// Takes an event at a time of the monotonic clock, and adds what follows from it to `actions`.
    pub fn step(&mut self, event: DriverEvent, now: Duration, actions: &mut Vec<DriverAction>) {
        match event {
            DriverEvent::Adopted(list) => self.adopted(*list, actions),
            DriverEvent::Reported(node, report) => self.reports.record(node, report),
            DriverEvent::Up(up) => self.up = up,
            DriverEvent::Asked {
                command,
                change,
                deadline,
            } => self.asked(command, change, deadline, actions),
            DriverEvent::Voted {
                attempt,
                from,
                answer,
            } => {
                if attempt == self.attempts {
                    self.vote(now, actions, |proposer, asks| {
                        proposer.step(from, answer, asks);
                    });
                }
            }
            DriverEvent::Tick => {}
        }
        let is_over = |attempt: &Attempt| now >= attempt.deadline;
        if self.attempt.as_ref().is_some_and(is_over) {
            self.vote(now, actions, Proposer::deadline);
        }
        self.go_on(now, actions);
    }

    fn adopted(&mut self, list: MemberList, actions: &mut Vec<DriverAction>) {
        if self.has(&list) {
            return;
        }
        // It was for an epoch that is decided now.
        self.attempt = None;
        if let Some(command) = &mut self.command
            && command.wish.take().as_ref() == Some(&list)
        {
            self.reply(Ok(()), actions);
        }
        self.list = list;
        self.above = Ballot::default();
        self.ready_since = None;
        self.paused_until = Duration::ZERO;
    }

    fn asked(
        &mut self,
        number: u64,
        change: Change,
        deadline: Duration,
        actions: &mut Vec<DriverAction>,
    ) {
        if self.command.is_some() {
            actions.push(DriverAction::Reply {
                command: number,
                outcome: Err(CommandFailure::Busy),
            });
            return;
        }
        self.command = Some(Command {
            number,
            change,
            deadline,
            wish: None,
        });
    }

    fn reply(&mut self, outcome: Result<(), CommandFailure>, actions: &mut Vec<DriverAction>) {
        if let Some(command) = self.command.take() {
            let command = command.number;
            actions.push(DriverAction::Reply { command, outcome });
        }
    }

    /// Has the attempt that is under way take a step.
    fn vote(
        &mut self,
        now: Duration,
        actions: &mut Vec<DriverAction>,
        step: impl FnOnce(&mut Proposer, &mut Vec<ProposerAction>),
    ) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let mut asked = Vec::new();
        step(&mut attempt.proposer, &mut asked);
        self.act(now, asked, actions);
    }

    fn act(&mut self, now: Duration, asked: Vec<ProposerAction>, actions: &mut Vec<DriverAction>) {
        let attempt = self.attempts;
        for action in asked {
            match action {
                ProposerAction::Ask(node, request) => actions.push(DriverAction::Ask {
                    attempt,
                    node,
                    request,
                }),
                ProposerAction::End(end) => {
                    self.attempt = None;
                    self.paused_until = now + PAUSE * (1 + self.turn());
                    match end {
                        AttemptEnd::Decided(list) => actions.push(DriverAction::Adopt(list)),
                        AttemptEnd::Outvoted(ballot) => self.above = self.above.max(ballot),
                        AttemptEnd::NoMajority => {}
                    }
                }
            }
        }
    }

    /// Begins what is to be done.
    fn go_on(&mut self, now: Duration, actions: &mut Vec<DriverAction>) {
        if let Some(command) = &self.command
            && now >= command.deadline
        {
            self.reply(Err(CommandFailure::NoMajority), actions);
        }
        if self.attempt.is_some() || now < self.paused_until {
            return;
        }
        if let Some(command) = &mut self.command {
            match self.list.plan(&command.change, self.up) {
                Ok(wish) => {
                    command.wish = Some(wish.clone());
                    self.begin(wish, now, actions);
                }
                Err(refusal) => self.reply(Err(refusal.into()), actions),
            }
            return;
        }
        let ChangeProgress::Ready(next) = self.progress() else {
            self.ready_since = None;
            return;
        };
        let since = *self.ready_since.get_or_insert(now);
        if now >= since + TURN * self.turn() {
            self.begin(*next, now, actions);
        }
    }

    fn begin(&mut self, wish: MemberList, now: Duration, actions: &mut Vec<DriverAction>) {
        self.attempts += 1;
        let mut asked = Vec::new();
        let proposer = Proposer::start(self.own, self.list.clone(), wish, self.above, &mut asked);
        self.attempt = Some(Attempt {
            proposer,
            deadline: now + ATTEMPT_MAX,
        });
        // What this node has asked in earlier attempts is outvoted by later ones.
        self.above = self.above.next_of(self.own);
        self.act(now, asked, actions);
    }

    /// How many members that are up have their turn before this node.
    fn turn(&self) -> u32 {
        let own = self.list.get(self.own).map(|it| it.member.name());
        let before = self.list.members().iter().filter(|it| {
            let is_up = !it.is_dead && self.up.contains(it.id);
            is_up && own.is_none_or(|own| it.member.name() < own)
        });
        // At most 255.
        before.count() as u32
    }
}
