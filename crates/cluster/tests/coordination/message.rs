//! The messages between the nodes of the model.

use base::Entry;
use cluster::{Miss, ReadEvent, ReplicaIndex, Round, WriteEvent};

/// A message on its way.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To a replica.
    Request {
        operation: usize,
        replica: ReplicaIndex,
        request: Request,
    },
    /// Back to the machine.
    Answer { operation: usize, event: Event },
    /// From a coordinator's hints to the replica that they are for.
    Hint { replica: ReplicaIndex, entry: Entry },
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Write { round: Round, entry: Entry },
    KeepHint { round: Round, entry: Entry },
    Repair { entry: Entry },
    Read,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(WriteEvent),
    Read(ReadEvent),
}

/// The event that a coordinator gets instead of the answer to a request.
pub(crate) fn missed(replica: ReplicaIndex, request: &Request, why: Miss) -> Option<Event> {
    Some(match request {
        Request::Write { round, .. } => Event::Write(WriteEvent::Missed {
            round: *round,
            replica,
            why,
        }),
        Request::Read => Event::Read(ReadEvent::Missed { replica, why }),
        Request::Repair { .. } => Event::Read(ReadEvent::RepairMissed { replica, why }),
        Request::KeepHint { .. } => return None,
    })
}

/// The event that a coordinator gets instead of an answer that is lost.
pub(crate) fn missed_instead(event: &Event) -> Option<Event> {
    let why = Miss::Timeout;
    Some(match *event {
        Event::Write(WriteEvent::Stored { round, replica, .. }) => {
            Event::Write(WriteEvent::Missed {
                round,
                replica,
                why,
            })
        }
        Event::Read(ReadEvent::Answered { replica, .. }) => {
            Event::Read(ReadEvent::Missed { replica, why })
        }
        Event::Read(ReadEvent::Repaired { replica, .. }) => {
            Event::Read(ReadEvent::RepairMissed { replica, why })
        }
        Event::Write(_) | Event::Read(_) => return None,
    })
}
