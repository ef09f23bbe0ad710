//! How nodes agree on the next list of members: Paxos (Lamport, "Paxos Made Simple", 2001), one
//! instance for each epoch.
//!
//! The next list is decided by a majority of the old members of the list before
//! ([`MemberList::voters`]). An [`Acceptor`] is what one of them has promised and accepted; the node
//! keeps it in the file `CLUSTER`, durably, before it answers. A [`Proposer`] is one attempt of a
//! node to have a list decided:
//!
//! ```text
//!              majority has promised             majority has accepted
//!   Preparing ----------------------> Accepting ----------------------> End: Decided
//!       |                                 |
//!       '---- too few can still say yes --'----> End: Outvoted, NoMajority
//! ```
//!
//! - An acceptor promises only a ballot greater than all before, so no two attempts have one ballot
//!   at a majority, even if a proposer has forgotten its own.
//! - A proposer that hears of an accepted list proposes that one, not its own wish.
//! - A store that may have lost its votes does not vote. Before it does again, it takes over what
//!   the others have promised and accepted ([`Acceptor::take_over`]), at the earliest when every
//!   attempt has ended that it may have voted in. So an attempt must end by a deadline.

use super::{Epoch, MemberList};
use crate::members::{NodeId, NodeSet};
use base::ByteReader;

/// The number of an attempt: a greater one overrules a smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    round: u64,
    /// The ID of the proposer plus one; 0 for no ballot.
    proposer: u16,
}

impl Ballot {
    /// The least ballot of a proposer that is greater than `self`.
    #[must_use]
    pub fn next_of(self, proposer: NodeId) -> Self {
        Self {
            round: self.round.saturating_add(1),
            proposer: proposer.index() as u16 + 1,
        }
    }

    /// Adds the bytes of the ballot: round u64, proposer u16.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.round.to_le_bytes());
        out.extend_from_slice(&self.proposer.to_le_bytes());
    }

    /// Takes a ballot off the front of bytes.
    pub fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        Some(Self {
            round: reader.u64()?,
            proposer: reader.u16()?,
        })
    }
}

/// A list that an acceptor has accepted in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedList {
    /// The attempt.
    pub ballot: Ballot,
    /// The list.
    pub list: MemberList,
}

/// What an acceptor is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteRequest {
    /// To promise that it accepts no smaller ballot for the epoch after this one.
    Prepare {
        /// The decided list before, which an acceptor that has an earlier one adopts first.
        on: MemberList,
        /// The attempt.
        ballot: Ballot,
    },
    /// To accept a list.
    Accept {
        /// The attempt.
        ballot: Ballot,
        /// The list.
        list: MemberList,
    },
}

/// What an acceptor answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteAnswer {
    /// It has promised, and this is what it has accepted last.
    Promised(Option<Box<AcceptedList>>),
    /// It has accepted the list.
    Accepted,
    /// It has promised this ballot.
    Outvoted(Ballot),
    /// The epoch is decided: this is the acceptor's list, of that epoch or a later one.
    Decided(Box<MemberList>),
    /// It does not vote, or did not answer.
    Missed,
}

/// What a member has promised and accepted for the epoch after its list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acceptor {
    promised: Ballot,
    accepted: Option<Box<AcceptedList>>,
}

impl Acceptor {
    /// Answers a request. `current` is the list that this node has adopted; a node whose list is
    /// earlier than the one before the request adopts that one first. What changes here has to be
    /// durable before the answer is sent.
    #[must_use]
    pub fn receive(&mut self, current: &MemberList, request: VoteRequest) -> VoteAnswer {
        let (epoch, ballot) = match &request {
            VoteRequest::Prepare { on, ballot } => (on.epoch().next(), *ballot),
            VoteRequest::Accept { ballot, list } => (list.epoch(), *ballot),
        };
        if epoch <= current.epoch() {
            return VoteAnswer::Decided(Box::new(current.clone()));
        }
        if epoch != current.epoch().next() {
            return VoteAnswer::Missed;
        }
        match request {
            VoteRequest::Prepare { on, .. } => {
                if on != *current {
                    return VoteAnswer::Missed;
                }
                if ballot <= self.promised {
                    return VoteAnswer::Outvoted(self.promised);
                }
                self.promised = ballot;
                VoteAnswer::Promised(self.accepted.clone())
            }
            VoteRequest::Accept { list, .. } => {
                if ballot < self.promised {
                    return VoteAnswer::Outvoted(self.promised);
                }
                if !list.may_follow(current) {
                    return VoteAnswer::Missed;
                }
                self.promised = ballot;
                self.accepted = Some(Box::new(AcceptedList { ballot, list }));
                VoteAnswer::Accepted
            }
        }
    }

    /// What to keep once a list is adopted: nothing is promised for the epoch after it.
    pub fn adopted(&mut self) {
        *self = Self::default();
    }

    /// Takes over what another member has promised and accepted, for a store that may have lost
    /// its own votes.
    pub fn take_over(&mut self, other: &Self) {
        self.promised = self.promised.max(other.promised);
        let ballot = |acceptor: &Self| acceptor.accepted.as_ref().map(|it| it.ballot);
        if ballot(other) > ballot(self) {
            self.accepted.clone_from(&other.accepted);
        }
    }

