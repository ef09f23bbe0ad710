//! The coordinator's side of a repair session.

use super::{SessionAnswer, SessionRequest, Token};
use crate::comparison::Pair;
use crate::layout::Epoch;
use crate::{NodeId, NodeTable};
use base::Timestamp;
use std::collections::BTreeSet;

/// How often the nodes compare a range at most. Each time settles what the one before has moved,
/// and a version moves no further than from a holder to its replicas, and from those to all that
/// have an older one.
const ROUNDS_MAX: u8 = 4;

/// A session, as its coordinator leads it.
///
/// It asks all nodes at the same time, and goes on once all have answered or were missed. A node
/// that was missed takes no further part in this attempt; none of its pairs is equal then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    pub(super) token: Token,
    /// All members.
    pub(super) nodes: NodeTable<Node>,
    pub(super) phase: Phase,
    /// What all nodes have closed, and the GC threshold may rise to; [`Timestamp::ZERO`] if it
    /// cannot.
    pub(super) below: Timestamp,
    /// The range that is compared.
    pub(super) range: u32,
    /// How often it was compared.
    pub(super) round: u8,
    /// Whether something that is not above the cut was moved when it was last compared.
    pub(super) has_moved: bool,
    /// The pairs that are to be compared in this round.
    pub(super) comparing: BTreeSet<Pair>,
    /// Which node may lack something that another one has, of some range.
    pub(super) lacking: BTreeSet<(NodeId, NodeId)>,
}

/// How far a session has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    Begin,
    Close,
    /// A range is over, and the caller says what comes next.
    Between,
    Open,
    Compare,
    Sync,
    Finish,
    Over,
}

/// What a session knows of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) takes_part: bool,
    pub(super) is_asked: bool,
    /// What it has answered to the first request, and whether it still stands by that.
    pub(super) gc_threshold: Timestamp,
    pub(super) closed: Timestamp,
    pub(super) latest: Timestamp,
    pub(super) may_raise: bool,
}

impl Node {
    const UP: Self = Self {
        takes_part: true,
        is_asked: false,
        gc_threshold: Timestamp::ZERO,
        closed: Timestamp::ZERO,
        latest: Timestamp::ZERO,
        may_raise: false,
    };
}

/// What a session has shown up to a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown {
    /// What all nodes have closed; [`Timestamp::ZERO`] if the session raises nothing.
    pub below: Timestamp,
    /// The pairs that are not equal.
    pub unequal: BTreeSet<Pair>,
}

/// What happens in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// A node has answered.
    Answered {
        /// The node.
        node: NodeId,
        /// Its answer.
        answer: SessionAnswer,
    },
    /// A node has not answered in time, or does not do as asked.
    Missed {
        /// The node.
        node: NodeId,
    },
    /// Two nodes were compared in the range.
    Compared {
        /// The nodes.
        pair: Pair,
        /// How they came out of it.
        outcome: Compared,
    },
    /// What comes next, once a range is over.
    Next(Next),
}

/// How two nodes came out of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// They are equal, and nothing was moved that is not above the cut.
    Equal,
    /// They are equal now.
    Moved,
    /// They may differ.
    Unequal {
        /// Which of them may lack something.
        lacking: Lacking,
        /// Whether something was moved that is not above the cut.
        has_moved: bool,
    },
}

impl Compared {
    /// They may differ, and neither may have all that the other one has.
    pub const UNKNOWN: Self = Self::Unequal {
        lacking: Lacking::Both,
        has_moved: false,
    };

    /// The same, but that something was moved.
    #[must_use]
    pub fn moved(self) -> Self {
        match self {
            Self::Equal | Self::Moved => Self::Moved,
            Self::Unequal { lacking, .. } => Self::Unequal {
                lacking,
                has_moved: true,
            },
        }
    }
}

/// Which of two nodes may lack something that the other one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// The one with the lower ID.
    Lower,
    /// The one with the higher ID.
    Upper,
    /// Both.
    Both,
}

