//! Serves what peers ask of this node: its own store, its part in repairs, and its report.

use crate::admin_jobs::backups;
use crate::member_changes::{Introductions, hear_waiting};
use crate::node::Node;
use cluster::layout::paxos::VoteAnswer;
use membership::Exchanged;
use peer::{ListAnswer, ListRequest, NodeReport, PeerAnswer, PeerRequest, Reply, RequestHandler};
use repair::session::RepairWorker;
use replica::{Peers, ReplicaSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Serves the requests of peers on one runtime.
pub(crate) struct PeerRequests {
    pub(crate) replicas: Rc<ReplicaSet>,
    pub(crate) repair: Rc<RepairWorker>,
    pub(crate) node: Arc<Node>,
    pub(crate) peers: Rc<Peers>,
    /// How nodes are dialled that wait to join.
    pub(crate) introductions: Rc<Introductions>,
}

impl RequestHandler for PeerRequests {
    fn serve(self: &Rc<Self>, request: PeerRequest, mut reply: Reply) {
        if let Some(trace) = reply.trace() {
            self.node.traced.time(trace, &request, &mut reply);
        }
        let own = self.replicas.own();
        match request {
            PeerRequest::Write(entry) => own.write_for_peer(entry, None, reply),
            PeerRequest::Repair {
                gc_threshold,
                entry,
            } => own.write_for_peer(entry, Some(gc_threshold), reply),
            PeerRequest::RepairWrite { session, entry } => {
                self.repair.serve_repair_write(session, entry, reply);
            }
            PeerRequest::Read(key) | PeerRequest::ReadUnlessSame { key, .. } => {
                own.read_for_peer(key, reply);
            }
            PeerRequest::Promise(request) => own.promise_for_peer(request, reply),
            PeerRequest::Accept { ballot, entry } => own.accept_for_peer(ballot, entry, reply),
            PeerRequest::Page(request) => own.page_for_peer(request, reply),
            PeerRequest::Session(request) => self.repair.serve(request, reply),
            PeerRequest::Backup(request) => {
                let backups = Arc::clone(&self.node.backups);
                tokio::task::spawn_local(async move {
                    let deadline = reply.deadline();
                    let answer = backups::answer(&backups, request, deadline).await;
                    reply.send(PeerAnswer::Backup(answer));
                });
            }
            PeerRequest::List(request) => self.list(request, reply),
            PeerRequest::Examine => {
                let own = Rc::clone(self);
                tokio::task::spawn_local(async move {
                    let report = report(&own.node, &own.peers, reply.deadline()).await;
                    reply.send(PeerAnswer::Examined(Box::new(report)));
                });
            }
        }
    }
}

impl PeerRequests {
    /// Serves a request about the list of members.
    fn list(&self, request: ListRequest, reply: Reply) {
        let membership = &self.node.membership;
        let exchanged = |exchanged: Exchanged| {
            let list = exchanged.list.map(|list| Box::new((*list).clone()));
            let acceptor = Box::new(exchanged.acceptor);
            PeerAnswer::List(ListAnswer::Exchanged { list, acceptor })
        };
        match request {
            ListRequest::Exchange(list) => {
                reply.send(exchanged(membership.exchange_lists(list.as_deref())));
            }
            ListRequest::Wait {
                joiner,
                unix_ms,
                disk,
            } => {
                let changes = &self.node.changes;
                hear_waiting(changes, &self.introductions, &joiner, unix_ms, disk);
                reply.send(exchanged(membership.exchange_lists(None)));
            }
            ListRequest::Knows(name) => {
                let known = self.node.changes.knows(&name);
                reply.send(PeerAnswer::List(ListAnswer::Known(known)));
            }
            ListRequest::Vote(request) => {
                let (sender, voted) = oneshot::channel();
                membership.vote(*request, move |answer| {
                    // The connection may have ended.
                    let _is_awaited = sender.send(answer).is_ok();
                });
                tokio::task::spawn_local(async move {
                    let answer = voted.await.unwrap_or(VoteAnswer::Missed);
                    reply.send(PeerAnswer::List(ListAnswer::Voted(Box::new(answer))));
                });
            }
        }
    }
}

/// How this node is, in time for `deadline` on the monotonic clock.
pub(crate) async fn report(node: &Node, peers: &Peers, deadline: Duration) -> NodeReport {
    let see = || (node.snapshot(), peers.statuses());
    node.report.tell(deadline, see).await
}
