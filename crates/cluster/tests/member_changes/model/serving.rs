//! What nodes do with the requests that reach them, and what they answer.

use super::Bug;
use super::conditional;
use super::node::entry_of;
use super::operations::{Event, Message, Operation, Request};
use super::world::World;
use base::Timestamp;
use cluster::layout::Epoch;
use cluster::{Miss, NodeId, ReadEvent, ReplicaIndex, WriteEvent};

/// A request that waits at a node until a promise is gone.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) operation: usize,
    target: NodeId,
    replica: ReplicaIndex,
    request: Request,
}

impl Held {
    pub(crate) fn is_at(&self, node: NodeId) -> bool {
        self.target == node
    }
}

/// The event that a coordinator gets instead of the answer to a request.
fn missed(replica: ReplicaIndex, request: Request, why: Miss) -> Option<Event> {
    Some(match request {
        Request::Write { round, .. } => Event::Write(WriteEvent::Missed {
            round,
            replica,
            why,
        }),
        Request::Repair { .. } => Event::Read(ReadEvent::RepairMissed { replica, why }),
        Request::Read => Event::Read(ReadEvent::Missed { replica, why }),
        Request::Prepare { .. } | Request::Accept { .. } | Request::Release { .. } => {
            return conditional::missed(replica, request, why);
        }
    })
}

impl World {
    /// A message arrives, or is lost.
    pub(crate) fn deliver(&mut self, message: usize) {
        match self.messages.swap_remove(message) {
            Message::Request {
                operation,
                replica,
                request,
            } => {
                if let Some(event) = self.serve(operation, replica, request) {
                    self.messages.push(Message::Answer { operation, event });
                }
            }
            Message::Answer { operation, event } => self.step(operation, event),
        }
    }

    /// What the answer to a request is; [`None`] if there is none, or not yet.
    fn serve(
        &mut self,
        operation: usize,
        replica: ReplicaIndex,
        request: Request,
    ) -> Option<Event> {
        let Operation {
            coordinator,
            epoch,
            ref nodes,
            ..
        } = self.operations[operation];
        let target = nodes[replica.as_usize()];
        if let Err(why) = self.reach(coordinator, target, epoch) {
            return missed(replica, request, why);
        }
        self.serve_here(operation, target, replica, request)
    }

    /// What a node answers to a request that has reached it.
    fn serve_here(
        &mut self,
        operation: usize,
        target: NodeId,
        replica: ReplicaIndex,
        request: Request,
    ) -> Option<Event> {
        let counts = self.node(target).is_voter || self.bug == Some(Bug::LostCounts);
        let copies = self.replicas.from;
        let store = &mut self.node_mut(target).store;
        let event = match request {
            Request::Write { version, .. } | Request::Repair { version } => {
                let Some(newer_version) = store.put(version) else {
                    self.held.push(Held {
                        operation,
                        target,
                        replica,
                        request,
                    });
                    return None;
                };
                match request {
                    Request::Write { round, .. } => Event::Write(WriteEvent::Stored {
                        round,
                        replica,
                        newer_version,
                    }),
                    _ => Event::Read(ReadEvent::Repaired {
                        replica,
                        newer_version,
                    }),
                }
            }
            Request::Read => Event::Read(ReadEvent::Answered {
                replica,
                entry: entry_of(store.newest(), copies),
                is_dead: false,
                gc_threshold: Timestamp::ZERO,
            }),
            // A store that does not count neither promises nor accepts.
            Request::Prepare { .. } | Request::Accept { .. } if !counts => {
                return missed(replica, request, Miss::Learner);
            }
            Request::Prepare { .. } | Request::Accept { .. } | Request::Release { .. } => {
                let event = self.serve_conditional(operation, target, replica, request);
                self.wake(target);
                event?
            }
        };
        self.wake(target);
        if !counts {
            return missed(replica, request, Miss::Learner);
        }
        if self.loses() {
            return missed(replica, request, Miss::Timeout);
        }
        Some(event)
    }

    /// What has waited at a node goes on, if its promise is gone.
    pub(crate) fn wake(&mut self, node: NodeId) {
        while self.node(node).store.promise.is_none()
            && let Some(index) = self.held.iter().position(|held| held.target == node)
        {
            let Held {
                operation,
                target,
                replica,
                request,
            } = self.held.remove(index);
            if let Some(event) = self.serve_here(operation, target, replica, request) {
                self.messages.push(Message::Answer { operation, event });
            }
        }
    }

    /// Whether a node serves a request of another one that goes by a list, and why not.
    fn reach(&mut self, from: NodeId, to: NodeId, epoch: Epoch) -> Result<(), Miss> {
        let is_dead = self.list(epoch).dead().contains(to);
        let node = self.node(to);
        if !node.is_up || is_dead || self.loses() {
            return Err(Miss::Timeout);
        }
        let node = self.node(to);
        let is_member = self.list(node.epoch).live().contains(from);
        let is_refused = !is_member && self.bug != Some(Bug::NoRefusal)
            || epoch < node.floor && self.bug != Some(Bug::NoFloor);
        if is_refused {
            return Err(match self.bug {
                Some(Bug::RestampRefused) => Miss::Refused,
                _ => Miss::OtherEpoch,
            });
        }
        Ok(())
    }
}