/// What the caller decides between two ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is another range.
    Range,
    /// A checkpoint is due.
    Checkpoint,
    /// All ranges were compared.
    Finish,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionAction {
    /// Ask a node.
    Ask {
        /// The node.
        node: NodeId,
        /// What for.
        request: SessionRequest,
    },
    /// Have two nodes compare the range.
    Compare(Pair),
    /// Say what comes next.
    Decide,
    /// Store a checkpoint, then say what comes next.
    Checkpoint,
    /// Another session has begun: begin no other one until that is over. If it is the same session,
    /// a store has lost something since: begin another one.
    Preempted {
        /// Its token.
        by: Token,
    },
    /// The session is over.
    End {
        /// What the GC threshold has risen to; [`Timestamp::ZERO`] if it has not.
        gc_threshold: Timestamp,
    },
}

impl Session {
    /// Begins a session of an epoch with the nodes that are up, of all members; or goes on with what was
    /// `shown` up to a checkpoint, with a greater token.
    #[must_use]
    pub fn start(
        token: Token,
        epoch: Epoch,
        up: impl IntoIterator<Item = (NodeId, bool)>,
        shown: Option<Shown>,
    ) -> (Self, Vec<SessionAction>) {
        let (below, unequal) = match shown {
            Some(shown) => (shown.below, shown.unequal),
            None => (Timestamp::MAX, BTreeSet::new()),
        };
        let lacking = unequal.into_iter().flat_map(both_lack).collect();
        let mut session = Self {
            token,
            nodes: NodeTable::default(),
            phase: Phase::Begin,
            below,
            range: 0,
            round: 0,
            has_moved: false,
            comparing: BTreeSet::new(),
            lacking,
        };
        let mut away = Vec::new();
        for (node, is_up) in up {
            session.nodes.insert(node, Node::UP);
            away.extend((!is_up).then_some(node));
        }
        away.into_iter().for_each(|node| session.lose(node));
        let mut actions = Vec::new();
        session.ask(SessionRequest::Begin { epoch }, &mut actions);
        (session, actions)
    }

    /// The token of this attempt.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether a node takes part, and has answered or is still asked.
    #[must_use]
    pub fn takes_part(&self, node: NodeId) -> bool {
        let node = self.nodes.get(node);
        node.is_some_and(|node| node.takes_part)
    }

