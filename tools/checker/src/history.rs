//! What the clients of a cluster asked for and what they were answered.
//!
//! A history holds only what a client can know: which request it sent to which
//! node, when, and how the request ended. The checker sees nothing else.

use base::Timestamp;
use std::fmt;

/// A position in the order of all invocations and completions of a history. An
/// operation began after another one had ended if its moment is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// The position of an operation in its history. A value carries the id of the
/// operation that put it, so a read says which put it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub usize);

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put a value that no other operation puts.
    Put {
        /// In how many seconds the value expires, if it does.
        ttl_seconds: Option<u64>,
    },
    /// Put a value that no other operation puts, if the key holds what is expected.
    PutIf(Expected),
    /// Delete.
    Delete,
    /// Delete, if the key holds what is expected.
    DeleteIf(Expected),
    /// Get.
    Get,
    /// What a scan of the cluster tells of the key. Each key of the scan is an operation
    /// of its own. The absence of a key says nothing about its version.
    Scan,
}

/// What a conditional write expects the key to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No value.
    Absent,
    /// The value of this version.
    Version(Timestamp),
}

impl Action {
    /// Whether it puts a value.
    #[must_use]
    pub fn is_put(self) -> bool {
        matches!(self, Self::Put { .. } | Self::PutIf(_))
    }

    /// Whether it deletes.
    #[must_use]
    pub fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteIf(_))
    }

    /// What it expects the key to hold, if it is a conditional write.
    #[must_use]
    pub fn expected(self) -> Option<Expected> {
        match self {
            Self::PutIf(expected) | Self::DeleteIf(expected) => Some(expected),
            _ => None,
        }
    }
}

/// A request of a client to a node.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The client.
    pub client: usize,
    /// The node that the client asked.
    pub node: usize,
    /// The number of the key.
    pub key: u64,
    /// What to do with the key.
    pub action: Action,
    /// How many replicas must answer.
    pub ack: u8,
    /// How many replicas the key has for this request.
    pub from: u8,
}

/// What a read returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The value of this put.
    Value(OperationId),
    /// Bytes that no operation wrote.
    Garbage,
    /// No value: the key was never written, was deleted, or has expired.
    Absent,
}

/// How a request ended, as far as the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A write was acknowledged.
    Written {
        /// The version of the write.
        version: Timestamp,
        /// How many replicas have stored it.
        acks: u8,
    },
    /// A read was answered.
    Found {
        /// The version that won, also that of a tombstone or of an expired value.
        version: Option<Timestamp>,
        /// What the read returned.
        content: Content,
        /// How many replicas answered.
        acks: u8,
    },
    /// The key does not hold what a conditional write expects, so nothing has changed.
    NotMatched,
    /// Too few replicas answered in time.
    NotEnough {
        /// The last timestamp of a write.
        timestamp: Option<Timestamp>,
    },
    /// The node did not accept the request, or a conditional write was not applied, so nothing
    /// has changed.
    Refused,
    /// The node never answered, so a write may have happened or not.
    Lost,
}

/// The end of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// When the client received the answer.
    pub moment: Moment,
    /// The answer.
    pub outcome: Outcome,
}

/// What a wall clock has shown, in milliseconds since the Unix epoch. Its node may have
/// acted by any time in between, because a clock can be set forth and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSpan {
    /// The earliest time.
    pub earliest_unix_ms: u64,
    /// The latest time.
    pub latest_unix_ms: u64,
}

impl ClockSpan {
    fn at(unix_ms: u64) -> Self {
        Self {
            earliest_unix_ms: unix_ms,
            latest_unix_ms: unix_ms,
        }
    }

    fn include(&mut self, unix_ms: u64) {
        self.earliest_unix_ms = self.earliest_unix_ms.min(unix_ms);
        self.latest_unix_ms = self.latest_unix_ms.max(unix_ms);
    }
}

/// An operation of a client.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The request.
    pub request: Request,
    /// When the client sent the request.
    pub invoked: Moment,
    /// What the wall clock of the asked node has shown while the operation ran.
    pub clock: ClockSpan,
    /// How the operation ended. `None` if the client stopped waiting.
    pub completion: Option<Completion>,
    /// Whether the operator chose a durability that may lose what this
    /// operation returned. Then it demands nothing of later operations.
    pub may_be_lost: bool,
    /// The greatest GC threshold of any node when the operation ended. What is dead below
    /// it may be absent.
    pub gc_threshold: Timestamp,
}

impl Operation {
    /// Whether this operation began after `other` had ended.
    #[must_use]
    pub fn began_after(&self, other: &Self) -> bool {
        other
            .completion
            .is_some_and(|completion| completion.moment < self.invoked)
    }