    /// The greatest ballot that it has promised or accepted.
    #[must_use]
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// Adds the bytes of the acceptor: `promised | is accepted u8 | ballot | list`, the last two if
    /// it has accepted one.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.promised.encode(out);
        out.push(self.accepted.is_some().into());
        if let Some(accepted) = &self.accepted {
            accepted.ballot.encode(out);
            accepted.list.encode(out);
        }
    }

    /// Takes an acceptor off the front of bytes; [`None`] if no node wrote them.
    pub fn decode(reader: &mut ByteReader<'_>) -> Option<Self> {
        let promised = Ballot::decode(reader)?;
        let accepted = match reader.u8()? {
            0 => None,
            1 => Some(Box::new(AcceptedList {
                ballot: Ballot::decode(reader)?,
                list: MemberList::decode(reader)?,
            })),
            _ => return None,
        };
        Some(Self { promised, accepted })
    }
}

/// What to do for an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProposerAction {
    /// Send it to a member; an answer or [`VoteAnswer::Missed`] is to follow.
    Ask(NodeId, VoteRequest),
    /// The attempt has ended.
    End(AttemptEnd),
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// This list is decided, which may be another than was wished.
    Decided(Box<MemberList>),
    /// Another attempt has a greater ballot; a new one needs a ballot above this one.
    Outvoted(Ballot),
    /// No majority answers.
    NoMajority,
}

/// One attempt to have a list decided.
#[derive(Clone, Debug)]
pub struct Proposer {
    current: MemberList,
    ballot: Ballot,
    stage: Stage,
    /// Who has promised, then who has accepted.
    agreed: NodeSet,
    /// From whom an answer is awaited.
    awaited: NodeSet,
    /// What was accepted with the greatest ballot; until then the wish.
    accepted: Ballot,
    list: MemberList,
    /// The greatest ballot that has outvoted this one.
    outvoted: Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Accepting,
    Ended,
}

impl Proposer {
    /// Begins an attempt to have `wish` decided as the list after `current`. Its ballot is above
    /// `above`: the greatest one that this node knows of.
    #[must_use]
    pub fn start(
        own: NodeId,
        current: MemberList,
        wish: MemberList,
        above: Ballot,
        actions: &mut Vec<ProposerAction>,
    ) -> Self {
        let voters = current.voters();
        let proposer = Self {
            ballot: above.next_of(own),
            stage: Stage::Preparing,
            agreed: NodeSet::default(),
            awaited: voters,
            accepted: Ballot::default(),
            list: wish,
            outvoted: Ballot::default(),
            current,
        };
        let request = VoteRequest::Prepare {
            on: proposer.current.clone(),
            ballot: proposer.ballot,
        };
        proposer.ask(voters, &request, actions);
        proposer
    }

    /// Takes the answer of a member, and adds what follows from it to `actions`.
    pub fn step(&mut self, from: NodeId, answer: VoteAnswer, actions: &mut Vec<ProposerAction>) {
        if self.stage == Stage::Ended {
            return;
        }
        if let VoteAnswer::Decided(list) = answer {
            self.end(AttemptEnd::Decided(list), actions);
            return;
        }
        if !self.awaited.contains(from) {
            return;
        }
        match (self.stage, answer) {
            (Stage::Preparing, VoteAnswer::Promised(accepted)) => {
                if let Some(accepted) = accepted
                    && accepted.ballot > self.accepted
                {
                    self.accepted = accepted.ballot;
                    self.list = accepted.list;
                }
                self.agreed.insert(from);
            }
            (Stage::Accepting, VoteAnswer::Accepted) => self.agreed.insert(from),
            (_, VoteAnswer::Outvoted(ballot)) => self.outvoted = self.outvoted.max(ballot),
            // No answer to what was asked.
            _ => {}
        }
        self.awaited.remove(from);
        self.advance(actions);
    }

    /// Ends the attempt: no answer is awaited any more.
    pub fn deadline(&mut self, actions: &mut Vec<ProposerAction>) {
        if self.stage != Stage::Ended {
            self.awaited = NodeSet::default();
            self.advance(actions);
        }
    }

    fn advance(&mut self, actions: &mut Vec<ProposerAction>) {
        if self.current.is_majority(self.agreed) {
            match self.stage {
                Stage::Preparing => {
                    self.stage = Stage::Accepting;
                    let promised = std::mem::take(&mut self.agreed);
                    self.awaited = promised;
                    let request = VoteRequest::Accept {
                        ballot: self.ballot,
                        list: self.list.clone(),
                    };
                    self.ask(promised, &request, actions);
                }
                _ => self.end(AttemptEnd::Decided(Box::new(self.list.clone())), actions),
            }
        } else if !self.current.is_majority(self.agreed.union(self.awaited)) {
            let end = if self.outvoted > Ballot::default() {
                AttemptEnd::Outvoted(self.outvoted)
            } else {
                AttemptEnd::NoMajority
            };
            self.end(end, actions);
        }
    }

    fn ask(&self, nodes: NodeSet, request: &VoteRequest, actions: &mut Vec<ProposerAction>) {
        let asks = nodes
            .iter()
            .map(|node| ProposerAction::Ask(node, request.clone()));
        actions.extend(asks);
    }

    fn end(&mut self, end: AttemptEnd, actions: &mut Vec<ProposerAction>) {
        self.stage = Stage::Ended;
        actions.push(ProposerAction::End(end));
    }
}

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.as_u64().saturating_add(1))
    }
}