    /// What a checkpoint remembers.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let lacking = self.lacking.iter();
        Shown {
            below: self.below,
            unequal: lacking.map(|(node, of)| Pair::of(*node, *of)).collect(),
        }
    }

    /// The pairs that every range has shown to be equal. Once the session is over this is durable.
    #[must_use]
    pub fn equal(&self) -> Vec<Pair> {
        let pairs = self.pairs().into_iter();
        let is_equal = |pair: &Pair| {
            both_lack(*pair)
                .iter()
                .all(|lack| !self.lacking.contains(lack))
        };
        pairs.filter(is_equal).collect()
    }

    /// The nodes of which a node has all that they have, as every range has shown, whether they lack
    /// something of it or not. Once the session is over this is durable.
    #[must_use]
    pub fn has_all_of(&self, node: NodeId) -> Vec<NodeId> {
        let others = self.nodes.ids().filter(|of| {
            *of != node && self.takes_part(*of) && !self.lacking.contains(&(node, *of))
        });
        others.filter(|_| self.takes_part(node)).collect()
    }

    /// What happens, and what to do about it.
    #[must_use]
    pub fn step(mut self, event: SessionEvent) -> (Self, Vec<SessionAction>) {
        let mut actions = Vec::new();
        match event {
            SessionEvent::Answered {
                node,
                answer: SessionAnswer::Refused { greatest },
            } if self.is_preempted_by(greatest) => {
                self.lose(node);
                self.phase = Phase::Over;
                actions.push(SessionAction::Preempted { by: greatest });
                // Those that have begun it need not wait for it.
                self.tell_outcome(Timestamp::ZERO, &mut actions);
                return (self, actions);
            }
            SessionEvent::Answered { node, answer } => self.take(node, answer),
            SessionEvent::Missed { node } => self.lose(node),
            SessionEvent::Compared { pair, outcome } => self.compared(pair, outcome),
            SessionEvent::Next(next) => self.go_on(next, &mut actions),
        }
        let is_waiting = self.nodes.values().any(|node| node.is_asked);
        if !is_waiting && self.comparing.is_empty() {
            self.advance(&mut actions);
        }
        (self, actions)
    }

    /// Whether a store that refuses a request ends the session: it does not begin with it, or it
    /// takes part in a later one. Once the last question was asked, the outcome is told to all.
    fn is_preempted_by(&self, greatest: Token) -> bool {
        match self.phase {
            Phase::Begin => true,
            Phase::Finish | Phase::Over => false,
            _ => greatest > self.token,
        }
    }

    fn take(&mut self, number: NodeId, answer: SessionAnswer) {
        let Some(node) = self.nodes.get_mut(number) else {
            return;
        };
        if !std::mem::replace(&mut node.is_asked, false) {
            return;
        }
        match answer {
            SessionAnswer::Begun {
                gc_threshold,
                closed,
                latest,
                may_raise,
            } if self.phase == Phase::Begin => {
                (node.gc_threshold, node.closed) = (gc_threshold, closed);
                (node.latest, node.may_raise) = (latest, may_raise);
            }
            SessionAnswer::Closed(closed) if self.phase == Phase::Close => {
                self.below = self.below.min(closed);
            }
            SessionAnswer::Synced { may_raise } if self.phase == Phase::Finish => {
                node.may_raise = may_raise;
            }
            SessionAnswer::Synced { may_raise } if self.phase == Phase::Sync => {
                if !may_raise {
                    self.below = Timestamp::ZERO;
                }
            }
            SessionAnswer::Done if self.phase == Phase::Open => {}
            _ => self.lose(number),
        }
    }

    fn lose(&mut self, node: NodeId) {
        let Some(lost) = self.nodes.get_mut(node) else {
            return;
        };
        *lost = Node::default();
        let others = self.nodes.ids().filter(|other| *other != node);
        let lacking = others.flat_map(|other| both_lack(Pair::of(node, other)));
        self.lacking.extend(lacking);
        self.comparing
            .retain(|pair| pair.other_than(node).is_none());
    }

    fn compared(&mut self, pair: Pair, outcome: Compared) {
        if self.comparing.remove(&pair) {
            // What a node has got may be hidden by what another one has, even if that one could not
            // take something else.
            self.has_moved |= outcome == outcome.moved();
            if let Compared::Unequal { lacking, .. } = outcome {
                let [lower, upper] = both_lack(pair);
                match lacking {
                    Lacking::Lower => self.lacking.extend([lower]),
                    Lacking::Upper => self.lacking.extend([upper]),
                    Lacking::Both => self.lacking.extend([lower, upper]),
                }
            }
        }
    }

    /// All that was asked for is done.
    fn advance(&mut self, actions: &mut Vec<SessionAction>) {
        match self.phase {
            Phase::Begin => self.close(actions),
            Phase::Close => {
                if !self.are_all() || self.below <= self.greatest_gc_threshold() {
                    self.below = Timestamp::ZERO;
                }
                self.decide(actions);
            }
            Phase::Open => self.compare(actions),
            Phase::Compare => {
                let has_moved = std::mem::take(&mut self.has_moved);
                if has_moved {
                    // What a node has got was not compared with those that it was compared with
                    // before: one of them may have a newer version of fewer copies, maybe a
                    // tombstone.
                    if self.round < ROUNDS_MAX {
                        return self.compare(actions);
                    }
                    self.below = Timestamp::ZERO;
                }
                self.decide(actions);
            }
            Phase::Sync => {
                self.phase = Phase::Between;
                actions.push(SessionAction::Checkpoint);
            }
            Phase::Finish => {
                let gc_threshold = self.raises_to();
                self.phase = Phase::Over;
                self.tell_outcome(gc_threshold, actions);
                actions.push(SessionAction::End { gc_threshold });
            }
            Phase::Between | Phase::Over => {}
        }
    }

    fn go_on(&mut self, next: Next, actions: &mut Vec<SessionAction>) {
        if self.phase != Phase::Between {
            return;
        }
        match next {
            Next::Range => {
                self.phase = Phase::Open;
                let range = self.range;
                self.range += 1;
                self.round = 0;
                self.ask(SessionRequest::Open { range }, actions);
            }
            Next::Checkpoint => {
                self.phase = Phase::Sync;
                self.ask(SessionRequest::Sync, actions);
            }
            Next::Finish => {
                self.phase = Phase::Finish;
                let below = self.may_raise_to();
                self.below = below;
                self.ask(SessionRequest::Finish { below }, actions);
            }
        }
    }

    /// All that are up have begun.
    fn close(&mut self, actions: &mut Vec<SessionAction>) {
        self.phase = Phase::Close;
        let are_all = self.are_all();
        let gc_threshold = self.greatest_gc_threshold();
        let latest = self.nodes.values().map(|node| node.latest).min();
        let may_raise = self.nodes.values().all(|node| node.may_raise);
        let closed = self.nodes.values().map(|node| node.closed);
        let closed = closed.fold(gc_threshold, Timestamp::max);
        // A timestamp that is closed and leads to nothing would only refuse slow writes. And each
        // session closes something new: a store that has answered for as much as one raises has
        // answered that one, or a later one, and not an earlier one in vain.
        let below = match latest {
            _ if !are_all => Timestamp::ZERO,
            _ if self.token.is_resumed() && may_raise => self.below,
            Some(latest) if !self.token.is_resumed() && latest > closed => latest,
            _ => Timestamp::ZERO,
        };
        self.below = below;
        let close = SessionRequest::Close {
            gc_threshold,
            below,
            are_all,
        };
        self.ask(close, actions);
    }

    fn compare(&mut self, actions: &mut Vec<SessionAction>) {
        self.phase = Phase::Compare;
        self.round += 1;
        self.comparing = self.pairs().into_iter().collect();
        actions.extend(self.comparing.iter().copied().map(SessionAction::Compare));
        if self.comparing.is_empty() {
            self.decide(actions);
        }
    }

    fn decide(&mut self, actions: &mut Vec<SessionAction>) {
        self.phase = Phase::Between;
        actions.push(SessionAction::Decide);
    }

    /// What the GC threshold may rise to, as far as the comparisons go.
    fn may_raise_to(&self) -> Timestamp {
        if self.are_all() && self.lacking.is_empty() {
            self.below
        } else {
            Timestamp::ZERO
        }
    }

    /// What it rises to, once all have answered the last question.
    fn raises_to(&self) -> Timestamp {
        if self.nodes.values().all(|node| node.may_raise) {
            self.may_raise_to()
        } else {
            Timestamp::ZERO
        }
    }

    fn are_all(&self) -> bool {
        self.nodes.values().all(|node| node.takes_part)
    }

    fn greatest_gc_threshold(&self) -> Timestamp {
        let named = self.nodes.values().map(|node| node.gc_threshold);
        named.fold(Timestamp::ZERO, Timestamp::max)
    }

    /// The pairs of nodes that take part.
    fn pairs(&self) -> Vec<Pair> {
        let taking_part: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.takes_part)
            .map(|(number, _)| number)
            .collect();
        let mut pairs = Vec::new();
        for (index, one) in taking_part.iter().enumerate() {
            let others = &taking_part[index + 1..];
            pairs.extend(others.iter().map(|other| Pair::of(*one, *other)));
        }
        pairs
    }

    /// Tells all that take part. What they answer does not matter.
    fn tell_outcome(&mut self, gc_threshold: Timestamp, actions: &mut Vec<SessionAction>) {
        self.ask(SessionRequest::Outcome { gc_threshold }, actions);
        self.nodes
            .values_mut()
            .for_each(|node| node.is_asked = false);
    }

    /// Asks all that take part.
    fn ask(&mut self, request: SessionRequest, actions: &mut Vec<SessionAction>) {
        for (number, node) in self.nodes.iter_mut() {
            node.is_asked = node.takes_part;
            if node.takes_part {
                let node = number;
                actions.push(SessionAction::Ask { node, request });
            }
        }
    }
}

/// That each of two nodes lacks something of the other one: first the lower one.
fn both_lack(pair: Pair) -> [(NodeId, NodeId); 2] {
    [(pair.lower, pair.upper), (pair.upper, pair.lower)]
}