    /// Whether the answer says that this operation has changed nothing and never will.
    #[must_use]
    pub fn changed_nothing(&self) -> bool {
        matches!(self.outcome(), Some(Outcome::Refused | Outcome::NotMatched))
    }

    /// The answer, if the client received one.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.completion.map(|completion| completion.outcome)
    }
}

/// Operations in the order of their invocations.
#[derive(Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
    moments: u64,
}

impl History {
    /// Records that a client sends a request. `node_unix_ms` is the wall clock of
    /// the asked node, in milliseconds since the Unix epoch.
    pub fn invoke(&mut self, request: Request, node_unix_ms: u64) -> OperationId {
        let invoked = self.next_moment();
        self.operations.push(Operation {
            request,
            invoked,
            clock: ClockSpan::at(node_unix_ms),
            completion: None,
            may_be_lost: false,
            gc_threshold: Timestamp::ZERO,
        });
        OperationId(self.operations.len() - 1)
    }

    /// Records what the wall clock of a node shows, right before and right after it is set: the
    /// operations that the node runs may act by what it has shown in between.
    pub fn clock_shows(&mut self, node: usize, node_unix_ms: u64) {
        let is_running = |operation: &&mut Operation| {
            operation.completion.is_none() && operation.request.node == node
        };
        for operation in self.operations.iter_mut().filter(is_running) {
            operation.clock.include(node_unix_ms);
        }
    }

    /// Records the answer to an operation that was invoked.
    pub fn complete(&mut self, id: OperationId, outcome: Outcome, node_unix_ms: u64) {
        let moment = self.next_moment();
        if let Some(operation) = self.operations.get_mut(id.0) {
            operation.clock.include(node_unix_ms);
            operation.completion = Some(Completion { moment, outcome });
        }
    }

    /// Marks an operation whose result may be lost again: see
    /// [`Operation::may_be_lost`].
    pub fn allow_loss(&mut self, id: OperationId) {
        if let Some(operation) = self.operations.get_mut(id.0) {
            operation.may_be_lost = true;
        }
    }

    /// Notes the greatest GC threshold of any node when an operation ended: see
    /// [`Operation::gc_threshold`].
    pub fn ended_below(&mut self, id: OperationId, gc_threshold: Timestamp) {
        if let Some(operation) = self.operations.get_mut(id.0) {
            operation.gc_threshold = gc_threshold;
        }
    }

    /// All operations.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operation with this id, if there is one.
    #[must_use]
    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.operations.get(id.0)
    }

    /// The operations on a key.
    pub fn of_key(&self, key: u64) -> impl Iterator<Item = (OperationId, &Operation)> {
        self.operations
            .iter()
            .enumerate()
            .filter(move |(_, operation)| operation.request.key == key)
            .map(|(index, operation)| (OperationId(index), operation))
    }

    fn next_moment(&mut self) -> Moment {
        self.moments += 1;
        Moment(self.moments)
    }
}

impl fmt::Display for Request {
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
            Action::PutIf(expected) => write!(formatter, "PUT key {key} if {expected}")?,
            Action::Delete => write!(formatter, "DELETE key {key}")?,
            Action::DeleteIf(expected) => write!(formatter, "DELETE key {key} if {expected}")?,
            Action::Get => write!(formatter, "GET key {key}")?,
            Action::Scan => write!(formatter, "SCAN over key {key}")?,
        }
        write!(formatter, " {ack}/{from}")
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => formatter.write_str("absent"),
            Self::Version(version) => write!(formatter, "at {version}"),
        }
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
                    Content::Value(OperationId(put)) => write!(formatter, "value of #{put}")?,
                    Content::Garbage => write!(formatter, "garbage")?,
                    Content::Absent => write!(formatter, "absent")?,
                }
                match version {
                    Some(version) => write!(formatter, " at {version}, {acks} acks"),
                    None => write!(formatter, ", {acks} acks"),
                }
            }
            Self::NotEnough {
                timestamp: Some(timestamp),
            } => {
                write!(
                    formatter,
                    "not enough replicas, given a timestamp {timestamp}"
                )
            }
            Self::NotEnough { timestamp: None } => write!(formatter, "not enough replicas"),
            Self::NotMatched => write!(formatter, "not matched"),
            Self::Refused => write!(formatter, "refused"),
            Self::Lost => write!(formatter, "lost"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "@{} {}", self.invoked.0, self.request)?;
        match self.completion {
            Some(completion) => write!(
                formatter,
                " -> @{} {}",
                completion.moment.0, completion.outcome
            ),
            None => write!(formatter, " -> no answer"),
        }
    }
}
