//! What the clients of a cluster asked and what they were told.
//!
//! A history holds only what a client can know: when it asked, whom, what, and
//! how that ended. That is all that the checker looks at.

use base::Timestamp;
use std::fmt;

/// A place in the order of all that clients did and heard: one operation
/// started after another had ended if its moment is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

/// An operation's place in its history. A value carries the number of the
/// operation that put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(pub(crate) usize);

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Put a value that nobody else puts.
    Put {
        /// In how many seconds it expires, if it does.
        ttl_seconds: Option<u64>,
    },
    /// Delete.
    Delete,
    /// Get.
    Get,
}

/// What a client asked of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// The client.
    pub(crate) client: usize,
    /// The node that was asked.
    pub(crate) node: usize,
    /// The key's number.
    pub(crate) key: u64,
    /// What to do with it.
    pub(crate) action: Action,
    /// How many replicas must answer.
    pub(crate) ack: u8,
    /// How many there are.
    pub(crate) from: u8,
}

/// What a read found under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The value of this put.
    Value(Number),
    /// Bytes that no put wrote.
    Garbage,
    /// No value: none was ever written, it was deleted or has expired.
    Absent,
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A write was acknowledged.
    Written {
        /// Its version.
        version: Timestamp,
        /// How many replicas have stored it.
        acks: u8,
    },
    /// A read was answered.
    Found {
        /// The version that won, also that of a tombstone or an expired value.
        version: Option<Timestamp>,
        /// What is there.
        content: Content,
        /// How many replicas have answered.
        acks: u8,
    },
    /// Too few replicas answered in time.
    NotEnough {
        /// The last stamp of a write.
        stamp: Option<Timestamp>,
    },
    /// The node took nothing on, so nothing has changed.
    Refused,
    /// The node fell silent: nobody knows.
    Lost,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// When the client heard of it.
    pub(crate) moment: Moment,
    /// The wall clock of the asked node then, in milliseconds since the Unix epoch.
    pub(crate) node_unix_ms: u64,
    /// What the client heard.
    pub(crate) outcome: Outcome,
}

/// An operation of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// What was asked.
    pub(crate) question: Question,
    /// When it was asked.
    pub(crate) asked: Moment,
    /// The wall clock of the asked node then, in milliseconds since the Unix epoch.
    pub(crate) node_unix_ms: u64,
    /// How it ended, if the client waited for that.
    pub(crate) end: Option<End>,
    /// Whether the operator has chosen that what it was told may be lost again:
    /// it binds nothing that comes later.
    pub(crate) is_forgiven: bool,
}

impl Operation {
    /// Whether this began after `other` had ended.
    pub(crate) fn is_after(&self, other: &Self) -> bool {
        other.end.is_some_and(|end| end.moment < self.asked)
    }

    /// What the client heard, if it heard anything.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.end.map(|end| end.outcome)
    }
}

/// Operations in the order in which they were asked.
#[derive(Default)]
pub(crate) struct History {
    operations: Vec<Operation>,
    moments: u64,
}

impl History {
    /// Notes that a client asks. `node_unix_ms` is the asked node's wall clock.
    pub(crate) fn ask(&mut self, question: Question, node_unix_ms: u64) -> Number {
        let asked = self.next_moment();
        self.operations.push(Operation {
            question,
            asked,
            node_unix_ms,
            end: None,
            is_forgiven: false,
        });
        Number(self.operations.len() - 1)
    }

    /// Notes what a client was told.
    pub(crate) fn tell(&mut self, number: Number, outcome: Outcome, node_unix_ms: u64) {
        let moment = self.next_moment();
        self.operations[number.0].end = Some(End {
            moment,
            node_unix_ms,
            outcome,
        });
    }

    /// What an operation was told may be lost.
    pub(crate) fn forgive(&mut self, number: Number) {
        self.operations[number.0].is_forgiven = true;
    }

    /// All operations.
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// An operation; `None` for a number that none has.
    pub(crate) fn get(&self, number: Number) -> Option<&Operation> {
        self.operations.get(number.0)
    }

    /// The operations on a key, each with its number.
    pub(crate) fn of_key(&self, key: u64) -> impl Iterator<Item = (Number, &Operation)> {
        self.operations
            .iter()
            .enumerate()
            .filter(move |(_, operation)| operation.question.key == key)
            .map(|(number, operation)| (Number(number), operation))
    }

    fn next_moment(&mut self) -> Moment {
        self.moments += 1;
        Moment(self.moments)
    }
}

impl fmt::Display for Question {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            node,
            key,
            action,
            ack,
            from,
        } = self;
        write!(formatter, "client {client} asks node {node}: ")?;
        match action {
            Action::Put { ttl_seconds: None } => write!(formatter, "PUT key {key}")?,
            Action::Put {
                ttl_seconds: Some(ttl),
            } => write!(formatter, "PUT key {key} for {ttl} s")?,
            Action::Delete => write!(formatter, "DELETE key {key}")?,
            Action::Get => write!(formatter, "GET key {key}")?,
        }
        write!(formatter, " {ack}/{from}")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written { version, acks } => {
                write!(formatter, "written as {version}, {acks} acks")
            }
            Self::Found {
                version,
                content,
                acks,
            } => {
                match content {
                    Content::Value(Number(put)) => write!(formatter, "value of #{put}")?,
                    Content::Garbage => write!(formatter, "garbage")?,
                    Content::Absent => write!(formatter, "absent")?,
                }
                match version {
                    Some(version) => write!(formatter, " at {version}, {acks} acks"),
                    None => write!(formatter, ", {acks} acks"),
                }
            }
            Self::NotEnough { stamp: Some(stamp) } => {
                write!(formatter, "not enough replicas, stamped {stamp}")
            }
            Self::NotEnough { stamp: None } => write!(formatter, "not enough replicas"),
            Self::Refused => write!(formatter, "refused"),
            Self::Lost => write!(formatter, "lost"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "@{} {}", self.asked.0, self.question)?;
        match self.end {
            Some(end) => write!(formatter, " -> @{} {}", end.moment.0, end.outcome),
            None => write!(formatter, " -> never heard of again"),
        }
    }
}
